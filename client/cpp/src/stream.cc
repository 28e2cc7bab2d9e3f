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

// What waits goes in messages of at most so much; a larger request goes alone.
constexpr size_t kMostMessageBytes = size_t{256} << 10;
constexpr size_t kMostMessageRequests = 256;
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

absl::StatusOr<ScoreReply> ResultOf(const v1::StreamReply& reply) {
  if (reply.has_reply()) return FromMessage(reply.reply());
  if (reply.error().code() != 0) return FromMessage(reply.error());
  return absl::InternalError("the server has sent neither a reply nor an error");
}

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
                                                     " requests without an answer, as many as it may have"
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
                                       grpc::Slice& out) {
  v1::ScoreRequest message;
  if (absl::Status status = ToMessage(request, message); !status.ok()) return status;
  const Clock::duration left = deadline - Clock::now();
  // What it says of its length is made in 32 bits, so the first check is needed.
  const Connection::Time until =
      std::chrono::system_clock::now() + std::chrono::duration_cast<Connection::Time::duration>(left);
  const size_t bytes = message.ByteSizeLong();
  if (absl::Status status = connection_->CheckSize(request, bytes, until); !status.ok()) return status;
  out = Serialize(message);
  StreamMessage alone;
  alone.Add(id, left, out);
  return connection_->CheckSize(request, alone.bytes(), until);
}

void ScoreStream::Impl::Score(const ScoreRequest& request, Done done) {
  const Clock::time_point deadline = Clock::now() + connection_->TimeFor(request);
  if (absl::Status status = TakeRoom(deadline); !status.ok()) return done(status);
  Pending pending{{}, deadline, std::move(done)};
  Lock lock(mutex_);
  const uint64_t id = next_id_++;
  lock.unlock();
  absl::Status status = Encode(request, id, deadline, pending.request);
  lock.lock();
  if (!status.ok()) {
    GiveRoom(lock);
    lock.unlock();
    return pending.done(status);
  }
  pending_.emplace(id, std::move(pending));
  unsent_.push_back(id);
  const bool earliest = deadline < look_at_;
  look_at_ = std::min(look_at_, deadline);
  if (earliest || call_ == nullptr) Wake(lock);
  const std::optional<Write> write = NextWrite(lock);
  lock.unlock();
  Make(write);
}

std::vector<ScoreStream::Impl::Write::Part> ScoreStream::Impl::TakeUnsent(const Lock& /*lock*/) {
  const size_t most_bytes = std::min(kMostMessageBytes, connection_->KnownLimit());
  std::vector<Write::Part> parts;
  for (size_t bytes = 0; !unsent_.empty() && parts.size() < kMostMessageRequests; unsent_.pop_front()) {
    const uint64_t id = unsent_.front();
    const auto pending = pending_.find(id);
    if (pending == pending_.end()) continue;
    bytes += pending->second.request.size() + StreamMessage::kHeadBytes;
    if (bytes > most_bytes && !parts.empty()) break;
    parts.push_back({id, pending->second.deadline, pending->second.request});
  }
  return parts;
}

std::optional<ScoreStream::Impl::Write> ScoreStream::Impl::NextWrite(const Lock& lock) {
  if (call_ == nullptr || !call_->open || call_->writing || call_->closed || call_->ended) return std::nullopt;
  std::vector<Write::Part> parts = TakeUnsent(lock);
  if (parts.empty()) return std::nullopt;
  call_->writing = true;
  return Write{call_, std::move(parts)};
}

void ScoreStream::Impl::Make(const std::optional<Write>& write) {
  if (!write.has_value()) return;
  StreamMessage message;
  const Clock::time_point now = Clock::now();
  for (const Write::Part& part : write->parts) message.Add(part.id, part.deadline - now, part.request);
  write->call->stream->Write(message.Take(), ToPointer(kWritten));
}

ScoreStream::Impl::Answer ScoreStream::Impl::Take(const Lock& lock, PendingById::iterator pending,
                                                  absl::StatusOr<ScoreReply> reply) {
  Answer answer{std::move(pending->second.done), std::move(reply)};
  pending_.erase(pending);
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
  if (call_ == nullptr && !pending_.empty()) {
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
  for (auto pending = pending_.begin(); pending != pending_.end();) {
    const auto next = std::next(pending);
    if (pending->second.deadline <= now) {
      answers.push_back(Take(lock, pending, TimeIsOver()));
    } else {
      look_at_ = std::min(look_at_, pending->second.deadline);
    }
    pending = next;
  }
  // A call that is stuck must not gather what has expired.
  std::erase_if(unsent_, [this](uint64_t id) { return !pending_.contains(id); });
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
  call_->stream->Read(&call_->replies, ToPointer(kRead));
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
  std::vector<std::pair<uint64_t, absl::StatusOr<ScoreReply>>> results;
  for (const v1::StreamReply& reply : call_->replies.replies()) results.emplace_back(reply.id(), ResultOf(reply));
  call_->stream->Read(&call_->replies, ToPointer(kRead));
  std::vector<Answer> answers;
  Lock lock(mutex_);
  call_->answered = true;
  for (auto& [id, result] : results) {
    const auto pending = pending_.find(id);
    if (pending != pending_.end()) answers.push_back(Take(lock, pending, std::move(result)));  // else it has expired
  }
  lock.unlock();
  for (Answer& answer : answers) answer.done(std::move(answer.reply));
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
  unsent_.clear();
  if (absl::IsUnavailable(status)) {
    TryAgain(lock, status, answered, answers);
  } else {
    while (!pending_.empty()) answers.push_back(Take(lock, pending_.begin(), status));
  }
  lock.unlock();
  for (Answer& answer : answers) answer.done(std::move(answer.reply));
}

void ScoreStream::Impl::TryAgain(const Lock& lock, const absl::Status& status, bool answered,
                                 std::vector<Answer>& answers) {
  for (auto pending = pending_.begin(); pending != pending_.end();) {
    const auto next = std::next(pending);
    if (++pending->second.attempts >= connection_->options().max_attempts) {
      answers.push_back(Take(lock, pending, status));
    } else {
      unsent_.push_back(pending->first);
    }
    pending = next;
  }
  std::sort(unsent_.begin(), unsent_.end());
  if (answered || pending_.empty()) {
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
