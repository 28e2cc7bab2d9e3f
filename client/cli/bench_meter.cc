#include "client/cli/bench_meter.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace widelane::cli {

const char* StatusCodeName(size_t code) {
  static constexpr std::array<const char*, kStatusCodes> kNames = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  return kNames[code];
}

void LoadMeter::Answered(LoadTime start, LoadTime now, size_t bytes_out, size_t bytes_in) {
  NoteCall();
  if (window_.Has(window_.open ? start : now)) latencies_.Add(now - start);
  if (!window_.Has(now)) return;
  ++counts_.answered;
  counts_.bytes_out += bytes_out;
  counts_.bytes_in += bytes_in;
}

void LoadMeter::Failed(LoadTime now, int code, absl::string_view message) {
  NoteCall();
  const auto known = static_cast<size_t>(code);
  const size_t index = known < kStatusCodes ? known : static_cast<size_t>(grpc::StatusCode::UNKNOWN);
  NoteError(absl::StrCat(StatusCodeName(index), ": ", message));
  // Those that end after the window were begun in it.
  if (now >= window_.begin) ++counts_.failed[index];
}

void LoadMeter::WrongRows(LoadTime now, uint64_t got, uint64_t wanted) {
  NoteCall();
  NoteError(absl::StrCat("a reply to ", got, " rows where ", wanted, " were sent"));
  if (now >= window_.begin) ++counts_.wrong_rows;
}

void LoadMeter::Different(LoadTime now) {
  NoteError("a reply differs from the first one to the same request");
  if (now >= window_.begin) ++counts_.different;
}

void LoadMeter::NoteError(absl::string_view message) {
  if (first_error_.empty()) first_error_ = std::string(message);
}

void LoadMeter::Merge(const LoadMeter& other) {
  counts_.answered += other.counts_.answered;
  counts_.wrong_rows += other.counts_.wrong_rows;
  counts_.different += other.counts_.different;
  counts_.bytes_out += other.counts_.bytes_out;
  counts_.bytes_in += other.counts_.bytes_in;
  for (size_t c = 0; c < kStatusCodes; ++c) counts_.failed[c] += other.counts_.failed[c];
  latencies_.Merge(other.latencies_);
  if (first_error_.empty()) first_error_ = other.first_error_;
  calls_ += other.calls();
}

}  // namespace widelane::cli
