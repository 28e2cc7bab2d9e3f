// A server in a process of its own, for what needs one: signals, ports taken, driver libraries, exit codes.

#ifndef WIDELANE_TESTS_SUPPORT_SERVER_PROCESS_H_
#define WIDELANE_TESTS_SUPPORT_SERVER_PROCESS_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/rpc.h"

namespace widelane::test {

inline constexpr char kServerProgram[] = "widelane-server";
// The same whose device never ends a batch after the log has this line.
inline constexpr char kHangingServerProgram[] = "hanging_server";
inline constexpr char kHangsFromNowOn[] = "the device hangs from now on";

class ServerProcess {
 public:
  // Starts the server on free loopback ports with small slabs and these further arguments.
  explicit ServerProcess(const std::vector<std::string>& arguments, const Process::Environment& environment = {},
                         const std::string& program = kServerProgram);

  // Waits until its ports are open; false (and a failed expectation with its log) if it ends before.
  bool WaitForPorts();
  // Waits until it says that it is ready.
  bool WaitUntilReady(std::chrono::milliseconds timeout = std::chrono::seconds(60));

  // After WaitForPorts.
  const std::string& grpc_address() const { return grpc_address_; }
  const std::string& http_address() const { return http_address_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  v1::Scoring::Stub& stub() { return *stub_; }

  Process& process() { return process_; }

 private:
  Process process_;
  std::string grpc_address_;
  std::string http_address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Scoring::Stub> stub_;
};

// The server's command line with explicit addresses and small slabs.
std::vector<std::string> ServerCommand(const std::string& grpc_address, const std::string& http_address,
                                       const std::vector<std::string>& arguments,
                                       const std::string& program = kServerProgram);

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_SERVER_PROCESS_H_
