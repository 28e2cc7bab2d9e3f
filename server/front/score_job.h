// One request from its bytes to the bytes of its reply, whichever way it came: admission, decoding, checks, scoring,
// the reply and the accounting. Used again and again.
//
// A job is its user's (UnaryCall, StreamMessage) from Renew on, and in use by several at once: the thread that runs Go,
// the batcher, whoever withdraws it. The user counts them and keeps the job until all are through.

#ifndef WIDELANE_SERVER_FRONT_SCORE_JOB_H_
#define WIDELANE_SERVER_FRONT_SCORE_JOB_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "grpcpp/alarm.h"
#include "grpcpp/completion_queue.h"
#include "server/batching/score_task.h"
#include "server/front/context.h"
#include "server/front/queue_tag.h"
#include "server/front/reply_writer.h"
#include "server/front/score_codec.h"
#include "server/front/solo_scorer.h"
#include "server/front/trace_parent.h"
#include "server/observe/call_scope.h"
#include "server/observe/trace/request_trace.h"
#include "widelane/engine/context_sums.h"

namespace widelane {

class ScoreJob : public ScoreTask, public QueueUser {
 public:
  using TimePoint = Clock::TimePoint;

  void OnRows(const Slab& slab, const Segment& segment, uint64_t first_row) override;
  void Resume() override;
  void OnDone(const absl::Status& status) override;
  void OnEvent(QueueEvent event, bool ok, SoloScorer& solo) override;

 protected:
  // `queue` is where Resume goes on.
  ScoreJob(FrontContext& context, grpc::CompletionQueue& queue)
      : context_(context), queue_(queue), trace_(context.tracer) {}

  // The one place where an outcome is told. `reply` has slices when `status` is OK. The request has been let go of.
  virtual void Answer(const absl::Status& status, ReplySlices reply) = 0;
  // Of the caller; asked while the request is in use, by one thread at a time.
  virtual std::optional<TraceParent> trace_parent() const = 0;
  // Nobody looks at the bytes of the request any more.
  virtual void ReleaseBytes() = 0;

  // In this order, for each request:
  // From here on it may be withdrawn.
  void Renew();
  void Start(Method method);
  // Takes a request of so many bytes in; the bytes themselves are the user's to take.
  absl::Status Admit(uint64_t bytes);
  // Runs `decode`, which reads request(). That there is no memory for it is the request's problem, not the server's.
  static absl::Status WithMemory(absl::FunctionRef<absl::Status()> decode);
  // The deadline has not passed.
  absl::Status SetDeadline(TimePoint deadline);
  // Scores request() and answers, now or later; or answers `status` if that is an error.
  void Go(const absl::Status& status, SoloScorer& solo);
  // For whoever knows, before it leaves, when the reply had been sent.
  void Sent(CallScope::TimePoint when) { scope_->Sent(when); }
  // When the reply has been sent or is not to be: the job leaves the server.
  void Leave();

  // Nobody wants the answer any more. Any thread, between Renew and Leave, and after it until the next Renew; then it
  // does nothing.
  void Withdraw();
  // What a client that has gone is counted as.
  absl::Status WhyGone() const;
  bool withdrawn() const { return withdrawn_.load(std::memory_order_acquire); }

  // Memory of the request, until it is let go of.
  absl::Status TakeBytes(uint64_t bytes);
  FrontContext& context() { return context_; }
  ScoreRequestView& request() { return stream_request_.request; }
  StreamRequestView& stream_request() { return stream_request_; }
  // The status that Answer sends has been turned into this code: gRPC gets it next.
  void HandOver(int code);

 private:
  struct Scored {
    const TaskTimes& times;
    uint64_t ignored_features;
    uint64_t reply_bytes;
  };

  absl::Status Prepare();
  absl::Status PrepareWork();
  absl::Status CheckRows(const CsrLimits& limits);
  absl::Status CheckAllContexts(const CsrLimits& limits);
  absl::Status PrepareContexts();
  absl::Status PrepareReply();
  bool ScoreAlone(SoloScorer& solo);
  void Conclude(const absl::Status& status, const TaskTimes& times, uint64_t ignored);
  void TellIfSlow(const absl::Status& status, const TaskTimes& times);
  v1::StageTimes MakeStageTimes(const TaskTimes& times) const;
  void ReleaseRequest();

  FrontContext& context_;
  grpc::CompletionQueue& queue_;
  QueueTag resume_tag_{this, QueueEvent::kResume};

  // Of the current request.
  std::optional<CallScope> scope_;
  std::mutex alarm_mutex_;  // the alarm may go off, and the job end, before the thread that set it is back
  std::optional<grpc::Alarm> alarm_;
  std::atomic<bool> submitted_{false};  // the batcher knows the task
  std::atomic<bool> withdrawn_{false};
  bool entered_ = false;
  uint64_t bytes_taken_ = 0;
  uint64_t rows_taken_ = 0;
  uint64_t context_rows_ = 0;
  uint64_t reply_bytes_taken_ = 0;
  StreamRequestView stream_request_;
  ContextSums context_sums_;
  const ServedModel* served_ = nullptr;
  ReplyWriter reply_;
  const ModelMetrics* model_metrics_ = nullptr;  // null unless the request named a model that is served
  std::optional<Scored> scored_;                 // while a request is answered with results
  RequestTrace trace_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_SCORE_JOB_H_
