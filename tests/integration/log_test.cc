// The log of a server that runs: its level, and how much callers can make it say.

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/expect.h"
#include "tests/support/http.h"
#include "tests/support/models.h"
#include "tests/support/rows.h"
#include "tests/support/server_process.h"

namespace widelane::test {
namespace {

class LogTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"--devices", "cpu", "--model", "r4=" + files_.Write("r4.safetensors", *R4())};
    all.insert(all.end(), arguments.begin(), arguments.end());
    server_ = std::make_unique<ServerProcess>(all);
    ASSERT_TRUE(server_->WaitUntilReady());
  }
  HttpReply Call(const std::string& method, const std::string& path) {
    return HttpCall(method, server_->http_address(), path);
  }
  void Refuse(int requests) {
    for (int i = 0; i < requests; ++i) {
      EXPECT_FALSE(Score(server_->stub(), Request("stranger", PlainRows({WireRow{}}))).status.ok());
    }
  }
  void Stop() {
    server_->process().Signal(SIGTERM);
    EXPECT_EQ(server_->process().WaitForExit(std::chrono::seconds(30)), 0);
  }
  std::vector<std::string> LinesWith(const std::string& part) {
    std::istringstream log(server_->process().err());
    std::vector<std::string> lines;
    for (std::string line; std::getline(log, line);) {
      if (line.find(part) != std::string::npos) lines.push_back(line);
    }
    return lines;
  }

  TempDir files_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(LogTest, ItsLevelChangesWhileTheServerRuns) {
  Start({});
  EXPECT_EQ(Call("GET", "/log").body, "info\n");
  Refuse(1);
  EXPECT_TRUE(LinesWith("refused").empty());
  const HttpReply changed = Call("PUT", "/log?level=debug");
  EXPECT_EQ(changed.status, 200);
  EXPECT_EQ(changed.body, "debug\n");
  Refuse(1);
  EXPECT_TRUE(server_->process().WaitForLine("debug refused: NOT_FOUND: ", std::chrono::seconds(30)).has_value());
}

TEST_F(LogTest, RefusesWhatIsNoLevelOrNoMethod) {
  Start({});
  for (const char* path : {"/log", "/log?level=", "/log?level=loud", "/log?level=off", "/log?other=debug"}) {
    EXPECT_EQ(Call("PUT", path).status, 400) << path;
  }
  EXPECT_EQ(Call("DELETE", "/log?level=debug").status, 405);
  EXPECT_EQ(Call("GET", "/log?level=debug").body, "info\n");
}

TEST_F(LogTest, CallersDoNotFloodIt) {
  constexpr int kCalls = 100;
  Start({"--log-level", "debug"});
  Refuse(kCalls);
  const std::string page = Call("GET", "/metrics").body;
  const auto held_back = static_cast<int>(MetricValue(page, "widelane_log_lines_held_back_total").value_or(0));
  Stop();
  const auto written = static_cast<int>(LinesWith("refused: NOT_FOUND").size());
  EXPECT_GE(written, 5);
  EXPECT_EQ(written + held_back, kCalls);
  int repeated = 0;
  for (const std::string& line : LinesWith("refused: repeated ")) {
    repeated += std::stoi(line.substr(line.find("repeated ") + 9));
  }
  EXPECT_EQ(repeated, held_back);
}

TEST_F(LogTest, NoLineForARequestThatIsAnswered) {
  Start({"--log-level", "debug"});
  ExpectOk(Score(server_->stub(), Request("r4", PlainRows({WireRow{}}))).status);
  const size_t lines = LinesWith("").size();
  for (int i = 0; i < 20; ++i) ExpectOk(Score(server_->stub(), Request("r4", PlainRows({WireRow{}}))).status);
  EXPECT_EQ(LinesWith("").size(), lines);
  EXPECT_GE(MetricValue(Call("GET", "/metrics").body, "widelane_log_lines_total", {"level=\"info\""}).value_or(0), 5);
}

TEST_F(LogTest, EveryLineIsAnObjectInJson) {
  Start({"--log-format", "json", "--log-level", "debug"});
  Refuse(10);
  Stop();
  for (const std::string& line : LinesWith("")) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(json.is_object()) << line;
    for (const char* key : {"time", "level", "message"}) EXPECT_TRUE(json.contains(key)) << line;
  }
}

}  // namespace
}  // namespace widelane::test
