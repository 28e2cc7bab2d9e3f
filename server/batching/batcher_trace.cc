// What a timeline is told of batches.

#include "server/batching/batcher.h"

namespace widelane {

void Batcher::TraceOpen(const ScoreTask& task, TaskBatch& batch) {
  batch.traced = tracer_ == nullptr ? 0 : tracer_->NewBatch();
  if (batch.traced == 0) return;
  batch.opened = clock_.Now();
  batch.model_name = task.work_.model_name;
  batch.slab->observer = tracer_;
  batch.slab->tag = BatchTag(batch.traced);
}

void Batcher::TraceBatch(const TaskBatch& batch, const Slab& slab) {
  if (batch.traced == 0) return;
  BatchRecord record;
  record.slot = static_cast<uint32_t>(batch.slot);
  record.requests = static_cast<uint32_t>(batch.live);
  record.rows = slab.rows();
  record.entries = slab.entries();
  record.device = slab.device;
  record.route = slab.route;
  record.number = batch.traced;
  record.reason = kCloseReasonNames[static_cast<size_t>(batch.close_reason)];
  record.opened = batch.opened;
  record.sealed = batch.sealed;
  record.done = clock_.Now();
  record.model = ShortName(batch.model_name);
  tracer_->Write(record);
}

void Batcher::TracePart(const TaskBatch& batch, const TaskBatch::Part& part, TimePoint done) {
  const ScoreTask::Work& work = part.task->work_;
  if (work.traced == 0 || tracer_ == nullptr) return;
  SegmentRecord record;
  record.packer = part.packer;
  record.rows = part.segment.rows;
  record.whole = part.segment.rows == work.shape.rows;
  record.request = work.traced;
  record.batch = batch.traced;
  record.pack_begin = part.pack_end - part.pack;
  record.pack_end = part.pack_end;
  record.sealed = batch.sealed;
  record.done = done;
  tracer_->Write(record);
}

}  // namespace widelane
