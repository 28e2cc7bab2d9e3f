#include "src/stream.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/convert.h"
#include "src/status.h"
#include "src/stream_message.h"

namespace widelane::client {
namespace {

using std::chrono::milliseconds;

// Between calls that end without any answer.
constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{1000};
// For the server to end a call that has no more messages.
constexpr milliseconds kHangUpTime{1000};

// Only one of each is under way at a time, so they need not tell the call.
enum Tag : intptr_t { kStarted = 1, kRead, kWritten, kFinished, kWake };
void* ToPointer(Tag tag) {
  return reinterpret_cast<void*>(static_cast<intptr_t>(tag));
}  // NOLINT(performance-no-int-to-ptr)

absl::Status TimeIsOver() { return absl::DeadlineExceededError("the server has not answered in time"); }

}  // namespace

ScoreStream::Impl::Impl(std::shared_ptr<Connection> connection, const StreamOptions& options)
    : connection_(std::move(connection)),
      max_in_flight_(std::max(options.max_in_flight, size_t{1})),
      refuse_when_full_(options.refuse_when_full),
      stub_(connection_->score_channel()),
      pause_(kFirstPause),
      thread_([this] { Run(); }),
      loop_id_(thread_.get_id()) {}

void ScoreStream::Impl::Close() {
  {
    const Lock lock(mutex_);
    if (!closing_) Wake(lock);
    closing_ = true;
    room_.notify_all();
  }
  std::call_once(joined_, [this] { thread_.join(); });
}

absl::Status ScoreStream::Impl::TakeRoom(Clock::time_point deadline) {
  Lock lock(mutex_);
  const auto ready = [this] { return closing_ || in_flight_ < max_in_flight_; };
  const bool waits = !refuse_when_full_ && !InsideDone();
  if (waits && !room_.wait_until(lock, deadline, ready)) return TimeIsOver();
  if (closing_) return absl::FailedPreconditionError("the stream is closed");
  if (!ready()) {
    return absl::ResourceExhaustedError(absl::StrCat("the stream has ", in_flight_,
                                                     " messages without an answer, as many as it may have"
                                                     " (StreamOptions::max_in_flight)"));
  }
  ++in_flight_;
  return absl::OkStatus();
}

void ScoreStream::Impl::GiveRoom(const Lock& lock) {
  --in_flight_;
  room_.notify_one();
  if (closing_ && in_flight_ == 0) Wake(lock);
}

absl::Status ScoreStream::Impl::Encode(const ScoreRequest& request, uint64_t id, Clock::time_point deadline,
                                       grpc::ByteBuffer& out) {
  v1::ScoreRequest message;
  if (absl::Status status = ToMessage(request, message); !status.ok()) return status;
  const Clock::duration left = deadline - Clock::now();
  // What it says of its length is made in 32 bits, so the first check is needed.
  const Connection::Time until =
      std::chrono::system_clock::now() + std::chrono::duration_cast<Connection::Time::duration>(left);
  const size_t bytes = message.ByteSizeLong();
  if (absl::Status status = connection_->CheckSize(request, bytes, until); !status.ok()) return status;
  out = Serialize(message);
  return connection_->CheckSize(request, StreamMessage(id, left, out).Length(), until);
}

void ScoreStream::Impl::Score(const ScoreRequest& request, Done done) {
  const Clock::time_point deadline = Clock::now() + connection_->TimeFor(request);
  if (absl::Status status = TakeRoom(deadline); !status.ok()) return done(status);
  Message message{{}, deadline, std::move(done)};
  Lock lock(mutex_);
  const uint64_t id = next_id_++;
  lock.unlock();
  absl::Status status = Encode(request, id, deadline, message.request);
  lock.lock();
  if (!status.ok()) {
    GiveRoom(lock);
    lock.unlock();
    return message.done(status);
  }
  messages_.emplace(id, std::move(message));
  unsent_.push_back(id);
  const bool earliest = deadline < look_at_;
  look_at_ = std::min(look_at_, deadline);
  if (earliest || call_ == nullptr) Wake(lock);
  const std::optional<Write> write = NextWrite(lock);
  lock.unlock();
  Make(write);
}

std::optional<ScoreStream::Impl::Write> ScoreStream::Impl::NextUnsent(const Lock& /*lock*/) {
  while (!unsent_.empty()) {
    const uint64_t id = unsent_.front();
    unsent_.pop_front();
    const auto message = messages_.find(id);
    if (message != messages_.end()) return Write{call_, id, message->second.deadline, message->second.request, false};
  }
  return std::nullopt;
}

std::optional<ScoreStream::Impl::Write> ScoreStream::Impl::NextWrite(const Lock& lock) {
  if (call_ == nullptr || !call_->open || call_->writing || call_->closed || call_->ended) return std::nullopt;
  std::optional<Write> write = std::exchange(next_write_, std::nullopt);
  if (!write.has_value()) write = NextUnsent(lock);
  if (!write.has_value()) return std::nullopt;
  // What is to be followed may wait for it in gRPC, so that both go out at once. Then it must be followed, even by a
  // message that has expired meanwhile.
  next_write_ = NextUnsent(lock);
  write->more = next_write_.has_value();
  call_->writing = true;
  return write;
}

void ScoreStream::Impl::Make(const std::optional<Write>& write) {
  if (!write.has_value()) return;
  grpc::WriteOptions options;
  if (write->more) options.set_buffer_hint();
  write->call->stream->Write(StreamMessage(write->id, write->deadline - Clock::now(), write->request), options,
                             ToPointer(kWritten));
}

ScoreStream::Impl::Answer ScoreStream::Impl::Take(const Lock& lock, Messages::iterator message,
                                                  absl::StatusOr<ScoreReply> reply) {
  Answer answer{std::move(message->second.done), std::move(reply)};
  messages_.erase(message);
  GiveRoom(lock);
  return answer;
}

void ScoreStream::Impl::Wake(const Lock& /*lock*/) {
  if (waking_) return;
  waking_ = true;
  alarm_.Set(&completions_, gpr_now(GPR_CLOCK_MONOTONIC), ToPointer(kWake));
}

void ScoreStream::Impl::Run() {
  void* tag;
  bool ok;
  while (const std::optional<Clock::time_point> next = Look()) {
    const auto until = *next == Clock::time_point::max()
                           ? std::chrono::system_clock::time_point::max()
                           : std::chrono::system_clock::now() +
                                 std::chrono::duration_cast<std::chrono::system_clock::duration>(*next - Clock::now());
    if (completions_.AsyncNext(&tag, &ok, until) == grpc::CompletionQueue::GOT_EVENT) Handle(tag, ok);
  }
  completions_.Shutdown();
  while (completions_.Next(&tag, &ok)) {
  }
}

std::optional<ScoreStream::Impl::Clock::time_point> ScoreStream::Impl::Look() {
  std::vector<Answer> answers;
  const Clock::time_point now = Clock::now();
  Lock lock(mutex_);
  if (now >= look_at_) Expire(lock, now, answers);
  Clock::time_point next = look_at_;
  if (call_ == nullptr && !messages_.empty()) {
    if (now >= not_before_) {
      StartCall(lock);
    } else {
      next = std::min(next, not_before_);
    }
  }
  bool over = false;
  if (closing_ && in_flight_ == 0) {
    over = call_ == nullptr;
    if (call_ != nullptr) {
      HangUp(lock, now);
      if (now < *call_->hang_up_at) next = std::min(next, *call_->hang_up_at);
    }
  }
  lock.unlock();
  for (Answer& answer : answers) answer.done(std::move(answer.reply));
  if (over) return std::nullopt;
  return next;
}

void ScoreStream::Impl::Expire(const Lock& lock, Clock::time_point now, std::vector<Answer>& answers) {
  look_at_ = Clock::time_point::max();
  for (auto message = messages_.begin(); message != messages_.end();) {
    const auto next = std::next(message);
    if (message->second.deadline <= now) {
      answers.push_back(Take(lock, message, TimeIsOver()));
    } else {
      look_at_ = std::min(look_at_, message->second.deadline);
    }
    message = next;
  }
  // A call that is stuck must not gather what has expired.
  std::erase_if(unsent_, [this](uint64_t id) { return !messages_.contains(id); });
}

void ScoreStream::Impl::StartCall(const Lock& /*lock*/) {
  call_ = std::make_shared<Call>();
  call_->stream = stub_.PrepareCall(&call_->context, "/widelane.v1.Scoring/ScoreStream", &completions_);
  call_->stream->StartCall(ToPointer(kStarted));
}

void ScoreStream::Impl::HangUp(const Lock& /*lock*/, Clock::time_point now) {
  if (!call_->hang_up_at.has_value()) call_->hang_up_at = now + kHangUpTime;
  if (call_->open && !call_->writing && !call_->closed && !call_->ended) {
    call_->closed = call_->writing = true;
    call_->stream->WritesDone(ToPointer(kWritten));
  }
  if (now >= *call_->hang_up_at) call_->context.TryCancel();
}

void ScoreStream::Impl::Handle(void* tag, bool ok) {
  switch (static_cast<Tag>(reinterpret_cast<intptr_t>(tag))) {
    case kStarted:
      return OnStarted(ok);
    case kRead:
      return OnRead(ok);
    case kWritten:
      return OnWritten(ok);
    case kFinished:
      return OnFinished();
    case kWake: {
      const Lock lock(mutex_);
      waking_ = false;
    }
  }
}

void ScoreStream::Impl::OnStarted(bool ok) {
  Lock lock(mutex_);
  if (!ok) {
    call_->ended = true;
    return FinishEndedCall(lock);
  }
  call_->open = call_->reading = true;
  call_->stream->Read(&call_->reply, ToPointer(kRead));
  const std::optional<Write> write = NextWrite(lock);
  lock.unlock();
  Make(write);
}

void ScoreStream::Impl::OnRead(bool ok) {
  if (!ok) {
    const Lock lock(mutex_);
    call_->reading = false;
    call_->ended = true;
    return FinishEndedCall(lock);
  }
  const uint64_t id = call_->reply.id();
  absl::StatusOr<ScoreReply> reply = absl::InternalError("the server has sent neither a reply nor an error");
  if (call_->reply.has_reply()) {
    reply = FromMessage(call_->reply.reply());
  } else if (call_->reply.error().code() != 0) {
    reply = FromMessage(call_->reply.error());
  }
  call_->stream->Read(&call_->reply, ToPointer(kRead));
  Lock lock(mutex_);
  call_->answered = true;
  const auto message = messages_.find(id);
  if (message == messages_.end()) return;  // expired
  Answer answer = Take(lock, message, std::move(reply));
  lock.unlock();
  answer.done(std::move(answer.reply));
}

void ScoreStream::Impl::OnWritten(bool ok) {
  Lock lock(mutex_);
  call_->writing = false;
  if (!ok) call_->ended = true;
  if (call_->ended) return FinishEndedCall(lock);
  const std::optional<Write> write = NextWrite(lock);
  lock.unlock();
  Make(write);
}

void ScoreStream::Impl::FinishEndedCall(const Lock& /*lock*/) {
  if (call_->reading || call_->writing) return;
  call_->stream->Finish(&call_->status, ToPointer(kFinished));
}

void ScoreStream::Impl::OnFinished() {
  std::vector<Answer> answers;
  Lock lock(mutex_);
  const absl::Status status = call_->status.ok() ? absl::InternalError("the server ended the stream without an answer")
                                                 : connection_->Explain(FromGrpc(call_->status));
  const bool answered = call_->answered;
  call_ = nullptr;
  next_write_.reset();
  unsent_.clear();
  if (absl::IsUnavailable(status)) {
    TryAgain(lock, status, answered, answers);
  } else {
    while (!messages_.empty()) answers.push_back(Take(lock, messages_.begin(), status));
  }
  lock.unlock();
  for (Answer& answer : answers) answer.done(std::move(answer.reply));
}

void ScoreStream::Impl::TryAgain(const Lock& lock, const absl::Status& status, bool answered,
                                 std::vector<Answer>& answers) {
  for (auto message = messages_.begin(); message != messages_.end();) {
    const auto next = std::next(message);
    if (++message->second.attempts >= connection_->options().max_attempts) {
      answers.push_back(Take(lock, message, status));
    } else {
      unsent_.push_back(message->first);
    }
    message = next;
  }
  std::sort(unsent_.begin(), unsent_.end());
  if (answered || messages_.empty()) {
    pause_ = kFirstPause;
    not_before_ = Clock::now();
  } else {
    not_before_ = Clock::now() + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
  }
}

ScoreStream::ScoreStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ScoreStream::~ScoreStream() = default;

void ScoreStream::Score(const ScoreRequest& request, std::function<void(absl::StatusOr<ScoreReply>)> done) {
  impl_->Score(request, std::move(done));
}

absl::StatusOr<ScoreReply> ScoreStream::Score(const ScoreRequest& request) {
  if (impl_->InsideDone()) return absl::FailedPreconditionError("a callback of the stream cannot wait for an answer");
  std::promise<absl::StatusOr<ScoreReply>> reply;
  impl_->Score(request, [&reply](absl::StatusOr<ScoreReply> answer) { reply.set_value(std::move(answer)); });
  return reply.get_future().get();
}

void ScoreStream::Close() { impl_->Close(); }

}  // namespace widelane::client
