#include "tests/support/rpc.h"

#include <grpcpp/generic/generic_stub.h>

#include "google/rpc/error_details.pb.h"
#include "tests/support/check.h"

namespace widelane::test {

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

ScoreResult Score(v1::Scoring::StubInterface& stub, const v1::ScoreRequest& request,
                  std::chrono::milliseconds deadline) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  ScoreResult result;
  result.status = stub.Score(&context, request, &result.reply);
  return result;
}

RawResult CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                  const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallLimit);
  const grpc::Slice slice(request);
  auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  RawResult result;
  grpc::ByteBuffer reply;
  call->Finish(&reply, &result.status, &call);
  void* tag = nullptr;
  bool ok = false;
  Require(queue.Next(&tag, &ok) && ok, "a call ends");
  grpc::Slice whole;
  if (result.status.ok() && reply.DumpToSingleSlice(&whole).ok()) {
    result.reply.assign(reinterpret_cast<const char*>(whole.begin()), whole.size());
  }
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return result;
}

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status details;
  details.ParseFromString(status.error_details());
  return details;
}

std::vector<std::string> BadFields(const grpc::Status& status) {
  std::vector<std::string> fields;
  const google::rpc::Status details = Details(status);
  for (const google::protobuf::Any& any : details.details()) {
    google::rpc::BadRequest bad;
    if (!any.UnpackTo(&bad)) continue;
    for (const auto& violation : bad.field_violations()) fields.push_back(violation.field());
  }
  return fields;
}

bool TellsWhenToRetry(const grpc::Status& status) {
  const google::rpc::Status details = Details(status);
  for (const google::protobuf::Any& any : details.details()) {
    if (any.Is<google::rpc::RetryInfo>()) return true;
  }
  return false;
}

}  // namespace widelane::test
