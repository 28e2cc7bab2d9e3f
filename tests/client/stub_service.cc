#include "tests/client/stub_service.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>

#include <cstdlib>

namespace widelane {

void StubService::Start(const std::string& address) {
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

grpc::Status StubService::ScoreStream(grpc::ServerContext* context, Stream* stream) {
  return on_stream(++stream_calls_, *context, *stream);
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
