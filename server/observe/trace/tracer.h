// Records a timeline when asked to: what requests, batches and devices did in the next N seconds.
//
// While nothing is recorded it costs a look at on(), which tells requests and batches that they have no number; all
// else is noted only of those that have one.

#ifndef WIDELANE_SERVER_OBSERVE_TRACE_TRACER_H_
#define WIDELANE_SERVER_OBSERVE_TRACE_TRACER_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "server/batching/clock.h"
#include "server/observe/stripes.h"
#include "server/observe/trace/recording.h"
#include "server/observe/trace/records.h"
#include "widelane/engine/device.h"
#include "widelane/engine/piece_record.h"

namespace widelane {

class Tracer : public PieceObserver {
 public:
  static constexpr size_t kRecordingBytes = size_t{64} << 20;
  static constexpr std::chrono::milliseconds kSamplePeriod{5};
  static constexpr std::chrono::seconds kSendTime{1};

  struct Counters {
    uint64_t in_flight = 0;
    uint64_t queued = 0;
  };

  struct GiveBack {
    Tracer* tracer;
    void operator()(Recording* recording) const;
  };
  // Must not outlive the tracer. As long as there is one, there is no other.
  using RecordingHandle = std::unique_ptr<Recording, GiveBack>;

  explicit Tracer(Clock& clock, size_t bytes = kRecordingBytes) : clock_(clock), bytes_(bytes) {}
  // After Stop, and when nobody writes any more.
  ~Tracer() override = default;

  // What devices are called and what is counted, once they are known. Until Stop returns, `counters` may be called.
  void SetSources(std::vector<DeviceInfo> devices, std::function<Counters()> counters);
  std::vector<DeviceInfo> devices() const;

  // Records for so long, on the calling thread's time; less if the server stops. Errors: FAILED_PRECONDITION while
  // there is another, UNAVAILABLE when the server stops, RESOURCE_EXHAUSTED without memory.
  absl::StatusOr<RecordingHandle> Record(std::chrono::nanoseconds time);
  // Ends what is being recorded, for good. Then waits until it has been given back, for kSendTime at most.
  void Stop();

  // Any thread.
  bool on() const { return on_.load(std::memory_order_relaxed); }
  // Numbers of what begins now; 0 when nothing is recorded.
  uint64_t NewRequest() { return on() ? requests_.fetch_add(1, std::memory_order_relaxed) + 1 : 0; }
  uint64_t NewBatch() { return on() ? batches_.fetch_add(1, std::memory_order_relaxed) + 1 : 0; }
  // For what has a number. Nothing happens when the recording is over.
  template <typename Record>
  void Write(const Record& record) {
    const Writing writing(writers_[OwnStripe()].count);
    if (Recording* const recording = recording_.load(std::memory_order_seq_cst)) recording->Add(record);
  }
  // For slabs whose tag is BatchTag or AloneTag.
  void OnPiece(const PieceRecord& piece) override;

 private:
  // Threads that may be looking at the recording, by stripe.
  struct alignas(64) Writers {
    std::atomic<uint32_t> count{0};
  };
  class Writing {
   public:
    explicit Writing(std::atomic<uint32_t>& count) : count_(count) { count_.fetch_add(1, std::memory_order_seq_cst); }
    ~Writing() { count_.fetch_sub(1, std::memory_order_release); }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

   private:
    std::atomic<uint32_t>& count_;
  };

  void Begin(Recording& recording);
  void End(Recording& recording);
  void Sample();
  void OnGivenBack();

  Clock& clock_;
  const size_t bytes_;
  std::atomic<bool> on_{false};
  std::atomic<Recording*> recording_{nullptr};
  alignas(64) std::atomic<uint64_t> requests_{0};  // numbers given so far
  alignas(64) std::atomic<uint64_t> batches_{0};
  std::array<Writers, kStripes> writers_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool given_out_ = false;  // there is a recording, under way or not
  bool under_way_ = false;
  bool stopping_ = false;
  std::vector<DeviceInfo> devices_;
  std::function<Counters()> counters_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_TRACE_TRACER_H_
