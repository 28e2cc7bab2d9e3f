// `widelane bench server` and `bench model` as processes.

#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/client/run_program.h"
#include "tests/client/stub_service.h"
#include "widelane/engine/model_file.h"

namespace widelane {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class BenchServerCommand : public ::testing::Test {
 protected:
  BenchServerCommand() : folder_(::testing::TempDir() + "bench_server_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~BenchServerCommand() override { std::filesystem::remove_all(folder_); }

  Result Bench(const std::string& arguments) const {
    return RunProgram(WIDELANE_COMMAND " bench " + arguments, folder_);
  }

  const std::string folder_;
};

TEST_F(BenchServerCommand, MeasuresAndWritesJson) {
  StubService service;
  service.on_score = [](const v1::ScoreRequest& request, v1::ScoreReply& reply) {
    reply.set_rows(request.rows().row_lengths().data().size() / 2);
    return grpc::Status::OK;
  };
  service.Start();
  const std::string common = "server --model clicks --duration 0.3 --warm-up 0 --address " + service.address();
  const Result closed = Bench(common + " --rows 7 --concurrency 4 --json -");
  ASSERT_EQ(closed.exit_status, 0) << closed.err;
  EXPECT_EQ(closed.err, "");
  const auto json = nlohmann::json::parse(closed.out);
  EXPECT_EQ(json["profile"]["name"], "text-54k");
  EXPECT_EQ(json["loop"], "closed");
  EXPECT_EQ(json["rows_per_call"], 7);
  EXPECT_GT(json["calls_per_s"], 0);
  EXPECT_DOUBLE_EQ(json["rows_per_s"], 7 * json["calls_per_s"].get<double>());
  EXPECT_LE(json["latency_us"]["p50"], json["latency_us"]["p99.9"]);
  EXPECT_LE(json["latency_us"]["p99.9"], json["latency_us"]["max"]);
  EXPECT_EQ(json["errors"], nlohmann::json::object());
  EXPECT_EQ(json["first_error"], "");

  const Result open = Bench(common + " --rate 200 --json " + folder_ + "/json");
  ASSERT_EQ(open.exit_status, 0) << open.err;
  EXPECT_THAT(open.out, HasSubstr("200 calls/s, at most 64 calls in flight"));
  EXPECT_THAT(open.out, HasSubstr("CALLS/S  ROWS/S"));
  EXPECT_EQ(nlohmann::json::parse(Slurp(folder_ + "/json"))["loop"], "open");
}

TEST_F(BenchServerCommand, FailsWhenNothingIsAnswered) {
  StubService service;
  service.on_score = [](const v1::ScoreRequest& /*request*/, v1::ScoreReply& /*reply*/) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no model 'clicks'");
  };
  service.Start();
  const Result result = Bench("server --model clicks --duration 0.2 --warm-up 0 --address " + service.address());
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(result.err, "widelane: NOT_FOUND: there is no model 'clicks'\n");
  EXPECT_THAT(result.out, HasSubstr(" NOT_FOUND\n"));
}

TEST_F(BenchServerCommand, RefusesAWrongCommandLine) {
  const std::pair<const char*, const char*> refusals[] = {
      {"server", "--model is required"},
      {"server --model m --profile text", "there is no profile 'text'; there are text-54k, ctr-1M"},
      {"server --model m --context", "context: rows of text-54k share no features; those of rank do"},
      {"server --model m --streams 2", "--streams requires --stream"},
      {"server --model m --rate 0", "--rate"},
      {"server --model m --rows 0", "--rows"},
      {"server --model m --priority urgent", "urgent"},
      {"server --model m --threads 4 --connections 2", "connections: 2 are fewer than the 4 threads"},
      {"server --model m --concurrency 1 --connections 2", "concurrency: 1 are fewer than the 2 connections"},
      {"server --model m --rows 16000000 --profile multihot-178M", "more than the 4294967295 there may be"},
      {"server --model m --zipf -1", "zipf: '-1' is neither"},
      {"model --profile text-54k", "FILE is required"},
      {"model --link log x", "log"},
  };
  for (const auto& [arguments, message] : refusals) {
    const Result result = Bench(arguments);
    EXPECT_EQ(result.exit_status, 2) << arguments;
    EXPECT_THAT(result.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
  }
}

TEST_F(BenchServerCommand, WritesModelsAndOverwritesNone) {
  const std::string file = folder_ + "/model.safetensors";
  const Result written = Bench("model --profile labels-1k --features 300 --outputs 20 --link softmax " + file);
  ASSERT_EQ(written.exit_status, 0) << written.err;
  EXPECT_THAT(written.out, StartsWith(file + ": 300 features x 20 outputs, float32, "));
  const auto model = ReadModelFile(file);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->features(), 300);
  EXPECT_EQ((*model)->link(), Link::kSoftmax);
  const Result again = Bench("model --features 300 " + file);
  EXPECT_EQ(again.exit_status, 1);
  EXPECT_EQ(again.err, "widelane: " + file + " exists, and is not overwritten\n");
  EXPECT_EQ((*ReadModelFile(file))->outputs(), 20);
}

}  // namespace
}  // namespace widelane
