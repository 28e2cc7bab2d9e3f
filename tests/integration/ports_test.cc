// A port that is taken ends the start at once, before any model is loaded.

#include <gtest/gtest.h>

#include "tests/support/expect.h"
#include "tests/support/http.h"
#include "tests/support/models.h"
#include "tests/support/rows.h"
#include "tests/support/server_process.h"

namespace widelane::test {
namespace {

constexpr std::chrono::seconds kLimit{kSanitized ? 10 : 2};

class PortsTest : public ::testing::Test {
 protected:
  void ExpectRefused(const std::string& grpc_address, const std::string& http_address, const std::string& taken) {
    // This file is no model: had the server got as far as loading it, it would say so.
    const std::string model = files_.Write("marker.safetensors", std::string("not a model"));
    const Finished server = RunProgram(ServerCommand(grpc_address, http_address, {"--model", "marker=" + model}), {},
                                       std::chrono::seconds(30));
    EXPECT_GT(server.exit_code, 0) << server.err;
    EXPECT_LT(server.exit_code, 128) << server.err;
    EXPECT_LT(server.time, kLimit);
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
