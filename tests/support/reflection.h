// What a client without any .proto file can do: ask the server for its services, and call them with JSON.

#ifndef WIDELANE_TESTS_SUPPORT_REFLECTION_H_
#define WIDELANE_TESTS_SUPPORT_REFLECTION_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor_database.h>
#include <google/protobuf/dynamic_message.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/generic_stream.h"
#include "tests/support/peers.pb.h"

namespace widelane::test {

class ReflectionClient {
 public:
  explicit ReflectionClient(std::shared_ptr<grpc::Channel> channel);

  // Names of the services; empty if reflection is not served.
  std::vector<std::string> ListServices();
  // Null if the server does not know it. Fetches files as it needs them.
  const google::protobuf::ServiceDescriptor* Describe(const std::string& service);

  struct JsonResult {
    grpc::Status status;
    std::string json;
  };
  // Calls a method by name with a message in JSON and gives the reply in JSON.
  JsonResult Call(const std::string& service, const std::string& method, const std::string& json);

 private:
  ReflectionReply Ask(const ReflectionRequest& request);
  void Fetch(const ReflectionRequest& request);

  const std::shared_ptr<grpc::Channel> channel_;
  GenericStream<ReflectionRequest, ReflectionReply> stream_;
  google::protobuf::SimpleDescriptorDatabase files_;
  google::protobuf::DescriptorPool pool_{&files_};
  google::protobuf::DynamicMessageFactory factory_{&pool_};
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_REFLECTION_H_
