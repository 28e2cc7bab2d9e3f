#include "tests/support/server_process.h"

#include <gtest/gtest.h>

namespace widelane::test {

std::vector<std::string> ServerCommand(const std::string& grpc_address, const std::string& http_address,
                                       const std::vector<std::string>& arguments, const std::string& program) {
  // Models are tried with batches that fill a slab, which sanitizers make long.
  std::vector<std::string> command = {
      BuiltProgram(program), "--grpc-address", grpc_address,     "--http-address", http_address, "--slab-rows", "4096",
      "--slab-entries",      "65536",          "--slab-results", "16384"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

ServerProcess::ServerProcess(const std::vector<std::string>& arguments, const Process::Environment& environment,
                             const std::string& program)
    : process_(ServerCommand("127.0.0.1:0", "127.0.0.1:0", arguments, program), environment) {}

bool ServerProcess::WaitForPorts() {
  const auto grpc = process_.WaitForLine("serving gRPC on ", std::chrono::seconds(60));
  const auto http = process_.WaitForLine("serving HTTP on ", std::chrono::seconds(60));
  EXPECT_TRUE(grpc && http) << process_.all();
  if (!grpc || !http) return false;
  grpc_address_ = *grpc;
  http_address_ = *http;
  channel_ = Connect(grpc_address_);
  stub_ = v1::Scoring::NewStub(channel_);
  return true;
}

bool ServerProcess::WaitUntilReady(std::chrono::milliseconds timeout) {
  if (!WaitForPorts()) return false;
  const bool ready = process_.WaitForLine("ready: ", timeout).has_value();
  EXPECT_TRUE(ready) << process_.all();
  return ready;
}

}  // namespace widelane::test
