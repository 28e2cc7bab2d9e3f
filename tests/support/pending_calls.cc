#include "tests/support/pending_calls.h"

namespace widelane::test {

PendingCalls::PendingCalls() : thread_([this] { Run(); }) {}

PendingCalls::~PendingCalls() {
  for (size_t call = 0; call < calls_.size(); ++call) Cancel(call);
  WaitForAll();
  queue_.Shutdown();
  thread_.join();
}

size_t PendingCalls::Send(v1::Scoring::Stub& stub, const v1::ScoreRequest& request,
                          std::chrono::milliseconds deadline) {
  Call* call = nullptr;
  size_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = calls_.size();
    call = &calls_.emplace_back();
  }
  call->context.set_deadline(std::chrono::system_clock::now() + deadline);
  call->reader = stub.AsyncScore(&call->context, request, &queue_);
  call->reader->Finish(&call->result.reply, &call->result.status, call);
  return number;
}

void PendingCalls::Cancel(size_t call) {
  const std::lock_guard lock(mutex_);
  if (!calls_[call].done) calls_[call].context.TryCancel();
}

bool PendingCalls::done(size_t call) const {
  const std::lock_guard lock(mutex_);
  return calls_[call].done;
}

size_t PendingCalls::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

size_t PendingCalls::Ended(grpc::StatusCode code) const {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const Call& call : calls_) count += call.done && call.result.status.error_code() == code ? 1 : 0;
  return count;
}

const ScoreResult& PendingCalls::Wait(size_t call) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return calls_[call].done; });
  return calls_[call].result;
}

void PendingCalls::WaitForAll() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_ == calls_.size(); });
}

void PendingCalls::Run() {
  void* tag = nullptr;
  for (bool ok = false; queue_.Next(&tag, &ok);) {
    const std::lock_guard lock(mutex_);
    static_cast<Call*>(tag)->done = true;
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace widelane::test
