#include "client/cli/bench_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane::cli {

StreamWorker::StreamWorker(LoadPlan& plan, LoadShare share)
    : LoadWorker(plan, std::move(share)), streams_(share_.streams), open_(share_.streams) {
  for (const auto& channel : share_.channels) stubs_.emplace_back(channel);
  for (size_t s = 0; s < streams_.size(); ++s) {
    Stream& stream = streams_[s];
    stream.number = s;
    stream.asked.resize((slots_.size() - s + streams_.size() - 1) / streams_.size());
    stream.start = {&stream, Event::kStart};
    stream.read = {&stream, Event::kRead};
    stream.write = {&stream, Event::kWrite};
    stream.writes_done = {&stream, Event::kWritesDone};
    stream.finish = {&stream, Event::kFinish};
  }
}

void StreamWorker::Open() {
  for (Stream& stream : streams_) {
    grpc::GenericStub& stub = stubs_[stream.number % stubs_.size()];
    stream.call = stub.PrepareCall(&stream.context, "/widelane.v1.Scoring/ScoreStream", &queue_);
    stream.call->StartCall(&stream.start);
  }
}

void StreamWorker::Send(size_t slot) {
  Stream& stream = streams_[slot % streams_.size()];
  const std::lock_guard lock(stream.mutex);
  if (stream.ended) return;
  stream.asked[slot / streams_.size()] = true;
  stream.outbox.push_back(slot);
  // In an open loop another thread sends as well, and waits for nothing but a write.
  if (plan_.window.open || !holding_) WriteNext(stream);
}

void StreamWorker::WriteNext(Stream& stream) {
  if (!stream.started || stream.writing || stream.ended || stream.outbox.empty()) return;
  const auto timeout = static_cast<uint32_t>(plan_.options.deadline.count());
  for (; !stream.outbox.empty(); stream.outbox.pop_front()) {
    const size_t slot = stream.outbox.front();
    const grpc::Slice& request = RequestOf(slot);
    if (stream.batch.IsFull(request.size())) break;
    stream.batch.Add(slot + 1, timeout, request);
  }
  stream.writing = true;
  stream.call->Write(stream.batch.Take(), &stream.write);
}

void StreamWorker::OnEvent(void* tag, bool ok) {
  const Tag& known = *static_cast<Tag*>(tag);
  Stream& stream = *known.stream;
  if (known.event == Event::kRead) return OnRead(stream, ok);
  if (known.event == Event::kFinish) return OnFinish(stream);
  const std::lock_guard lock(stream.mutex);
  if (known.event == Event::kStart) OnStart(stream, ok);
  if (known.event != Event::kWrite) return;
  stream.writing = false;
  WriteNext(stream);
  if (stream.closing) End(stream);
}

void StreamWorker::OnStart(Stream& stream, bool ok) {
  if (!ok) {
    stream.ended = true;
    stream.call->Finish(&stream.status, &stream.finish);
    return;
  }
  stream.started = true;
  stream.call->Read(&stream.incoming, &stream.read);
  WriteNext(stream);
  if (stream.closing) End(stream);
}

// Tells the server that there will be no more messages; it ends the stream then.
void StreamWorker::End(Stream& stream) {
  if (stream.started && !stream.writing && !stream.ended) stream.call->WritesDone(&stream.writes_done);
}

void StreamWorker::OnRead(Stream& stream, bool ok) {
  if (!ok) {
    const std::lock_guard lock(stream.mutex);
    stream.ended = true;
    stream.call->Finish(&stream.status, &stream.finish);
    return;
  }
  grpc::ByteBuffer message;
  message.Swap(&stream.incoming);
  stream.call->Read(&stream.incoming, &stream.read);
  const grpc::Slice whole = WholeOf(message);
  OnMessage(stream, TextOf(whole));
}

void StreamWorker::OnMessage(Stream& stream, absl::string_view message) {
  holding_ = true;
  WireField field;
  while (TakeField(message, field)) {
    if (field.number == v1::StreamReplies::kRepliesFieldNumber) OnAnswer(stream, field.bytes);
  }
  holding_ = false;
  const std::lock_guard lock(stream.mutex);
  WriteNext(stream);
}

void StreamWorker::OnAnswer(Stream& stream, absl::string_view reply) {
  const StreamAnswer answer = ReadStreamAnswer(reply);
  const size_t slot = answer.id - 1;
  {
    const std::lock_guard lock(stream.mutex);
    const size_t of_stream = slot / streams_.size();
    if (slot >= slots_.size() || slot % streams_.size() != stream.number || !stream.asked[of_stream]) {
      return OnFailure(grpc::StatusCode::UNKNOWN,
                       absl::StrCat("an answer has id ", answer.id, ", which was not asked"));
    }
    stream.asked[of_stream] = false;
  }
  if (answer.error.has_value()) {
    OnFailure(*answer.error, answer.message);
  } else {
    OnReply(slot, answer.reply);
  }
  Free(slot);
}

void StreamWorker::OnFinish(Stream& stream) {
  size_t lost = 0;
  {
    const std::lock_guard lock(stream.mutex);
    for (const bool asked : stream.asked) lost += static_cast<size_t>(asked);
  }
  const bool told = !stream.status.ok();
  for (size_t i = 0; i < lost; ++i) {
    OnFailure(told ? stream.status.error_code() : grpc::StatusCode::UNKNOWN,
              told ? stream.status.error_message() : "the stream ended before all was answered");
  }
  Retire(stream.number, streams_.size());
  if (--open_ == 0) queue_.Shutdown();
}

void StreamWorker::Close() {
  for (Stream& stream : streams_) {
    const std::lock_guard lock(stream.mutex);
    stream.closing = true;
    End(stream);
  }
}

void StreamWorker::CancelAll() {
  for (Stream& stream : streams_) stream.context.TryCancel();
}

}  // namespace widelane::cli
