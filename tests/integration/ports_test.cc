// A port that is taken ends the start at once, before any model is loaded.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/expect.h"
#include "tests/support/http.h"
#include "tests/support/models.h"
#include "tests/support/rows.h"
#include "tests/support/server_process.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

constexpr std::chrono::seconds kTimeLimit{kSanitized ? 10 : 2};

class PortsTest : public ::testing::Test {
 protected:
  void ExpectRefused(const std::string& grpc_address, const std::string& http_address, const std::string& taken) {
    // This file is no model: had the server got as far as loading it, it would say so.
    const std::string model = files_.Write("marker.safetensors", std::string("not a model"));
    const Finished server = RunProgram(ServerCommand(grpc_address, http_address, {"--model", "marker=" + model}), {},
                                       std::chrono::seconds(30));
    EXPECT_GT(server.exit_code, 0) << server.err;
    EXPECT_LT(server.exit_code, 128) << server.err;
    EXPECT_LT(server.time, kTimeLimit);
    const std::string log = server.out + server.err;
    EXPECT_NE(log.find(taken), std::string::npos) << log;
    EXPECT_EQ(log.find("marker"), std::string::npos) << log;
  }

  TempDir files_;
};

TEST_F(PortsTest, RefusesThePortOfAnotherServer) {
  ServerProcess first({"--model", "r4=" + files_.Write("r4.safetensors", *R4())});
  ASSERT_TRUE(first.WaitUntilReady());
  ExpectRefused(first.grpc_address(), "127.0.0.1:0", first.grpc_address());
  ExpectRefused("127.0.0.1:0", first.http_address(), first.http_address());
  const ScoreResult result = Score(first.stub(), Request("r4", PlainRows({{{2, 3.0f}}})));
  ExpectOk(result.status);
  ExpectNear(result.reply.scores(), {0.994779874});
}

TEST_F(PortsTest, RefusesAPortThatAPlainListenerHolds) {
  const PlainListener listener;
  ExpectRefused(listener.address(), "127.0.0.1:0", listener.address());
}

TEST_F(PortsTest, RefusesAMetricsPortThatIsTaken) {
  const PlainListener listener;
  ExpectRefused("127.0.0.1:0", listener.address(), listener.address());
}

TEST_F(PortsTest, RefusesAnAddressThatIsNotOurs) { ExpectRefused("192.0.2.1:8600", "127.0.0.1:0", "192.0.2.1:8600"); }

TEST_F(PortsTest, RefusesBothAddressesBeingTheSame) {
  std::string address;
  {
    const PlainListener free_port;
    address = free_port.address();
  }
  ExpectRefused(address, address, address);
}

class UnixSocketTest : public ::testing::Test {
 protected:
  std::string Address() const { return "unix:" + path_; }
  std::unique_ptr<TestServer> Serve(const std::string& addresses) const {
    return std::make_unique<TestServer>(TestServer::Models{{"id1", Id1()}},
                                        [&addresses](ServerConfig& config) { config.front.grpc_address = addresses; });
  }
  // UNAVAILABLE naming the socket.
  absl::Status StartError() const {
    ServerConfig config = TestServer::Config();
    config.models.models.push_back({"id1", files_.Write("id1.safetensors", *Id1())});
    config.front.grpc_address = Address();
    const auto server = Server::Start(config);
    EXPECT_FALSE(server.ok());
    EXPECT_NE(server.status().message().find(path_), std::string::npos) << server.status();
    return server.status();
  }

  TempDir files_;
  const std::string path_ = files_.path() + "/widelane.sock";
};

TEST_F(UnixSocketTest, ServesBesideAPort) {
  const auto server = Serve("127.0.0.1:0," + Address());
  const std::string addresses = server->server().grpc_address();
  const size_t comma = addresses.find(',');
  ASSERT_NE(comma, std::string::npos);
  EXPECT_EQ(addresses.substr(comma + 1), Address());
  struct stat file {};
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777U, 0660U);
  for (const std::string& address : {addresses.substr(0, comma), Address()}) {
    const auto stub = v1::Scoring::NewStub(Connect(address));
    const ScoreResult result = Score(*stub, Id1Request({4}));
    ExpectOk(result.status);
    ExpectNear(result.reply.scores(), {4}, 0);
  }
}

TEST_F(UnixSocketTest, GoesWithTheServerAndIsTakenOverFromADeadOne) {
  {
    const auto server = Serve(Address());
    EXPECT_EQ(server->Scores(Id1Request({4})), std::vector<float>{4});
    EXPECT_TRUE(absl::IsUnavailable(StartError()));
    EXPECT_EQ(server->Scores(Id1Request({5})), std::vector<float>{5});
  }
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(fd);
  EXPECT_EQ(Serve(Address())->Scores(Id1Request({6})), std::vector<float>{6});
}

TEST_F(UnixSocketTest, LeavesFilesAlone) {
  files_.Write("widelane.sock", std::string("a file"));
  EXPECT_TRUE(absl::IsUnavailable(StartError()));
  EXPECT_EQ(access(path_.c_str(), F_OK), 0);
}

TEST(UsageTest, ReportsEveryMistakeAtOnceWithExitCodeTwo) {
  const Finished server =
      RunProgram({BuiltProgram("widelane-server"), "--devices", "some", "--no-such-option", "--log-level", "loud"});
  EXPECT_EQ(server.exit_code, 2) << server.err;
  for (const char* mistake : {"--devices 'some'", "'--no-such-option'", "--log-level 'loud'"}) {
    EXPECT_NE(server.err.find(mistake), std::string::npos) << mistake << " is not in:\n" << server.err;
  }
}

}  // namespace
}  // namespace widelane::test
