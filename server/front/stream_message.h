// One request of a ScoreStream and its reply, which travel in messages with others; used again and again by its stream.

#ifndef WIDELANE_SERVER_FRONT_STREAM_MESSAGE_H_
#define WIDELANE_SERVER_FRONT_STREAM_MESSAGE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/io/coded_stream.h"
#include "grpcpp/support/slice.h"
#include "server/front/score_job.h"
#include "server/front/stream_bytes.h"

namespace widelane {

class StreamCall;

class StreamMessage final : public ScoreJob {
 public:
  StreamMessage(FrontContext& context, grpc::CompletionQueue& queue, StreamCall& stream)
      : ScoreJob(context, queue), stream_(stream) {}

  // It is one of the requests in `bytes`. From here on it may be withdrawn.
  void Take(std::shared_ptr<StreamBytes> bytes);
  // Reads it from the next `size` bytes of `in`, scores and answers it, now or later; no later than `deadline`. The
  // stream is told by OnAnswered.
  void Handle(google::protobuf::io::CodedInputStream& in, int size, TimePoint deadline, SoloScorer& solo);
  // Once it is answered: the bytes of a StreamReplies message with its reply alone.
  size_t reply_bytes() const { return header_.size() + reply_.size(); }
  void AddReply(std::vector<grpc::Slice>& slices) const;
  // It was written.
  using ScoreJob::Sent;
  // The message leaves the server.
  void End();

  using ScoreJob::Withdraw;

  // For the stream, under its lock.
  StreamMessage* next = nullptr;  // in a list
  int uses = 0;                   // by the thread that handles it, and until it is written

 private:
  void Answer(const absl::Status& status, ReplySlices reply) override;
  std::optional<TraceParent> trace_parent() const override;
  void ReleaseBytes() override { bytes_.reset(); }

  StreamCall& stream_;
  std::shared_ptr<StreamBytes> bytes_;
  grpc::Slice header_;
  ReplySlices reply_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_STREAM_MESSAGE_H_
