#include "server/observe/trace/timeline_index.h"

#include <algorithm>

namespace widelane {

TimelineIndex::TimelineIndex(const Recording& recording)
    : first_request_(recording.first_request),
      first_batch_(recording.first_batch),
      requests_(recording.last_request + 1 - recording.first_request),
      batches_(recording.last_batch + 1 - recording.first_batch) {
  recording.ForEach([this](const auto& record) { Note(record); });
}

void TimelineIndex::Note(const RequestRecord& record) {
  Request* const request = At(requests_, record.number, first_request_);
  if (request == nullptr) return;
  *request = {true, record.prepared};
  ++requests_recorded_;
  threads_.insert(record.receiver);
  threads_.insert(record.replier);
}

void TimelineIndex::Note(const SegmentRecord& record) { threads_.insert(record.packer); }

void TimelineIndex::Note(const BatchRecord& record) {
  Batch* const batch = At(batches_, record.number, first_batch_);
  if (batch == nullptr) return;
  batch->recorded = true;
  batch->slot = record.slot;
  ++batches_recorded_;
  slots_.insert(record.slot);
}

void TimelineIndex::Note(const TracePieceRecord& record) {
  if (record.lane == PieceRecord::kThread) {
    threads_.insert(record.thread);
  } else {
    lanes_.insert({record.device, record.lane});
  }
  Batch* const batch = IsAlone(record.tag) ? nullptr : At(batches_, NumberOf(record.tag), first_batch_);
  if (batch == nullptr) return;
  batch->begun = batch->begun == TracePoint() ? record.begun : std::min(batch->begun, record.begun);
}

}  // namespace widelane
