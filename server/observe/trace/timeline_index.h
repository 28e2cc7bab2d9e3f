// What a recording has, gathered before it is written: an arrow, say, is drawn only if both its ends are there.

#ifndef WIDELANE_SERVER_OBSERVE_TRACE_TIMELINE_INDEX_H_
#define WIDELANE_SERVER_OBSERVE_TRACE_TIMELINE_INDEX_H_

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "server/observe/trace/recording.h"
#include "server/observe/trace/records.h"

namespace widelane {

class TimelineIndex {
 public:
  struct Batch {
    bool recorded = false;
    uint32_t slot = 0;
    TracePoint begun;  // the first of its pieces; the epoch if none is there
  };
  struct Request {
    bool recorded = false;
    TracePoint prepared;
  };

  explicit TimelineIndex(const Recording& recording);

  // Null if it was not recorded.
  const Request* FindRequest(uint64_t number) const { return Find(requests_, number, first_request_); }
  const Batch* FindBatch(uint64_t number) const { return Find(batches_, number, first_batch_); }
  size_t requests() const { return requests_recorded_; }
  size_t batches() const { return batches_recorded_; }
  // Threads that did something.
  const std::set<uint32_t>& threads() const { return threads_; }
  const std::set<uint32_t>& slots() const { return slots_; }
  // Device and lane.
  const std::set<std::pair<uint32_t, int>>& lanes() const { return lanes_; }

 private:
  template <typename T>
  static T* At(std::vector<T>& all, uint64_t number, uint64_t first) {
    return number >= first && number - first < all.size() ? &all[number - first] : nullptr;
  }
  template <typename T>
  static const T* Find(const std::vector<T>& all, uint64_t number, uint64_t first) {
    return number >= first && number - first < all.size() && all[number - first].recorded ? &all[number - first]
                                                                                          : nullptr;
  }

  void Note(const RequestRecord& record);
  void Note(const SegmentRecord& record);
  void Note(const BatchRecord& record);
  void Note(const TracePieceRecord& record);
  void Note(const SpanRecord& /*record*/) {}
  void Note(const CountersRecord& /*record*/) {}

  const uint64_t first_request_;
  const uint64_t first_batch_;
  std::vector<Request> requests_;
  std::vector<Batch> batches_;
  size_t requests_recorded_ = 0;
  size_t batches_recorded_ = 0;
  std::set<uint32_t> threads_;
  std::set<uint32_t> slots_;
  std::set<std::pair<uint32_t, int>> lanes_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_TRACE_TIMELINE_INDEX_H_
