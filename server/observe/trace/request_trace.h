// One request's way through a timeline. All but Start do nothing when nothing was recorded at Start.

#ifndef WIDELANE_SERVER_OBSERVE_TRACE_REQUEST_TRACE_H_
#define WIDELANE_SERVER_OBSERVE_TRACE_REQUEST_TRACE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/observe/trace/records.h"
#include "server/observe/trace/tracer.h"

namespace widelane {

// Used by whoever works on the request, one thread at a time.
class RequestTrace {
 public:
  explicit RequestTrace(Tracer& tracer) : tracer_(tracer) {}

  // `method` lives as long as the program.
  void Start(const char* method, TracePoint received) {
    record_.number = tracer_.NewRequest();
    if (on()) Begin(method, received);
  }
  bool on() const { return record_.number != 0; }
  // 0: not traced.
  uint64_t number() const { return record_.number; }
  // It has been read and checked. `priority` lives as long as the program.
  void OnPrepared(absl::string_view model, uint64_t rows, uint64_t entries, const char* priority, TracePoint now);
  // The caller's own trace, in hexadecimal digits.
  void SetTraceId(absl::string_view id) {
    if (on()) record_.trace_id = ShortName(id);
  }
  // `results_ready` is of the last of so many batches.
  void OnAnswering(TracePoint results_ready, uint32_t batches, TracePoint now);
  // Scored on this thread, without the batcher.
  void OnScoredAlone(TracePoint pack_begin, TracePoint pack_end, TracePoint done);
  // The last; the code is what the caller gets.
  void OnAnswered(int code, TracePoint now);

 private:
  void Begin(const char* method, TracePoint received);

  Tracer& tracer_;
  RequestRecord record_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_TRACE_REQUEST_TRACE_H_
