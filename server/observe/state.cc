#include "server/observe/state.h"

#include <utility>

namespace widelane {

void ServerState::Watch(Watcher watcher) {
  const std::lock_guard lock(mutex_);
  watcher_ = std::move(watcher);
  Tell();
}

void ServerState::StopWatching() {
  const std::lock_guard lock(mutex_);
  watcher_ = nullptr;
}

void ServerState::SetModelsAvailable(size_t models) {
  const std::lock_guard lock(mutex_);
  models_ = models;
  Tell();
}

void ServerState::SetLoaded() {
  const std::lock_guard lock(mutex_);
  loaded_ = true;
  Tell();
}

void ServerState::SetStopping() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  Tell();
}

bool ServerState::ready() const {
  const std::lock_guard lock(mutex_);
  return ReadyLocked();
}

std::string ServerState::NotReadyReason() const {
  const std::lock_guard lock(mutex_);
  if (stopping_) return "the server is stopping";
  if (!loaded_) return "models are loading";
  if (models_ == 0) return "no model is available";
  return "";
}

bool ServerState::WaitUntilLoaded(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return loaded_; });
}

// With the lock held, so that watchers see changes in their order.
void ServerState::Tell() {
  if (watcher_) watcher_(ReadyLocked(), models_);
  changed_.notify_all();
}

}  // namespace widelane
