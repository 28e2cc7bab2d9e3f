#include "tests/support/reflection.h"

#include <google/protobuf/util/json_util.h>

#include "tests/support/rpc.h"

namespace widelane::test {
namespace {

using google::protobuf::FileDescriptorProto;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

}  // namespace

ReflectionClient::ReflectionClient(std::shared_ptr<grpc::Channel> channel)
    : channel_(std::move(channel)),
      stream_(channel_, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo") {}

ReflectionReply ReflectionClient::Ask(const ReflectionRequest& request) {
  ReflectionReply reply;
  if (stream_.Write(request)) stream_.Read(reply, kCallLimit);
  return reply;
}

std::vector<std::string> ReflectionClient::ListServices() {
  ReflectionRequest request;
  request.set_list_services("*");
  std::vector<std::string> names;
  const ReflectionReply reply = Ask(request);
  for (const auto& service : reply.services().service()) names.push_back(service.name());
  return names;
}

void ReflectionClient::Fetch(const ReflectionRequest& request) {
  const ReflectionReply reply = Ask(request);
  for (const std::string& bytes : reply.files().file()) {
    FileDescriptorProto file;
    FileDescriptorProto known;
    if (!file.ParseFromString(bytes) || files_.FindFileByName(file.name(), &known)) continue;
    files_.Add(file);
    for (const std::string& name : file.dependency()) {
      ReflectionRequest dependency;
      dependency.set_file_by_filename(name);
      if (!files_.FindFileByName(name, &known)) Fetch(dependency);
    }
  }
}

const ServiceDescriptor* ReflectionClient::Describe(const std::string& service) {
  ReflectionRequest request;
  request.set_file_containing_symbol(service);
  Fetch(request);
  return pool_.FindServiceByName(service);
}

ReflectionClient::JsonResult ReflectionClient::Call(const std::string& service, const std::string& method,
                                                    const std::string& json) {
  const ServiceDescriptor* descriptor = Describe(service);
  Require(descriptor != nullptr, service + " can be described");
  const MethodDescriptor* found = descriptor->FindMethodByName(method);
  Require(found != nullptr, service + " has " + method);
  const std::unique_ptr<Message> request(factory_.GetPrototype(found->input_type())->New());
  Require(google::protobuf::util::JsonStringToMessage(json, request.get()).ok(), "JSON of the request: " + json);
  const RawResult result = CallRaw(channel_, "/" + service + "/" + method, request->SerializeAsString());
  const std::unique_ptr<Message> reply(factory_.GetPrototype(found->output_type())->New());
  JsonResult out{result.status, ""};
  if (reply->ParseFromString(result.reply)) {
    Require(google::protobuf::util::MessageToJsonString(*reply, &out.json).ok(), "the reply as JSON");
  }
  return out;
}

}  // namespace widelane::test
