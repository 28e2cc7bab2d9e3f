// A Scoring service for tests of clients: answers with what it is told, and keeps what it was asked.

#ifndef WIDELANE_TESTS_CLIENT_STUB_SERVICE_H_
#define WIDELANE_TESTS_CLIENT_STUB_SERVICE_H_

#include <grpcpp/server.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "widelane/v1/scoring.grpc.pb.h"

namespace widelane {

// A stream, request by request, whatever messages they come in. One thread.
class StubStream {
 public:
  using Messages = grpc::ServerReaderWriter<v1::StreamReplies, v1::StreamRequests>;
  explicit StubStream(Messages& messages) : messages_(messages) {}

  // The next request; of another message only when there are no more in the one before.
  bool Read(v1::StreamRequest* request);
  // A whole message. Not between the requests of another.
  bool Read(v1::StreamRequests* requests);
  // In a message of its own.
  bool Write(const v1::StreamReply& reply);
  bool Write(const v1::StreamReplies& replies) { return messages_.Write(replies); }
  // That have been read.
  int messages() const { return count_; }

 private:
  Messages& messages_;
  v1::StreamRequests requests_;
  int next_ = 0;
  int count_ = 0;
};

class StubService final : public v1::Scoring::Service {
 public:
  using Handler = std::function<grpc::Status(const v1::ScoreRequest&, v1::ScoreReply&)>;
  using Stream = StubStream;
  // `call` counts streams from 1. What it returns ends the stream.
  using StreamHandler = std::function<grpc::Status(int call, grpc::ServerContext& context, Stream& stream)>;

  // Set before Start.
  Handler on_score;
  StreamHandler on_stream;
  uint64_t max_message_bytes = 4 << 20;
  std::function<grpc::Status(v1::ModelInfo&)> on_get_model;  // changes what GetModel says
  v1::ListModelsReply models;

  // Listens on a free port of the loopback interface, or where it is told to ("unix:/path").
  void Start(const std::string& address = "");
  ~StubService() override;

  const std::string& address() const { return address_; }
  grpc::Server& server() { return *server_; }
  int score_calls() const { return score_calls_; }
  int stream_calls() const { return stream_calls_; }
  int get_model_calls() const { return get_model_calls_; }

  grpc::Status Score(grpc::ServerContext* context, const v1::ScoreRequest* request, v1::ScoreReply* reply) override;
  grpc::Status ScoreStream(grpc::ServerContext* context, StubStream::Messages* messages) override;
  grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest* request,
                          v1::ListModelsReply* reply) override;
  grpc::Status GetModel(grpc::ServerContext* context, const v1::GetModelRequest* request,
                        v1::ModelInfo* reply) override;

 private:
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<int> score_calls_{0};
  std::atomic<int> stream_calls_{0};
  std::atomic<int> get_model_calls_{0};
};

}  // namespace widelane

#endif  // WIDELANE_TESTS_CLIENT_STUB_SERVICE_H_
