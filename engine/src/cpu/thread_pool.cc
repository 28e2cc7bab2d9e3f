#include "cpu/thread_pool.h"

#include <algorithm>

namespace widelane::cpu {

ThreadPool::ThreadPool(size_t helpers) {
  jobs_.reserve(64);
  threads_.reserve(helpers);
  for (size_t i = 0; i < helpers; ++i) threads_.emplace_back([this, i] { Help(i + 1); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::ForEachChunk(size_t chunks, absl::FunctionRef<void(size_t, size_t)> body) {
  if (chunks == 0) return;
  Job job(body, chunks);
  std::unique_lock<std::mutex> lock(mutex_);
  if (chunks > 1 && !threads_.empty()) {
    jobs_.push_back(&job);
    work_.notify_all();
  }
  RunChunks(job, 0, lock);
  job.finished.wait(lock, [&job] { return job.done == job.chunks; });
}

void ThreadPool::RunChunks(Job& job, size_t worker, std::unique_lock<std::mutex>& lock) {
  while (job.next < job.chunks) {
    const size_t chunk = job.next++;
    if (job.next == job.chunks) jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), &job), jobs_.end());
    lock.unlock();
    job.body(worker, chunk);
    lock.lock();
    // Once the last chunk is counted the caller may return and the job is gone: nothing of it is touched after the
    // notice.
    if (++job.done == job.chunks) {
      job.finished.notify_one();
      return;
    }
  }
}

void ThreadPool::Help(size_t worker) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    RunChunks(*jobs_.front(), worker, lock);
  }
}

}  // namespace widelane::cpu
