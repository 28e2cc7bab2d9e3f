#include "tests/client/stub_service.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>

#include <cstdlib>
#include <mutex>

namespace widelane {

bool StubStream::Read(v1::StreamRequest* request) {
  while (next_ == requests_.requests_size()) {
    if (!Read(&requests_)) return false;
    next_ = 0;
  }
  *request = requests_.requests(next_++);
  return true;
}

bool StubStream::Read(v1::StreamRequests* requests) {
  if (!messages_.Read(requests)) return false;
  ++count_;
  return true;
}

bool StubStream::Write(const v1::StreamReply& reply) {
  v1::StreamReplies replies;
  *replies.add_replies() = reply;
  return Write(replies);
}

void StubService::Start(const std::string& address) {
  // When the last object of gRPC goes, gRPC waits up to 10 s for a thread that watches over writes that did not go
  // through at once. So it is kept.
  static std::once_flag kept;
  std::call_once(kept, grpc_init);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address.empty() ? "127.0.0.1:0" : address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  builder.SetMaxReceiveMessageSize(static_cast<int>(max_message_bytes));
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) std::abort();
  address_ = address.empty() ? "127.0.0.1:" + std::to_string(port) : address;
}

StubService::~StubService() {
  if (server_ != nullptr) server_->Shutdown();
}

grpc::Status StubService::Score(grpc::ServerContext* /*context*/, const v1::ScoreRequest* request,
                                v1::ScoreReply* reply) {
  ++score_calls_;
  return on_score(*request, *reply);
}

grpc::Status StubService::ScoreStream(grpc::ServerContext* context, StubStream::Messages* messages) {
  StubStream stream(*messages);
  return on_stream(++stream_calls_, *context, stream);
}

grpc::Status StubService::ListModels(grpc::ServerContext* /*context*/, const v1::ListModelsRequest* /*request*/,
                                     v1::ListModelsReply* reply) {
  *reply = models;
  return grpc::Status::OK;
}

grpc::Status StubService::GetModel(grpc::ServerContext* /*context*/, const v1::GetModelRequest* request,
                                   v1::ModelInfo* reply) {
  ++get_model_calls_;
  if (request->model() == "absent") return {grpc::StatusCode::NOT_FOUND, "there is no model 'absent'"};
  reply->set_name(request->model());
  reply->set_version("1");
  reply->set_state(v1::ModelInfo::AVAILABLE);
  reply->set_max_message_bytes(max_message_bytes);
  return on_get_model ? on_get_model(*reply) : grpc::Status::OK;
}

}  // namespace widelane
