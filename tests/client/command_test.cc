// The `widelane` command as a process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/run_program.h"
#include "tests/client/stub_service.h"

namespace widelane {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Command : public ::testing::Test {
 protected:
  Command() : folder_(::testing::TempDir() + "command_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~Command() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    return folder_ + "/" + name;
  }

  Result Run(const std::string& arguments) const { return RunProgram(WIDELANE_COMMAND " " + arguments, folder_); }

  const std::string folder_;
};

TEST_F(Command, HelpsAndTellsItsVersion) {
  EXPECT_THAT(Run("--version").out, StartsWith("widelane "));
  for (const char* command : {"", "score ", "models ", "import ", "import liblinear ", "inspect ", "healthcheck "}) {
    const Result result = Run(std::string(command) + "--help");
    EXPECT_EQ(result.exit_status, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Usage: widelane")) << command;
  }
}

TEST_F(Command, TellsWrongUsageFromFailure) {
  for (const char* arguments :
       {"", "fly", "score", "score -m m", "score -m m --index-base 2 -", "score -m m --output spam -",
        "score -m m --calls 0 -", "import liblinear a", "import liblinear a b --weight-type int4", "models --spam"}) {
    const Result result = Run(arguments);
    EXPECT_EQ(result.exit_status, 2) << arguments;
    EXPECT_NE(result.err, "") << arguments;
    EXPECT_EQ(result.out, "") << arguments;
  }
  for (const char* arguments :
       {"score -a 127.0.0.1:1 -m m /nonexistent", "score -a 127.0.0.1:1 -m m /", "models -a 127.0.0.1:1",
        "healthcheck -a 127.0.0.1:1", "import liblinear /nonexistent x", "inspect /nonexistent"}) {
    const Result result = Run(arguments);
    EXPECT_EQ(result.exit_status, 1) << arguments;
    EXPECT_THAT(result.err, StartsWith("widelane: ")) << arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST_F(Command, ImportsAndInspects) {
  const std::string in =
      Write("l3", "solver_type L2R_LR\nnr_class 2\nlabel 0 1\nnr_feature 3\nbias 1\nw\n0.5 \n-1.25 \n2 \n-0.25 \n");
  const std::string out = folder_ + "/model.safetensors";
  const Result imported = Run("import liblinear " + in + " " + out);
  EXPECT_EQ(imported.exit_status, 0) << imported.err;
  EXPECT_THAT(imported.out,
              HasSubstr("3 features, 1 output, sigmoid, labels 1 (negative) and 0 (positive), float32, "));
  const Result inspected = Run("inspect " + out);
  EXPECT_EQ(inspected.exit_status, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("liblinear L2R_LR"));
  EXPECT_EQ(Run("import liblinear " + in + " /nonexistent/x").exit_status, 1);
  EXPECT_EQ(Run("inspect " + in).exit_status, 1);
}

// Echoes the first index of each row, the first calls the slowest.
grpc::Status SlowEcho(const v1::ScoreRequest& request, v1::ScoreReply& reply) {
  const std::string& data = request.rows().indices().data();
  std::vector<uint16_t> indices(data.size() / 2);
  std::memcpy(indices.data(), data.data(), data.size());
  for (const uint16_t index : indices) reply.add_scores(index);
  reply.set_rows(indices.size());
  reply.set_outputs(1);
  if (request.stage_times()) reply.mutable_stage_times()->set_device("cpu");
  std::this_thread::sleep_for(std::chrono::milliseconds(indices[0] % 20 < 10 ? 40 : 0));
  return grpc::Status::OK;
}

TEST_F(Command, ScoresInOrderWithSeveralCallsInFlight) {
  StubService service;
  service.on_score = SlowEcho;
  service.Start();
  std::string rows, expected;
  for (int i = 0; i < 295; ++i) {
    rows += "1 " + std::to_string(i + 1) + ":1\n";
    expected += std::to_string(i) + "\n";
  }
  const std::string file = Write("rows", rows);
  const std::string common = "score -a " + service.address() + " -m m --rows-per-call 10 ";
  const Result result = Run(common + "--stage-times " + file);
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(result.out, expected);
  EXPECT_THAT(result.err, StartsWith("295 rows in "));
  EXPECT_THAT(result.err, HasSubstr("30 calls in"));
  EXPECT_EQ(service.score_calls(), 30);

  const Result quiet = Run(common + "-q -o " + folder_ + "/scores - <" + file);
  EXPECT_EQ(quiet.exit_status, 0) << quiet.err;
  EXPECT_EQ(quiet.out + quiet.err, "");
  EXPECT_EQ(Slurp(folder_ + "/scores"), expected);
}

TEST_F(Command, NamesTheBadLine) {
  StubService service;
  service.on_score = SlowEcho;
  service.Start();
  const Result result = Run("score -a " + service.address() + " -m m " + Write("rows", "1 1:1\n1 1:x\n"));
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(result.out, "0\n");
  EXPECT_THAT(result.err, HasSubstr("rows:2: '1:x' has a value that is not a number"));
}

TEST_F(Command, AnswersAllRowsBeforeABadLine) {
  StubService service;
  service.on_score = SlowEcho;
  service.Start();
  const std::string score = "score -a " + service.address() + " -m m --rows-per-call 2 ";
  // The bad row has good entries, which belong to no row.
  const Result result = Run(score + Write("rows", "1 1:1\n1 2:1\n1 3:1\n1 4:1 5:x\n1 6:1\n"));
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(result.out, "0\n1\n2\n");
  EXPECT_THAT(result.err, HasSubstr("rows:4: '5:x' has a value that is not a number"));
  const Result none = Run(score + Write("rows", "1 4:1 5:x\n"));
  EXPECT_EQ(none.exit_status, 1);
  EXPECT_EQ(none.out, "");
}

TEST_F(Command, DoesNotWriteOverItsRows) {
  StubService service;
  service.on_score = SlowEcho;
  service.Start();
  const std::string rows = Write("rows", "1 1:1\n");
  std::filesystem::create_symlink(rows, folder_ + "/link");
  std::filesystem::create_hard_link(rows, folder_ + "/other");
  const std::string score = "score -a " + service.address() + " -m m -o ";
  for (const std::string& arguments : {rows + " " + rows, folder_ + "/link " + rows, folder_ + "/other " + rows,
                                       rows + " " + folder_ + "/./rows", rows + " - <" + rows}) {
    const Result result = Run(score + arguments);
    EXPECT_EQ(result.exit_status, 1) << arguments;
    EXPECT_THAT(result.err, HasSubstr("would overwrite the rows")) << arguments;
    EXPECT_EQ(Slurp(rows), "1 1:1\n") << arguments;
  }
}

// A command that cannot run leaves the scores of the last one alone.
TEST_F(Command, KeepsTheOutputFileWhenItCannotStart) {
  const std::string scores = Write("scores", "0.5\n");
  EXPECT_EQ(Run("score -a '' -m m -o " + scores + " " + Write("rows", "1 1:1\n")).exit_status, 1);
  EXPECT_EQ(Run("score -a 127.0.0.1:1 -m m -o " + scores + " /nonexistent").exit_status, 1);
  EXPECT_EQ(Slurp(scores), "0.5\n");
}

TEST_F(Command, FailsWhenTheScoresCannotBeWritten) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  StubService service;
  service.on_score = SlowEcho;
  service.Start();
  const Result result = Run("score -a " + service.address() + " -m m -o /dev/full " + Write("rows", "1 1:1\n"));
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot write"));
}

TEST_F(Command, ListsModels) {
  StubService service;
  for (const auto state : {v1::ModelInfo::AVAILABLE, v1::ModelInfo::FAILED}) {
    auto* model = service.models.add_models();
    model->set_name(state == v1::ModelInfo::AVAILABLE ? "good" : "bad");
    model->set_version("1");
    model->set_state(state);
    model->set_features(54000);
    model->set_outputs(1);
    model->set_link("sigmoid");
    model->set_weight_type("float32");
    model->add_devices("cpu");
    model->set_error(state == v1::ModelInfo::FAILED ? "no such file" : "");
  }
  service.Start();
  EXPECT_EQ(Run("models -a " + service.address()).out,
            "NAME  VERSION  STATE      FEATURES  OUTPUTS  LINK     WEIGHTS  DEVICES\n"
            "good  1        available  54000     1        sigmoid  float32  cpu\n"
            "bad   1        failed     -         -        -        -        no such file\n");
  EXPECT_THAT(Run("models --json -a " + service.address()).out, HasSubstr("\"state\": \"failed\""));
}

// The README's JSON example: no generated code, only what reflection tells.
TEST_F(Command, AnswersJsonOverReflection) {
  std::string python;
  for (const char* candidate : {"python3", "/usr/bin/python3"}) {
    const std::string line = std::string(candidate) + " -c 'import grpc, google.protobuf' 2>/dev/null";
    if (python.empty() && std::system(line.c_str()) == 0) python = candidate;
  }
  if (python.empty()) GTEST_SKIP() << "Python's grpcio and protobuf are not installed";
  StubService service;
  service.on_score = [](const v1::ScoreRequest& request, v1::ScoreReply& reply) {
    if (request.model() != "m") return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no such model");
    for (const int64_t index : request.rows().plain_indices()) reply.add_scores(static_cast<float>(index));
    return grpc::Status::OK;
  };
  service.Start();
  const auto call = [&](const std::string& rest) {
    const std::string line =
        python + " " WIDELANE_JSON_CALL " " + service.address() + " " + rest + " >" + folder_ + "/out 2>&1";
    const int status = std::system(line.c_str());
    return std::to_string(WEXITSTATUS(status)) + " " + Slurp(folder_ + "/out");
  };
  EXPECT_THAT(call("list"), HasSubstr("widelane.v1.Scoring\n"));
  const std::string score =
      call(R"(widelane.v1.Scoring/Score '{"model": "m", "rows": {"plainIndptr": [0, 2], "plainIndices": [3, 10]}}')");
  EXPECT_THAT(score, StartsWith("0 {"));
  EXPECT_THAT(score, HasSubstr("3.0,"));
  EXPECT_THAT(score, HasSubstr("10.0"));
  EXPECT_EQ(call("widelane.v1.Scoring/Score '{}'"), "1 NOT_FOUND: there is no such model\n");
  EXPECT_THAT(call("widelane.v1.Scoring/Fly"), StartsWith("1 json_call: "));
  EXPECT_THAT(call("widelane.v2.Scoring/Score"), StartsWith("1 json_call: "));
  EXPECT_THAT(call(R"(widelane.v1.Scoring/Score '{"modle": 1}')"), StartsWith("1 json_call: "));
  EXPECT_THAT(call("Score"), StartsWith("2 "));
}

TEST_F(Command, ChecksHealth) {
  StubService service;
  service.Start();
  EXPECT_EQ(Run("healthcheck -a " + service.address()).exit_status, 0);
  EXPECT_EQ(Run("healthcheck --service nothing -a " + service.address()).exit_status, 1);
}

TEST(Readme, ShowsTheExampleThatIsCompiled) {
  const std::string folder = WIDELANE_SOURCE_DIR "/client/";
  EXPECT_THAT(Slurp(folder + "README.md"), HasSubstr("```cpp\n" + Slurp(folder + "cpp/examples/score.cc") + "```\n"));
}

}  // namespace
}  // namespace widelane
