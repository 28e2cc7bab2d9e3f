#include "server/observe/trace/request_trace.h"

namespace widelane {

void RequestTrace::Begin(const char* method, TracePoint received) {
  const uint64_t number = record_.number;
  record_ = {};
  record_.number = number;
  record_.method = method;
  record_.receiver = ThreadNumber();
  record_.received = received;
  record_.prepared = received;
}

void RequestTrace::OnPrepared(absl::string_view model, uint64_t rows, uint64_t entries, const char* priority,
                              TracePoint now) {
  if (!on()) return;
  record_.model = ShortName(model);
  record_.rows = rows;
  record_.entries = entries;
  record_.priority = priority;
  record_.prepared = now;
}

void RequestTrace::OnAnswering(TracePoint results_ready, uint32_t batches, TracePoint now) {
  if (!on()) return;
  record_.results_ready = results_ready;
  record_.batches = batches;
  record_.answering = now;
}

void RequestTrace::OnScoredAlone(TracePoint pack_begin, TracePoint pack_end, TracePoint done) {
  if (!on()) return;
  SegmentRecord segment;
  segment.packer = ThreadNumber();
  segment.rows = static_cast<uint32_t>(record_.rows);
  segment.whole = true;
  segment.request = record_.number;
  segment.pack_begin = pack_begin;
  segment.pack_end = pack_end;
  segment.sealed = pack_end;
  segment.done = done;
  tracer_.Write(segment);
}

void RequestTrace::OnAnswered(int code, TracePoint now) {
  if (!on()) return;
  // Refused, by who received it.
  if (record_.prepared == record_.received) record_.prepared = now;
  if (record_.answering == TracePoint()) record_.answering = now;
  record_.code = code;
  record_.replier = ThreadNumber();
  record_.answered = now;
  tracer_.Write(record_);
  record_.number = 0;
}

}  // namespace widelane
