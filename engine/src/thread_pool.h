// Threads that share the work of one batch with the thread that asks.
//
// A job is a number of chunks. Publishing one is a store, taking a chunk a compare-and-swap, so that a helper that is
// awake joins within a fraction of a microsecond. Whoever has taken a chunk may use the job until it has counted that
// chunk as done, and the caller waits for all chunks: nobody else ever looks beyond the slot, which is the pool's.

#ifndef WIDELANE_ENGINE_SRC_THREAD_POOL_H_
#define WIDELANE_ENGINE_SRC_THREAD_POOL_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace widelane {

class ThreadPool {
 public:
  // `helpers` threads besides the callers. One without work looks for it for `spin` before it sleeps; 0: it sleeps at
  // once, for machines whose cores are wanted elsewhere.
  ThreadPool(size_t helpers, std::chrono::microseconds spin);
  // No ForEachChunk is running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls body(worker, chunk) once for each chunk below `chunks` (less than 2^32), on the calling thread (worker 0) and
  // on idle helpers (workers 1 to helpers(), each always the same thread), and returns when all are done. Any number of
  // threads may call at once, and `body` may call again. `body` must not throw.
  void ForEachChunk(size_t chunks, absl::FunctionRef<void(size_t worker, size_t chunk)> body);

  size_t helpers() const { return threads_.size(); }

 private:
  using Body = absl::FunctionRef<void(size_t, size_t)>;

  // Place of one job. On cache lines of its own, since helpers look at it all the time.
  struct alignas(128) Slot {
    std::atomic<bool> used{false};
    std::atomic<uint32_t> left{0};                 // chunks nobody has taken: the next to take is left - 1
    const Body* body = nullptr;                    // written while `left` is 0 and nothing runs
    alignas(64) std::atomic<uint32_t> running{0};  // chunks not done yet, taken or not
  };
  // Jobs at once; the callers of further ones do them alone.
  static constexpr size_t kSlots = 8;

  Slot* UseFreeSlot();
  // Runs chunks of the slot's job until none is left to take; whether there was any.
  bool RunChunks(Slot& slot, size_t worker);
  bool RunAnything(size_t worker);
  bool AnythingLeft() const;
  void WaitUntilDone(Slot& slot) const;
  void Help(size_t worker);
  // Wakes sleeping helpers if too few are awake: a few, who wake others, so that no caller pays for waking them all.
  void WakeSome(uint32_t chunks_left);
  void Sleep();

  std::array<Slot, kSlots> slots_;
  const std::chrono::microseconds spin_;
  std::atomic<uint32_t> sleeping_{0};
  std::atomic<uint32_t> busy_{0};                   // threads that are running chunks, callers too
  alignas(64) std::atomic<uint32_t> published_{0};  // jobs there have been
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable work_;
  std::vector<std::thread> threads_;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_THREAD_POOL_H_
