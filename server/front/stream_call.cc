#include "server/front/stream_call.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "server/front/deadline.h"
#include "server/front/limits.h"
#include "server/front/score_queue.h"
#include "server/front/status_mapping.h"

namespace widelane {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Messages a stream keeps for the next one; they are small when nothing is in them.
constexpr size_t kMessagesKept = 16;
// A message takes no more replies when it has so many bytes, so that the first of them need not wait for many.
constexpr size_t kMostWriteBytes = 256 << 10;
// A request with more may take a while to read: replies that are there do not wait for its own.
constexpr int kLargeRequestBytes = 16 << 10;

std::chrono::system_clock::time_point In(milliseconds time) { return std::chrono::system_clock::now() + time; }

// How long a stream lives. gRPC closes a connection the grace time after it has asked the client to make a new one, so
// a stream that is to end in order must not last longer than that.
milliseconds MostAge(const FrontConfig& config) {
  return std::min(config.max_connection_age, std::max(config.max_connection_age_grace * 9 / 10, milliseconds(1)));
}

// Up to a tenth less, so that streams that began together do not end together.
milliseconds Jittered(milliseconds time) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return time - milliseconds(std::uniform_int_distribution<int64_t>(0, time.count() / 10)(random));
}

absl::Status NotAMessage() {
  return absl::InvalidArgumentError("the message is not a StreamRequests: it is cut short or garbled");
}

absl::Status Moving() { return absl::UnavailableError("the server ends the stream; go on with a new one"); }

}  // namespace

void StreamCall::List::Add(StreamMessage& message) {
  message.next = nullptr;
  (first == nullptr ? first : last->next) = &message;
  last = &message;
}

StreamMessage* StreamCall::List::Take() {
  StreamMessage* const message = first;
  if (message != nullptr) first = message->next;
  return message;
}

void StreamCall::Post() {
  const std::lock_guard lock(mutex_);
  rpc_.emplace();
  started_ = reading_ = closing_ = finished_ = dead_ = false;
  end_ = absl::OkStatus();
  uses_ = 2;  // request and done
  rpc_->context.AsyncNotifyWhenDone(&done_tag_);
  queue_.RequestStream(rpc_->context, rpc_->stream, &request_tag_);
}

void StreamCall::OnEvent(QueueEvent event, bool ok, SoloScorer& solo) {
  switch (event) {
    case QueueEvent::kRequest:
      // Not ok: the server is stopping, there was no stream, and the done tag never comes.
      if (!ok) {
        rpc_.reset();
        return queue_.Retire(*this);
      }
      queue_.PostStream();
      OnStart();
      break;
    case QueueEvent::kRead:
      OnRead(ok, solo);
      break;
    case QueueEvent::kWrite:
      OnWritten(solo);
      break;
    case QueueEvent::kDone:
      OnDone();
      break;
    case QueueEvent::kStall:
      OnStall(ok);
      break;
    case QueueEvent::kAge:
      OnAge(ok);
      break;
    default:
      break;
  }
  Drop();
}

void StreamCall::OnStart() {
  context_.metrics.OnStreamStart();
  const std::lock_guard lock(mutex_);
  started_ = true;
  deadline_ = ToSteady(rpc_->context.deadline(), context_.clock);
  trace_parent_ = ReadTraceParent(rpc_->context);
  if (queue_.draining()) Close(Moving());
  // It may have been cancelled already: then nobody would cancel the alarm.
  if (const milliseconds age = MostAge(context_.config.front); age.count() > 0 && !dead_) {
    ++uses_;
    age_alarm_.emplace();
    age_alarm_->Set(&queue_.completion_queue(), In(Jittered(age)), &age_tag_);
  }
  ReadOn();
  FinishIfDone();
}

