// One request of a ScoreStream and its reply; used again and again by its stream.

#ifndef WIDELANE_SERVER_FRONT_STREAM_MESSAGE_H_
#define WIDELANE_SERVER_FRONT_STREAM_MESSAGE_H_

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/front/score_job.h"

namespace widelane {

class StreamCall;

class StreamMessage final : public ScoreJob {
 public:
  StreamMessage(FrontContext& context, grpc::CompletionQueue& queue, StreamCall& stream)
      : ScoreJob(context, queue), stream_(stream) {}

  // Takes the bytes of a StreamRequest, which are empty afterwards. From here on it may be withdrawn.
  void Take(grpc::ByteBuffer& bytes);
  // Reads, scores and answers it, now or later; no later than `deadline`. The stream is told by OnAnswered, or, with an
  // error, that the message cannot be read and there will be no answer.
  absl::Status Handle(TimePoint deadline, SoloScorer& solo);
  // The StreamReply, once it is answered; empty if nobody wants it.
  grpc::ByteBuffer& reply() { return reply_; }
  // The message leaves the server.
  void End();

  using ScoreJob::Withdraw;

  // For the stream, under its lock.
  StreamMessage* next = nullptr;  // in a list
  int uses = 0;                   // by the thread that handles it, and until it is written

 private:
  void Answer(const absl::Status& status, ReplySlices reply) override;

  StreamCall& stream_;
  grpc::ByteBuffer reply_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_STREAM_MESSAGE_H_
