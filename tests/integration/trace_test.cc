// Timelines: /trace and `widelane trace`, checked by tests/check_trace.py.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/expect.h"
#include "tests/support/fake_device.h"
#include "tests/support/http.h"
#include "tests/support/process.h"
#include "tests/support/rows.h"
#include "tests/support/score_stream.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

using nlohmann::json;

constexpr int kOk = 200;
constexpr int kBadRequest = 400;
constexpr int kConflict = 409;

HttpReply Trace(TestServer& server, const std::string& length) {
  return HttpGet(server.server().http_address(), "/trace?seconds=" + length, std::chrono::seconds(120));
}

// A timeline from now until End, which stops the server: so tests need not know how long they take.
class RunningTrace {
 public:
  explicit RunningTrace(TestServer& server)
      : server_(server), thread_([this] {
          do {
            reply_ = Trace(server_, "60");
          } while (reply_.status == kConflict);  // with the looks below
        }) {
    const auto is_recording = [this] { return Trace(server_, "0.001").status == kConflict; };
    EXPECT_TRUE(Eventually(is_recording, std::chrono::seconds(30)));
  }
  ~RunningTrace() { End(); }
  const HttpReply& End() {
    server_.server().Shutdown();
    if (thread_.joinable()) thread_.join();
    return reply_;
  }

 private:
  TestServer& server_;
  HttpReply reply_;
  std::thread thread_;
};

// A fake GPU with two lanes, on which each batch takes 2 ms, behind a server that sends everything there.
class TraceTest : public ::testing::Test {
 protected:
  TraceTest() {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(FakeDevice::Cpu(std::make_shared<FakeDeviceControl>()));
    devices.push_back(FakeDevice::Gpu(0, gpu_));
    server_ = std::make_unique<TestServer>(TestServer::Models{{"id1", Id1()}}, std::move(devices),
                                           [](ServerConfig& config) { config.engine.route = Route::kCopied; });
    EXPECT_TRUE(server_->server().WaitUntilLoaded(std::chrono::seconds(60)));
    gpu_->set_delay(std::chrono::milliseconds(2));
  }

  const std::shared_ptr<FakeDeviceControl> gpu_ = std::make_shared<FakeDeviceControl>();
  std::unique_ptr<TestServer> server_;
  TempDir files_;
};

// Calls of several sizes, one larger than a batch, and a stream, each from a thread of its own: so many of each.
void RunLoad(TestServer& server, int requests) {
  std::vector<std::thread> threads;
  for (const size_t rows : {1, 50, 100, 40000}) {
    threads.emplace_back([&server, requests, rows] {
      for (int i = 0; i < requests; ++i) ExpectOk(server.Score(Id1Request(std::vector<float>(rows, 1.0F))).status);
    });
  }
  threads.emplace_back([&server, requests] {
    ScoreStream stream(server.stub());
    v1::StreamReply reply;
    for (int i = 0; i < requests; ++i) {
      ASSERT_TRUE(stream.Send(static_cast<uint64_t>(i), Id1Request({1.0F})));
      ASSERT_TRUE(stream.Receive(reply));
    }
    stream.Close();
    ExpectOk(stream.Finish());
  });
  for (std::thread& thread : threads) thread.join();
}

void ExpectGood(const std::string& file, const std::vector<std::string>& options = {}) {
  const std::string python = FindProgram("python3");
  if (python.empty()) return;
  std::vector<std::string> command = {python, WIDELANE_CHECK_TRACE, file};
  command.insert(command.end(), options.begin(), options.end());
  const Finished check = RunProgram(command);
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
  std::printf("%s", check.out.c_str());
}

// Names of the events of a phase.
std::set<std::string> Names(const json& trace, const std::string& phase) {
  std::set<std::string> names;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) names.insert(event.at("name").get<std::string>());
  }
  return names;
}

void ExpectAll(const std::set<std::string>& names, const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted) EXPECT_EQ(names.count(name), 1U) << name;
}

TEST_F(TraceTest, ShowsWhatRequestsBatchesAndLanesDid) {
  constexpr int kRequests = 20;
  RunningTrace running(*server_);
  RunLoad(*server_, kRequests);
  const HttpReply& reply = running.End();
  ASSERT_EQ(reply.status, kOk);
  ExpectGood(files_.Write("trace.json", reply.body), {"--overlap"});
  const json trace = json::parse(reply.body);
  EXPECT_EQ(trace.at("otherData").at("dropped_records"), 0);
  EXPECT_EQ(trace.at("otherData").at("requests"), 5 * kRequests);
  EXPECT_GE(trace.at("otherData").at("batches"), kRequests);
  ExpectAll(Names(trace, "b"), {"Score", "ScoreStream", "part", "queue", "pack", "batch", "reply"});
  ExpectAll(Names(trace, "X"),
            {"receive", "pack", "reply", "open", "queued", "running", "launch", "transfer_in", "compute"});
  ExpectAll(Names(trace, "C"), {"in flight", "queued"});
}

