// Whether the server is alive and ready: the one source for health service, HTTP endpoint and metrics.

#ifndef WIDELANE_SERVER_OBSERVE_STATE_H_
#define WIDELANE_SERVER_OBSERVE_STATE_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

namespace widelane {

// Starts as loading; then ready, or not if no model is available; then, for good, stopping. Any thread.
class ServerState {
 public:
  // Called with each change, and once by Watch itself, one call at a time. Must not call back.
  using Watcher = std::function<void(bool ready, size_t models_available)>;
  void Watch(Watcher watcher);
  // After this no watcher runs any more.
  void StopWatching();

  void SetModelsAvailable(size_t models);
  void SetLoaded();
  void SetStopping();

  bool ready() const;
  // Why the server is not ready; empty when it is.
  std::string NotReadyReason() const;
  bool WaitUntilLoaded(std::chrono::milliseconds timeout) const;

 private:
  bool ReadyLocked() const { return loaded_ && !stopping_ && models_ > 0; }
  void Tell();

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Watcher watcher_;
  size_t models_ = 0;
  bool loaded_ = false;
  bool stopping_ = false;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_STATE_H_
