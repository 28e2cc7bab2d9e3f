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

class StubService final : public v1::Scoring::Service {
 public:
  using Handler = std::function<grpc::Status(const v1::ScoreRequest&, v1::ScoreReply&)>;
  using Stream = grpc::ServerReaderWriter<v1::StreamReply, v1::StreamRequest>;
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
  grpc::Status ScoreStream(grpc::ServerContext* context, Stream* stream) override;
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