TEST_F(TraceTest, TellsWhatARequestWas) {
  v1::ScoreRequest good = Id1Request({1.0F, 2.0F});
  good.set_priority(v1::HIGH);
  RunningTrace running(*server_);
  ExpectOk(server_->Score(good).status);
  EXPECT_FALSE(server_->Score(Request("stranger", PlainRows({WireRow{}}))).status.ok());
  const HttpReply& reply = running.End();
  ASSERT_EQ(reply.status, kOk);
  std::set<std::string> said;
  const json trace = json::parse(reply.body);
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "b" || event.at("name") != "Score") continue;
    const json& args = event.at("args");
    said.insert(args.at("status").get<std::string>() + " " + args.at("model").get<std::string>() + " " +
                args.at("priority").get<std::string>() + " " + std::to_string(args.at("rows").get<int>()));
  }
  EXPECT_EQ(said, (std::set<std::string>{"OK id1 high 2", "NOT_FOUND   0"}));
}

TEST_F(TraceTest, RefusesWhatIsNoTime) {
  for (const char* length : {"", "0", "-1", "61", "nan", "soon", "1e9"}) {
    EXPECT_EQ(Trace(*server_, length).status, kBadRequest) << length;
  }
  EXPECT_EQ(HttpGet(server_->server().http_address(), "/trace").status, kBadRequest);
}

TEST_F(TraceTest, AStopEndsARecordingAndTheFileIsWhole) {
  RunningTrace running(*server_);
  const auto begin = std::chrono::steady_clock::now();
  const HttpReply& reply = running.End();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  ASSERT_EQ(reply.status, kOk);
  ExpectGood(files_.Write("trace.json", reply.body));
}

TEST_F(TraceTest, TheCommandWritesAFile) {
  const std::string file = files_.path() + "/trace.json";
  Finished command;
  std::thread tracing([&] {
    command = RunProgram({BuiltProgram("widelane"), "trace", "--http", server_->server().http_address(), "--seconds",
                          "0.5", "--output", file});
  });
  RunLoad(*server_, 20);
  tracing.join();
  ASSERT_EQ(command.exit_code, 0) << command.err;
  EXPECT_NE(command.out.find(std::to_string(std::filesystem::file_size(file)) + " bytes"), std::string::npos)
      << command.out;
  ExpectGood(file);
}

TEST_F(TraceTest, TheCommandSaysWhatWentWrong) {
  const std::string file = files_.path() + "/trace.json";
  const std::string server = server_->server().http_address();
  const auto error = [&](const std::string& address, const std::string& output) {
    const Finished command =
        RunProgram({BuiltProgram("widelane"), "trace", "--http", address, "--seconds", "0.01", "--output", output});
    EXPECT_EQ(command.exit_code, 1);
    return command.err;
  };
  EXPECT_NE(error("127.0.0.1:1", file).find("cannot connect to 127.0.0.1:1"), std::string::npos);
  EXPECT_NE(error("nowhere", file).find("'nowhere' is not HOST:PORT"), std::string::npos);
  EXPECT_NE(error(server, "/no/such/folder/trace.json").find("cannot write /no/such/folder"), std::string::npos);
  const RunningTrace running(*server_);
  EXPECT_NE(error(server, file).find("another timeline is being recorded"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(files_.path()));
}

TEST(TraceOnCpuTest, ShowsRequestsThatAreScoredAlone) {
  TestServer server({{"id1", Id1()}}, [](ServerConfig& config) { config.engine.route = Route::kInline; });
  RunningTrace running(server);
  RunLoad(server, 20);
  const HttpReply& reply = running.End();
  ASSERT_EQ(reply.status, kOk);
  const TempDir files;
  ExpectGood(files.Write("trace.json", reply.body));
  const json trace = json::parse(reply.body);
  EXPECT_EQ(trace.at("otherData").at("requests"), 5 * 20);
  ExpectAll(Names(trace, "X"), {"receive", "pack", "compute", "reply"});
}

}  // namespace
}  // namespace widelane::test
