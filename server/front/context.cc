#include "server/front/context.h"

#include "server/front/limits.h"

namespace widelane {

absl::Status Admission::Enter() {
  const uint64_t requests = requests_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (requests <= limits_.max_queued_requests) return absl::OkStatus();
  Leave();
  return LimitError(kMaxQueuedRequests, limits_.max_queued_requests, "the server is full: requests in it:", requests);
}

absl::Status Admission::TakeBytes(uint64_t bytes) {
  const uint64_t sum = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (sum <= limits_.max_queued_bytes) return absl::OkStatus();
  GiveBytes(bytes);
  return LimitError(kMaxQueuedBytes, limits_.max_queued_bytes, "the server is full: bytes of requests in it:", sum);
}

absl::Status Admission::TakeRows(uint64_t rows) {
  const uint64_t sum = rows_.fetch_add(rows, std::memory_order_relaxed) + rows;
  if (sum <= limits_.max_queued_rows) return absl::OkStatus();
  GiveRows(rows);
  return LimitError(kMaxQueuedRows, limits_.max_queued_rows, "the server is full: rows in it:", sum);
}

absl::Status Admission::TakeReplyBytes(uint64_t bytes) {
  const uint64_t sum = reply_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (sum <= limits_.max_queued_reply_bytes) return absl::OkStatus();
  GiveReplyBytes(bytes);
  return LimitError(kMaxQueuedReplyBytes, limits_.max_queued_reply_bytes,
                    "the server is full: bytes of replies in it:", sum);
}

}  // namespace widelane
