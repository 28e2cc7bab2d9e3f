// Threads that share the work of one large batch with the thread that asks.

#ifndef WIDELANE_ENGINE_SRC_CPU_THREAD_POOL_H_
#define WIDELANE_ENGINE_SRC_CPU_THREAD_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace widelane::cpu {

class ThreadPool {
 public:
  // `helpers` threads besides the callers.
  explicit ThreadPool(size_t helpers);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls body(worker, chunk) once for each chunk below `chunks`, on the calling thread (worker 0) and on idle helpers
  // (workers 1 to helpers()), and returns when all are done. Any number of threads may call at once. `body` must not
  // throw.
  void ForEachChunk(size_t chunks, absl::FunctionRef<void(size_t worker, size_t chunk)> body);

  size_t helpers() const { return threads_.size(); }

 private:
  // One ForEachChunk call, on its caller's stack. Guarded by mutex_.
  struct Job {
    Job(absl::FunctionRef<void(size_t, size_t)> chunk_body, size_t chunk_count)
        : body(chunk_body), chunks(chunk_count) {}

    absl::FunctionRef<void(size_t, size_t)> body;
    size_t chunks;
    size_t next = 0;
    size_t done = 0;
    std::condition_variable finished;
  };

  void Help(size_t worker);
  // Runs chunks of `job` until none is left to take. The lock is held on entry and on return.
  void RunChunks(Job& job, size_t worker, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable work_;
  std::vector<Job*> jobs_;  // those with chunks left to take
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace widelane::cpu

#endif  // WIDELANE_ENGINE_SRC_CPU_THREAD_POOL_H_
