#include "server/front/score_job.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/front/limits.h"
#include "server/front/status_mapping.h"
#include "widelane/engine/errors.h"

namespace widelane {

namespace {

uint64_t Nanoseconds(std::chrono::nanoseconds time) {
  return static_cast<uint64_t>(std::max<int64_t>(time.count(), 0));
}

absl::Status CheckFeatures(const char* field, const std::optional<uint64_t>& features, const Model& model) {
  if (!features.has_value() || *features == model.features()) return absl::OkStatus();
  return FieldError(field, absl::StrCat("is ", *features, ", the model has ", model.features(), " features"));
}

}  // namespace

void ScoreJob::Renew() {
  submitted_.store(false, std::memory_order_relaxed);
  withdrawn_.store(false, std::memory_order_relaxed);
}

void ScoreJob::Start(Method method) {
  scope_.emplace(context_.metrics, method);
  work_.received = context_.clock.Now();
  trace_.Start(kMethodNames[static_cast<size_t>(method)], work_.received);
  work_.traced = trace_.number();
}

absl::Status ScoreJob::Admit(uint64_t bytes) {
  context_.metrics.OnRequestBytes(bytes);
  const LimitsConfig& limits = context_.config.limits;
  if (bytes > limits.max_message_bytes) {
    return LimitError(kMaxMessageBytes, limits.max_message_bytes, "bytes of the message:", bytes);
  }
  if (absl::Status status = context_.admission.Enter(); !status.ok()) return status;
  entered_ = true;
  work_.bytes = bytes;
  return absl::OkStatus();
}

absl::Status ScoreJob::TakeBytes(uint64_t bytes) {
  if (absl::Status status = context_.admission.TakeBytes(bytes); !status.ok()) return status;
  bytes_taken_ += bytes;
  return absl::OkStatus();
}

absl::Status ScoreJob::WithMemory(absl::FunctionRef<absl::Status()> decode) {
  try {
    return decode();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the server has no memory for the request");
  }
}

absl::Status ScoreJob::SetDeadline(TimePoint deadline) {
  work_.deadline = deadline;
  if (deadline == TimePoint::max() || context_.clock.Now() < deadline) return absl::OkStatus();
  return absl::DeadlineExceededError("the deadline had passed when the request arrived");
}

void ScoreJob::Go(const absl::Status& status, SoloScorer& solo) {
  const absl::Status prepared = status.ok() ? WithMemory([this] { return Prepare(); }) : status;
  if (!prepared.ok()) {
    context_.metrics.OnRefused(prepared);
    context_.request_log.OnRefused(prepared);
    ReleaseRequest();
    return Answer(prepared, {});
  }
  if (trace_.on()) {
    trace_.OnPrepared(work_.model_name, work_.shape.rows, work_.shape.entries,
                      kPriorityNames[static_cast<size_t>(work_.priority)], context_.clock.Now());
    if (const auto parent = trace_parent(); parent.has_value()) trace_.SetTraceId(parent->trace_id_text());
  }
  if (withdrawn()) return Conclude(WhyGone(), {}, 0);
  if (ScoreAlone(solo)) return;
  Batcher& batcher = *context_.batcher.load(std::memory_order_acquire);
  batcher.Submit(*this);
  // Either Withdraw has seen this, or this sees what Withdraw has set; twice does no harm.
  submitted_.store(true, std::memory_order_seq_cst);
  if (withdrawn_.load(std::memory_order_seq_cst)) batcher.Withdraw(*this, WhyGone());
}

void ScoreJob::Withdraw() {
  withdrawn_.store(true, std::memory_order_seq_cst);
  if (!submitted_.load(std::memory_order_seq_cst)) return;
  context_.batcher.load(std::memory_order_acquire)->Withdraw(*this, WhyGone());
}

absl::Status ScoreJob::WhyGone() const {
  if (context_.clock.Now() >= work_.deadline) return absl::DeadlineExceededError("the deadline has passed");
  return absl::CancelledError("the client has gone");
}

absl::Status ScoreJob::Prepare() {
  if (absl::Status status = PrepareWork(); !status.ok()) return status;
  if (absl::Status status = PrepareReply(); !status.ok()) return status;
  return PrepareContexts();
}

absl::Status ScoreJob::PrepareWork() {
  const ScoreRequestView& from = request();
  const auto served = context_.registry.FindAvailable(from.model, from.version);
  if (!served.ok()) return served.status();
  served_ = *served;
  work_.model_name = served_->file().name;
  model_metrics_ = served_->metrics();
  const Model& model = served_->loaded()->model();
  if (absl::Status status = CheckFeatures("rows.features", from.csr.features, model); !status.ok()) return status;
  const LimitsConfig& limits = context_.config.limits;
  CsrLimits csr_limits{limits.max_request_rows, limits.max_request_entries,
                       context_.engine.load(std::memory_order_acquire)->limits().max_row_entries};
  absl::Status checked = CheckRows(csr_limits);
  if (!checked.ok()) {
    csr_limits.max_row_entries = kMaxRowEntries;
    const bool only_too_long = CheckRows(csr_limits).ok();
    return only_too_long ? AboutLimit(std::move(checked), kSlabEntries) : checked;
  }
  const uint64_t rows = work_.shape.rows + context_rows_;
  if (absl::Status status = context_.admission.TakeRows(rows); !status.ok()) return status;
  rows_taken_ = rows;

  work_.csr = from.csr;
  work_.contexts = nullptr;
  work_.priority = from.priority;
  work_.model = served_->loaded();
  work_.kind = {.values = NarrowestValues(from.csr.values)};
  return absl::OkStatus();
}

absl::Status ScoreJob::CheckRows(const CsrLimits& limits) {
  const ScoreRequestView& from = request();
  const auto shape = CheckShape(from.csr, limits);
  if (!shape.ok()) return InRows(shape.status());
  work_.shape = *shape;
  context_rows_ = 0;
  if (!from.contexts.has_value()) return absl::OkStatus();
  const auto contexts = CheckContexts(*from.contexts, from.csr, limits);
  if (contexts.ok()) context_rows_ = contexts->rows;
  return contexts.status();
}

// Last, since it is the only part that takes time.
absl::Status ScoreJob::PrepareContexts() {
  const ScoreRequestView& from = request();
  if (!from.contexts.has_value()) return absl::OkStatus();
  work_.kind.values = std::max(work_.kind.values, NarrowestValues(from.contexts->features.values));
  work_.kind.contexts = true;
  const Engine& engine = *context_.engine.load(std::memory_order_acquire);
  const absl::Status status = context_sums_.Compute(work_.model->model(), work_.csr, *from.contexts, work_.kind.values,
                                                    engine.options().slab.context_sums);
  if (!status.ok()) {
    context_sums_.Reset();
    return absl::IsResourceExhausted(status) ? AboutLimit(status, kSlabContextSums) : InRows(status);
  }
  work_.contexts = &context_sums_;
  return TakeBytes(context_sums_.bytes());
}

absl::Status ScoreJob::PrepareReply() {
  const ReplyShape shape{&work_.model->model(), served_->version(), work_.shape.rows,
                         request().outputs,     request().top_k,    served_->longest_label()};
  if (absl::Status status = CheckReplyShape(shape); !status.ok()) return status;
  work_.kind.best = BestWanted(shape);
  work_.wants = EngineWants(*shape.model, shape.outputs);
  const uint64_t bytes = ReplyBytes(shape);
  const LimitsConfig& limits = context_.config.limits;
  if (bytes > limits.max_reply_bytes) {
    return LimitError(kMaxReplyBytes, limits.max_reply_bytes, "bytes of the reply:", bytes);
  }
  if (absl::Status status = context_.admission.TakeReplyBytes(bytes); !status.ok()) return status;
  reply_bytes_taken_ = bytes;
  reply_.Start(shape);
  return absl::OkStatus();
}

bool ScoreJob::ScoreAlone(SoloScorer& solo) {
  work_.callers = context_.admission.requests();
  const SoloWork work{work_.csr,  work_.shape, work_.contexts, work_.model,
                      work_.kind, work_.wants, work_.callers,  work_.traced};
  SoloResult result;
  const auto take = [this](const Slab& slab, const Segment& segment) { reply_.Add(slab, segment, 0); };
  if (!solo.Score(*context_.engine.load(std::memory_order_acquire), context_.metrics, context_.clock, work, take,
                  context_.tracer, result)) {
    return false;
  }
  if (result.times.batches > 0) {
    trace_.OnScoredAlone(result.pack_begin, result.pack_begin + result.times.pack, result.times.ended);
  }
  // The job may be another's when this returns.
  FrontContext& context = context_;
  Conclude(result.status, result.times, result.ignored);
  context.batcher.load(std::memory_order_acquire)->OnCoreFree();
  return true;
}

void ScoreJob::OnRows(const Slab& slab, const Segment& segment, uint64_t first_row) {
  reply_.Add(slab, segment, first_row);
}

void ScoreJob::Resume() {
  const std::lock_guard lock(alarm_mutex_);
  alarm_.emplace();
  alarm_->Set(&queue_, std::chrono::system_clock::now(), &resume_tag_);
}

void ScoreJob::OnEvent(QueueEvent /*event*/, bool /*ok*/, SoloScorer& /*solo*/) {
  context_.batcher.load(std::memory_order_acquire)->Continue(*this);
}

void ScoreJob::OnDone(const absl::Status& status) { Conclude(status, times(), ignored_features()); }

void ScoreJob::Conclude(const absl::Status& status, const TaskTimes& times, uint64_t ignored) {
  if (trace_.on()) trace_.OnAnswering(times.ended, times.batches, context_.clock.Now());
  const absl::Status result = status.ok() ? reply_.Check() : InRows(status);
  ReplySlices reply;
  if (result.ok() && !withdrawn()) {
    if (work_.contexts != nullptr) ignored += work_.contexts->ignored();
    if (request().stage_times) {
      const v1::StageTimes stage_times = MakeStageTimes(times);
      reply = reply_.Finish(ignored, &stage_times);
    } else {
      reply = reply_.Finish(ignored, nullptr);
    }
    scored_.emplace(Scored{times, ignored, reply.size()});
  }
  TellIfSlow(withdrawn() ? WhyGone() : result, times);
  ReleaseRequest();
  // What is sent to a client that has gone goes nowhere; what is counted is what it saw.
  if (withdrawn()) {
    scored_.reset();
    return Answer(WhyGone(), {});
  }
  Answer(result, std::move(reply));
}

void ScoreJob::TellIfSlow(const absl::Status& status, const TaskTimes& times) {
  RequestLog& log = context_.request_log;
  if (!log.IsSlow(context_.clock.Now() - work_.received) || !log.PassSlow()) return;
  const v1::StageTimes stage_times = MakeStageTimes(times);
  const std::optional<TraceParent> parent = trace_parent();
  RequestLog::TellSlow({.method = scope_->method(),
                        .model = served_->file().name,
                        .version = served_->version(),
                        .rows = work_.shape.rows,
                        .entries = work_.shape.entries,
                        .priority = kPriorityNames[static_cast<size_t>(work_.priority)],
                        .code = StatusCodeName(static_cast<grpc::StatusCode>(status.code())),
                        .trace_id = parent.has_value() ? parent->trace_id_text() : absl::string_view(),
                        .times = stage_times});
}

v1::StageTimes ScoreJob::MakeStageTimes(const TaskTimes& from) const {
  const auto now = std::chrono::steady_clock::now();
  v1::StageTimes to;
  to.set_total_ns(Nanoseconds(now - scope_->start()));
  to.set_batches(from.batches);
  to.set_batch_rows(from.batch_rows);
  if (from.batches == 0) return to;
  const StageTimes stages = RequestStages(from, scope_->start(), now);
  to.set_queue_ns(Nanoseconds(stages[Stage::kQueue]));
  to.set_pack_ns(Nanoseconds(stages[Stage::kPack]));
  to.set_launch_ns(Nanoseconds(stages[Stage::kLaunch]));
  to.set_transfer_in_ns(Nanoseconds(stages[Stage::kTransferIn]));
  to.set_compute_ns(Nanoseconds(stages[Stage::kCompute]));
  to.set_transfer_out_ns(Nanoseconds(stages[Stage::kTransferOut]));
  to.set_reply_ns(Nanoseconds(stages[Stage::kReply]));
  const auto& devices = context_.engine.load(std::memory_order_acquire)->devices();
  if (from.device >= 0) to.set_device(devices[static_cast<size_t>(from.device)].id);
  return to;
}

// The device's clocks and the server's are the machine's steady one, whatever the schedulers go by.
void ScoreJob::HandOver(int code) {
  const CallScope::TimePoint now = scope_->Answer(code);
  if (trace_.on()) trace_.OnAnswered(code, context_.clock.Now());
  const std::optional<Scored> scored = std::exchange(scored_, std::nullopt);
  const ModelMetrics* const model = std::exchange(model_metrics_, nullptr);
  if (model == nullptr) return;
  if (!scored.has_value()) return Metrics::OnFailed(*model);
  context_.metrics.OnScored(*model, {.rows = work_.shape.rows,
                                     .entries = work_.shape.entries,
                                     .ignored_features = scored->ignored_features,
                                     .reply_bytes = scored->reply_bytes,
                                     .times = scored->times,
                                     .received = scope_->start(),
                                     .handed = now});
}

void ScoreJob::ReleaseRequest() {
  ReleaseBytes();
  work_.model.reset();
  if (std::exchange(work_.contexts, nullptr) != nullptr) context_sums_.Reset();
  served_ = nullptr;
  reply_.Reset();
  request().Trim();
  context_.admission.GiveBytes(std::exchange(bytes_taken_, 0));
  context_.admission.GiveRows(std::exchange(rows_taken_, 0));
}

void ScoreJob::Leave() {
  scope_.reset();
  context_.admission.GiveReplyBytes(std::exchange(reply_bytes_taken_, 0));
  if (std::exchange(entered_, false)) context_.admission.Leave();
  { const std::lock_guard wait_for_resume(alarm_mutex_); }
}

}  // namespace widelane