void StreamCall::OnRead(bool ok, SoloScorer& solo) {
  std::unique_lock lock(mutex_);
  reading_ = false;
  if (!ok) {
    // The client has no more to say; or the stream is dead, and this is of no matter.
    if (absl::IsUnavailable(end_)) end_ = absl::OkStatus();
    closing_ = true;
    return FinishIfDone();
  }
  // After the end was told, what comes is the next stream's.
  if (finished_ || dead_) return;
  incoming_ = std::make_shared<StreamBytes>(context_.admission, rpc_->incoming);
  waiting_ = true;
  GoOn(lock, solo);
}

void StreamCall::GoOn(std::unique_lock<std::mutex>& lock, SoloScorer& solo) {
  WriteOn();
  while (waiting_ && HasRoom()) {
    waiting_ = false;
    lock.unlock();
    HandleRequests(solo);
    lock.lock();
    WriteOn();
  }
  ReadOn();
  FinishIfDone();
}

void StreamCall::HandleRequests(SoloScorer& solo) {
  const std::shared_ptr<StreamBytes> bytes = incoming_;
  bool more = true;
  const absl::Status read = bytes->Read([&](google::protobuf::io::CodedInputStream& in, int size) {
    StreamRequestsReader reader(in, size);
    while (more && reader.Next()) more = HandleRequest(reader, bytes, solo);
    return reader.broken() ? NotAMessage() : absl::OkStatus();
  });
  if (!more) return;
  const std::lock_guard lock(mutex_);
  if (!read.ok()) Close(read);
  incoming_.reset();
}

bool StreamCall::HandleRequest(StreamRequestsReader& reader, const std::shared_ptr<StreamBytes>& bytes,
                               SoloScorer& solo) {
  const bool is_last = reader.is_last();
  StreamMessage* const message = TakeMessage(reader, bytes);
  if (message == nullptr) return false;
  reader.Read(
      [&](google::protobuf::io::CodedInputStream& in, int size) { message->Handle(in, size, deadline_, solo); });
  const std::lock_guard lock(mutex_);
  Release(*message);
  return !is_last;
}

StreamMessage* StreamCall::TakeMessage(const StreamRequestsReader& reader, const std::shared_ptr<StreamBytes>& bytes) {
  const std::lock_guard lock(mutex_);
  if (dead_) {
    incoming_.reset();
    return nullptr;
  }
  if (!HasRoom()) {
    bytes->Pass(reader.begin());
    waiting_ = true;
    return nullptr;
  }
  if (reader.size() > kLargeRequestBytes) WriteOn();
  StreamMessage& message = AddMessage();
  message.Take(bytes);
  if (reader.is_last()) {
    // Another thread may read the next message while this one packs.
    incoming_.reset();
    ReadOn();
  }
  return &message;
}

void StreamCall::OnAnswered(StreamMessage& message) {
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    if (dead_) {
      Release(message);
    } else {
      answered_.Add(message);
      // While the thread that handles the message is at it, it may have replies to come that go with this one.
      if (message.uses == 1) WriteOn();
    }
    last = uses_ == 0;
  }
  if (last) End();
}

void StreamCall::OnWritten(SoloScorer& solo) {
  std::unique_lock lock(mutex_);
  const steady_clock::time_point now = steady_clock::now();
  while (StreamMessage* message = writing_.Take()) {
    message->Sent(now);
    Release(*message);
  }
  GoOn(lock, solo);
}

void StreamCall::OnDone() {
  {
    const std::lock_guard lock(mutex_);
    if (stall_alarm_.has_value()) stall_alarm_->Cancel();
    if (age_alarm_.has_value()) age_alarm_->Cancel();
    if (!rpc_->context.IsCancelled()) return;
    dead_ = true;
    while (StreamMessage* message = answered_.Take()) Release(*message);
    if (std::exchange(waiting_, false)) incoming_.reset();
  }
  WithdrawAll();
}

// Messages that are done, or were never begun, take no notice. No new ones come.
void StreamCall::WithdrawAll() {
  std::vector<StreamMessage*> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& message : messages_) all.push_back(message.get());
  }
  for (StreamMessage* message : all) message->Withdraw();
}

