// A server inside the test's process, on free loopback ports.

#ifndef WIDELANE_TESTS_SUPPORT_TEST_SERVER_H_
#define WIDELANE_TESTS_SUPPORT_TEST_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/src/backend.h"
#include "server/batching/clock.h"
#include "server/server.h"
#include "tests/support/models.h"
#include "tests/support/rpc.h"

namespace widelane::test {

class TestServer {
 public:
  using Models = std::map<std::string, std::shared_ptr<const Model>>;
  using Configure = std::function<void(ServerConfig&)>;

  // Free ports, two CPU threads, small batches, no drain delay, errors only in the log.
  static ServerConfig Config();

  // Serves `models` and waits until they are loaded. Stops the program if the server does not start.
  explicit TestServer(const Models& models, const Configure& configure = {});
  // The same over these devices, and by this clock if there is one; does not wait for the models, since a fake device
  // may hold them up.
  TestServer(const Models& models, std::vector<std::unique_ptr<Device>> devices, const Configure& configure = {},
             Clock* clock = nullptr);

  Server& server() { return *server_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  v1::Scoring::Stub& stub() { return *stub_; }

  ScoreResult Score(const v1::ScoreRequest& request) { return test::Score(*stub_, request); }
  // Scores, when OK; an empty list and a failed expectation else.
  std::vector<float> Scores(const v1::ScoreRequest& request);
  std::string Metrics() const;

 private:
  ServerConfig ConfigFor(const Models& models, const Configure& configure);
  void Open(absl::StatusOr<std::unique_ptr<Server>> server);

  TempDir files_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Scoring::Stub> stub_;
};

// Id1 by the name id1.
TestServer::Models OneModel();

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_TEST_SERVER_H_
