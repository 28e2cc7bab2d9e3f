#include "server/front/score_call.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/front/limits.h"
#include "server/front/score_queue.h"
#include "server/front/status_mapping.h"
#include "widelane/engine/errors.h"

namespace widelane {

namespace {

using Clock = std::chrono::steady_clock;

// The deadline on the steady clock; far away for a call without one.
Clock::time_point ToSteady(std::chrono::system_clock::time_point deadline) {
  constexpr std::chrono::hours kFar{24 * 365};
  const auto now = std::chrono::system_clock::now();
  if (deadline > now + kFar) return Clock::now() + kFar;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(deadline - now);
}

uint64_t Nanoseconds(std::chrono::nanoseconds time) {
  return static_cast<uint64_t>(std::max<int64_t>(time.count(), 0));
}

}  // namespace

ScoreCall::ScoreCall(FrontContext& context, ScoreQueue& queue) : context_(context), queue_(queue) {}

void ScoreCall::Post() {
  rpc_.emplace();
  cancelled_.store(false, std::memory_order_relaxed);
  tags_left_.store(2, std::memory_order_relaxed);
  rpc_->context.AsyncNotifyWhenDone(&done_tag_);
  queue_.RequestCall(rpc_->context, rpc_->request, rpc_->writer, &request_tag_);
}

void ScoreCall::OnEvent(Event event, bool ok) {
  switch (event) {
    case Event::kRequest:
      // Not ok: the server is stopping, there was no call, and the done tag never comes.
      if (!ok) return End();
      queue_.PostAnother();
      return Handle();
    case Event::kResume:
      return context_.batcher.load(std::memory_order_acquire)->Continue(*this);
    case Event::kDone:
      cancelled_.store(rpc_->context.IsCancelled(), std::memory_order_release);
      break;
    case Event::kFinish:
      break;
  }
  if (tags_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) End();
}

// Only now is the reply off our hands: a client that reads slowly keeps its share of what may be in the server.
void ScoreCall::End() {
  scope_.reset();
  context_.admission.GiveReplyBytes(std::exchange(reply_bytes_taken_, 0));
  if (std::exchange(entered_, false)) context_.admission.Leave();
  rpc_.reset();
  { const std::lock_guard wait_for_resume(alarm_mutex_); }
  queue_.Retire(*this);
}

void ScoreCall::Handle() {
  scope_.emplace(context_.metrics, Method::kScore);
  if (const absl::Status status = TryPrepare(); !status.ok()) {
    context_.metrics.OnRefused(status);
    Complete(status, {});
    return;
  }
  // From here on the call may end, and begin anew, on another thread.
  context_.batcher.load(std::memory_order_acquire)->Submit(*this);
}

// Memory for a request is asked for here; that there is none is the request's problem, not the server's.
absl::Status ScoreCall::TryPrepare() {
  try {
    return Prepare();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the server has no memory for the request");
  }
}

absl::Status ScoreCall::Prepare() {
  work_.received = scope_->start();
  deadline_ = ToSteady(rpc_->context.deadline());
  if (absl::Status status = CheckDeadline(); !status.ok()) return status;
  if (absl::Status status = Admit(rpc_->request.Length()); !status.ok()) return status;
  if (absl::Status status = ReadRequest(); !status.ok()) return status;
  return PrepareReply();
}

absl::Status ScoreCall::CheckDeadline() {
  if (Clock::now() < deadline_) return absl::OkStatus();
  return absl::DeadlineExceededError("the deadline had passed when the request arrived");
}

absl::Status ScoreCall::Admit(uint64_t bytes) {
  context_.metrics.OnRequestBytes(bytes);
  const LimitsConfig& limits = context_.config.limits;
  if (bytes > limits.max_message_bytes) {
    return LimitError(kMaxMessageBytes, limits.max_message_bytes, "bytes of the message:", bytes);
  }
  if (absl::Status status = context_.admission.Enter(); !status.ok()) return status;
  entered_ = true;
  return TakeBytes(bytes);
}

absl::Status ScoreCall::TakeBytes(uint64_t bytes) {
  if (absl::Status status = context_.admission.TakeBytes(bytes); !status.ok()) return status;
  bytes_taken_ += bytes;
  return absl::OkStatus();
}

absl::Status ScoreCall::ReadRequest() {
  const LimitsConfig& limits = context_.config.limits;
  if (!rpc_->request.TrySingleSlice(&message_).ok() && !rpc_->request.DumpToSingleSlice(&message_).ok()) {
    return absl::InternalError("the message cannot be read");
  }
  rpc_->request.Clear();
  const absl::string_view bytes(reinterpret_cast<const char*>(message_.begin()), message_.size());
  const auto take = [this](uint64_t more) { return TakeBytes(more); };
  if (absl::Status status = DecodeScoreRequest(bytes, limits, take, request_); !status.ok()) return status;

  const auto served = context_.registry.FindAvailable(request_.model, request_.version);
  if (!served.ok()) return served.status();
  served_ = *served;
  const Model& model = served_->loaded()->model();
  if (request_.csr.features.has_value() && *request_.csr.features != model.features()) {
    return FieldError("rows.features",
                      absl::StrCat("is ", *request_.csr.features, ", the model has ", model.features(), " features"));
  }
  const CsrLimits csr_limits{limits.max_request_rows, limits.max_request_entries,
                             context_.batcher.load(std::memory_order_acquire)->engine().limits().max_row_entries};
  const auto shape = CheckShape(request_.csr, csr_limits);
  if (!shape.ok()) {
    CsrLimits longer_rows = csr_limits;
    longer_rows.max_row_entries = kMaxRowEntries;
    const bool only_too_long = CheckShape(request_.csr, longer_rows).ok();
    const absl::Status status = InRows(shape.status());
    return only_too_long ? AboutLimit(status, kSlabEntries) : status;
  }

  work_.csr = request_.csr;
  work_.shape = *shape;
  work_.model = served_->loaded();
  work_.kind = {NarrowestValues(request_.csr.values), 0};
  return absl::OkStatus();
}

absl::Status ScoreCall::PrepareReply() {
  const ReplyShape shape{&work_.model->model(), served_->version(), work_.shape.rows,
                         request_.outputs,      request_.top_k,     served_->longest_label()};
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

absl::Status ScoreCall::CheckWanted() const {
  if (Clock::now() >= deadline_) return absl::DeadlineExceededError("the deadline passed while the request waited");
  if (cancelled_.load(std::memory_order_acquire)) return absl::CancelledError("the client has gone");
  return absl::OkStatus();
}

void ScoreCall::OnRows(const Slab& slab, const Segment& segment, uint64_t first_row) {
  reply_.Add(slab, segment, first_row);
}

void ScoreCall::Resume() {
  const std::lock_guard lock(alarm_mutex_);
  alarm_.emplace();
  alarm_->Set(&queue_.completion_queue(), std::chrono::system_clock::now(), &resume_tag_);
}

void ScoreCall::OnDone(const absl::Status& status) {
  const absl::Status result = status.ok() ? reply_.Check() : InRows(status);
  if (!result.ok()) return Complete(result, {});
  grpc::ByteBuffer reply;
  if (request_.stage_times) {
    const v1::StageTimes times = MakeStageTimes();
    reply = reply_.Finish(ignored_features(), &times);
  } else {
    reply = reply_.Finish(ignored_features(), nullptr);
  }
  CountReply(reply);
  Complete(absl::OkStatus(), reply);
}

v1::StageTimes ScoreCall::MakeStageTimes() const {
  const auto now = Clock::now();
  const TaskTimes& from = times();
  v1::StageTimes to;
  to.set_queue_ns(Nanoseconds(from.stages[Stage::kQueue]));
  to.set_pack_ns(Nanoseconds(from.stages[Stage::kPack]));
  to.set_launch_ns(Nanoseconds(from.stages[Stage::kLaunch]));
  to.set_transfer_in_ns(Nanoseconds(from.stages[Stage::kTransferIn]));
  to.set_compute_ns(Nanoseconds(from.stages[Stage::kCompute]));
  to.set_transfer_out_ns(Nanoseconds(from.stages[Stage::kTransferOut]));
  to.set_total_ns(Nanoseconds(now - work_.received));
  to.set_batches(from.batches);
  to.set_batch_rows(from.batch_rows);
  if (from.batches == 0) return to;
  to.set_reply_ns(Nanoseconds(now - from.results_ready));
  const auto& devices = context_.batcher.load(std::memory_order_acquire)->engine().devices();
  if (from.device >= 0) to.set_device(devices[static_cast<size_t>(from.device)].id);
  return to;
}

void ScoreCall::CountReply(const grpc::ByteBuffer& reply) {
  Metrics& metrics = context_.metrics;
  served_->metrics()->rows->Increment(static_cast<double>(work_.shape.rows));
  if (ignored_features() > 0) served_->metrics()->ignored_features->Increment(static_cast<double>(ignored_features()));
  metrics.OnEntries(work_.shape.entries);
  metrics.OnReplyBytes(reply.Length());
  if (times().batches > 0) metrics.OnReplyStage(times().device, Clock::now() - times().results_ready);
}

void ScoreCall::ReleaseRequest() {
  rpc_->request.Clear();
  message_ = grpc::Slice();
  work_.model.reset();
  served_ = nullptr;
  reply_.Reset();
  const size_t kept =
      std::max({request_.plain_indptr.capacity(), request_.plain_indices.capacity(), request_.plain_values.capacity()});
  if (kept > kFreePlainElements) request_ = {};
  context_.admission.GiveBytes(std::exchange(bytes_taken_, 0));
}

void ScoreCall::Complete(const absl::Status& status, const grpc::ByteBuffer& reply) {
  ReleaseRequest();
  absl::Status sent = status;
  // What is sent to a client that has gone goes nowhere; count what it saw.
  if (cancelled_.load(std::memory_order_acquire)) {
    sent = Clock::now() >= deadline_ ? absl::DeadlineExceededError("the deadline has passed")
                                     : absl::CancelledError("the client has gone");
  }
  const grpc::Status grpc_status = ToGrpcStatus(sent);
  scope_->set_code(grpc_status.error_code());
  if (grpc_status.ok()) {
    rpc_->writer.Finish(reply, grpc_status, &finish_tag_);
  } else {
    rpc_->writer.FinishWithError(grpc_status, &finish_tag_);
  }
}

}  // namespace widelane