void StreamCall::OnStall(bool ok) {
  const std::lock_guard lock(mutex_);
  stall_watched_ = false;
  if (!ok || dead_ || writing_.empty()) return;
  const milliseconds most = context_.config.front.stream_stall;
  const auto lasts = std::chrono::duration_cast<milliseconds>(steady_clock::now() - write_began_);
  if (lasts < most) return WatchWrite(most - lasts);
  const absl::Status status =
      LimitError(kStreamStall, static_cast<uint64_t>(most.count()),
                 "the client takes no replies; milliseconds:", static_cast<uint64_t>(lasts.count()));
  context_.metrics.OnRefused(status);
  // The write is stuck, so Finish would be, too.
  grpc_call_cancel_with_status(rpc_->context.c_call(), GRPC_STATUS_RESOURCE_EXHAUSTED,
                               std::string(status.message()).c_str(), nullptr);
}

void StreamCall::OnAge(bool ok) {
  if (!ok) return;
  const std::lock_guard lock(mutex_);
  Close(Moving());
  FinishIfDone();
}

void StreamCall::Drain() {
  const std::lock_guard lock(mutex_);
  if (!started_) return;
  Close(Moving());
  FinishIfDone();
}

StreamMessage& StreamCall::AddMessage() {
  StreamMessage* message = free_.Take();
  if (message == nullptr) {
    messages_.push_back(std::make_unique<StreamMessage>(context_, queue_.completion_queue(), *this));
    message = messages_.back().get();
  }
  message->uses = 2;
  ++open_;
  ++uses_;
  return *message;
}

void StreamCall::Release(StreamMessage& message) {
  if (--message.uses > 0) return;
  message.End();
  free_.Add(message);
  --open_;
  --uses_;
}

void StreamCall::ReadOn() {
  if (reading_ || closing_ || dead_ || incoming_ != nullptr || !HasRoom()) return;
  reading_ = true;
  ++uses_;
  rpc_->stream.Read(&rpc_->incoming, &read_tag_);
}

void StreamCall::WriteOn() {
  if (!writing_.empty() || dead_ || answered_.empty()) return;
  size_t bytes = 0;
  do {
    StreamMessage& message = *answered_.Take();
    bytes += message.reply_bytes();
    message.AddReply(slices_);
    writing_.Add(message);
  } while (!answered_.empty() && bytes + answered_.first->reply_bytes() <= kMostWriteBytes);
  const grpc::ByteBuffer outgoing(slices_.data(), slices_.size());
  slices_.clear();
  write_began_ = steady_clock::now();
  WatchWrite(context_.config.front.stream_stall);
  ++uses_;
  rpc_->stream.Write(outgoing, &write_tag_);
}

void StreamCall::Close(const absl::Status& status) {
  if (std::exchange(closing_, true)) return;
  end_ = status;
}

void StreamCall::FinishIfDone() {
  if (!closing_ || finished_ || dead_ || open_ > 0 || incoming_ != nullptr) return;
  finished_ = true;
  ++uses_;
  rpc_->stream.Finish(ToGrpcStatus(end_), &finish_tag_);
}

void StreamCall::WatchWrite(milliseconds after) {
  if (std::exchange(stall_watched_, true)) return;
  ++uses_;
  stall_alarm_.emplace();
  stall_alarm_->Set(&queue_.completion_queue(), In(after), &stall_tag_);
}

void StreamCall::Drop() {
  {
    const std::lock_guard lock(mutex_);
    if (--uses_ > 0) return;
  }
  End();
}

void StreamCall::End() {
  context_.metrics.OnStreamEnd();
  {
    const std::lock_guard lock(mutex_);
    started_ = false;
    rpc_.reset();
    stall_alarm_.reset();
    age_alarm_.reset();
    std::vector<grpc::Slice>().swap(slices_);
    if (messages_.size() > kMessagesKept) {
      messages_.resize(kMessagesKept);
      free_ = {};
      for (const auto& message : messages_) free_.Add(*message);
    }
  }
  queue_.Retire(*this);
}

}  // namespace widelane
