// `widelane bench engine` as a process, at sizes that take no time, and the drawing of what it measures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/client/run_program.h"

namespace widelane {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class BenchCommand : public ::testing::Test {
 protected:
  BenchCommand() : folder_(::testing::TempDir() + "bench_command_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~BenchCommand() override { std::filesystem::remove_all(folder_); }

  Result Run(const std::string& line) const { return RunProgram(line, folder_); }
  Result Bench(const std::string& arguments) const { return Run(WIDELANE_COMMAND " bench engine " + arguments); }

  const std::string folder_;
};

const char* const kTiny = "--features 500 --entries-per-row 5 --calls 6 ";

TEST_F(BenchCommand, WritesJsonAndNothingElse) {
  const Result result = Bench(std::string(kTiny) + "--rows 1,7,100 --backend cpu --threads 2 --json -");
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["profile"]["name"], "text-54k");
  EXPECT_EQ(json["profile"]["features"], 500);
  ASSERT_EQ(json["backends"].size(), 1);
  const auto& cpu = json["backends"][0];
  EXPECT_EQ(cpu["name"], "cpu");
  EXPECT_EQ(cpu["devices"][0]["id"], "cpu");
  EXPECT_GT(cpu["memory"]["host_peak"], 0);
  ASSERT_EQ(cpu["results"].size(), 3);
  const int rows[] = {1, 7, 100};
  for (size_t i = 0; i < 3; ++i) {
    const auto& one = cpu["results"][i];
    EXPECT_EQ(one["rows"], rows[i]);
    EXPECT_EQ(one["entries"], 5 * rows[i]);
    EXPECT_EQ(one["calls"], 6);
    EXPECT_GT(one["median_us"], 0);
    EXPECT_LE(one["min_us"], one["p10_us"]);
    EXPECT_LE(one["p10_us"], one["median_us"]);
    EXPECT_LE(one["median_us"], one["p90_us"]);
    EXPECT_GT(one["rows_per_s"], 0);
    // 16-bit indices; rows of one length need nothing else.
    EXPECT_EQ(one["bytes_in"], rows[i] * 10);
    EXPECT_EQ(one["bytes_out"], rows[i] * 4);
    EXPECT_TRUE(one["route"] == "inline" || one["route"] == "pool") << one["route"];
    EXPECT_GT(one["stages_us"]["compute"], 0);
  }
}

TEST_F(BenchCommand, GivesTheSameBitsHoweverItIsAsked) {
  const std::string common = std::string(kTiny) + "--rows 100 --outputs 20 --values float16 --json - ";
  for (const char* best : {"--best 0 ", "--best 3 "}) {
    std::string checksum;
    for (const char* way : {"--backend cpu", "--backend auto --threads 1", "--backend cpu --route pool",
                            "--backend cpu --route inline", "--backend cpu --plain"}) {
      const Result result = Bench(common + best + way);
      ASSERT_EQ(result.exit_status, 0) << way << ": " << result.err;
      const auto json = nlohmann::json::parse(result.out);
      const std::string found = json["backends"][0]["results"][0]["checksum"];
      if (checksum.empty()) checksum = found;
      EXPECT_EQ(found, checksum) << best << way;
    }
  }
}

TEST_F(BenchCommand, KnowsEveryTypeOfWeightsAndValues) {
  for (const char* arguments :
       {"--weights float16 --values float32", "--weights bfloat16 --zipf uniform", "--weights int8 --zipf 1.3 --seed 9",
        "--profile labels-1k --outputs 30 --best 7", "--profile long", "--profile rank --plain"}) {
    const Result result = Bench(std::string(kTiny) + "--rows 3,40 --backend cpu " + arguments);
    EXPECT_EQ(result.exit_status, 0) << arguments << ": " << result.err;
    EXPECT_THAT(result.out, HasSubstr("ROWS/S")) << arguments;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 6) << result.out;
  }
}

TEST_F(BenchCommand, WritesATableAndAFile) {
  const Result result = Bench(std::string(kTiny) + "--rows 10 --backend cpu,auto --seed 3 --json " + folder_ + "/json");
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("text-54k: 500 features x 1 outputs"));
  EXPECT_THAT(result.out, HasSubstr("\ncpu "));
  EXPECT_THAT(result.out, HasSubstr("\nauto "));
  EXPECT_EQ(nlohmann::json::parse(Slurp(folder_ + "/json"))["backends"].size(), 2);
}

TEST_F(BenchCommand, MakesTheTableOfTheFirstReport) {
  const Result result =
      Bench("--features 500 --entries-per-row 1 --table p100 --rows 10,100 --backend cpu --json " + folder_ + "/json");
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("BATCH  CALLS  CPU MS"));
  const auto json = nlohmann::json::parse(Slurp(folder_ + "/json"));
  ASSERT_EQ(json["p100"].size(), 10);
  EXPECT_EQ(json["p100"][9]["rows"], 100);
  EXPECT_EQ(json["p100"][9]["calls"], 200);
  EXPECT_GT(json["p100"][9]["total_us"], json["p100"][9]["median_us"]);
}

TEST_F(BenchCommand, RefusesWithAReason) {
  const std::string rows = "--rows 10 ";
  const std::pair<const char*, const char*> refusals[] = {
      {"--profile text", "there is no profile 'text'; there are text-54k, ctr-1M"},
      {"--backend tpu", "there is no backend 'tpu'; there are cpu, gpu, gpus, auto, cusparse"},
      {"--route scenic", "scenic"},
      {"--zipf -1", "zipf: '-1' is neither"},
      {"--devices gpu", "devices: 'gpu' is no list of GPUs"},
      {"--backend cpu --rows 1000000000", "1000000000 rows of text-54k has 40000000000 entries, a batch holds at most"},
  };
  for (const auto& [arguments, message] : refusals) {
    const Result result = Bench((std::string(arguments).find("--rows") == std::string::npos ? rows : "") + arguments);
    EXPECT_EQ(result.exit_status, 1) << arguments;
    EXPECT_THAT(result.err, StartsWith("widelane: ")) << arguments;
    EXPECT_THAT(result.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
  }
  for (const char* arguments : {"--rows 0", "--rows ten", "--weights int4", "--values int8", "--calls 0", "--best 1000",
                                "--table p101", "--table p100 --calls 10"}) {
    const Result result = Bench(arguments);
    EXPECT_EQ(result.exit_status, 2) << arguments;
    EXPECT_NE(result.err, "") << arguments;
  }
}

// An empty list of visible GPUs stands for a machine that has none.
TEST_F(BenchCommand, LeavesOutWhatTheMachineLacks) {
  const std::string hidden = "CUDA_VISIBLE_DEVICES= " WIDELANE_COMMAND " bench engine --rows 10 " + std::string(kTiny);
  const Result alone = Run(hidden + "--backend gpu");
  EXPECT_EQ(alone.exit_status, 1);
  EXPECT_THAT(alone.err, StartsWith("widelane: backend gpu: no GPU can be used: "));
  const Result both = Run(hidden + "--backend gpu,cpu");
  EXPECT_EQ(both.exit_status, 0) << both.err;
  EXPECT_THAT(both.out, HasSubstr("backend gpu: left out, no GPU can be used: "));
  EXPECT_THAT(both.out, HasSubstr("\ncpu "));
  const auto json = nlohmann::json::parse(Run(hidden + "--backend gpu,cpu --json -").out);
  EXPECT_THAT(std::string(json["backends"][0]["left_out"]), StartsWith("no GPU can be used: "));
  EXPECT_EQ(json["backends"][1]["results"].size(), 1);
}

TEST_F(BenchCommand, Helps) {
  for (const char* command : {" bench --help", " bench engine --help"}) {
    const Result result = Run(std::string(WIDELANE_COMMAND) + command);
    EXPECT_EQ(result.exit_status, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Usage: widelane bench")) << command;
  }
}

TEST_F(BenchCommand, IsDrawn) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3";
  std::ofstream(folder_ + "/json") << R"({"date": "2026-01-31T00:00:00", "machine": {"cores": 16},
      "versions": {"gpus": ["A & B", "A & B"]},
      "crossover": {"auto": [[1, 0.5], [1000, 20], [200000, 300]], "torch_cpu": [[1, 20], [200000, 2000]]}})";
  const std::string plot = "python3 " WIDELANE_SOURCE_DIR "/tests/bench/plot.py " + folder_;
  const Result result = Run(plot + "/json " + folder_ + "/svg");
  ASSERT_EQ(result.exit_status, 0) << result.err;
  const std::string svg = Slurp(folder_ + "/svg");
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("A &amp; B, 16 cores, 2026-01-31"));
  EXPECT_THAT(svg, HasSubstr(">Widelane auto</text>"));
  EXPECT_THAT(svg, HasSubstr(">PyTorch CPU</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("Widelane GPU")));
  EXPECT_LT(svg.size(), 30'000);

  std::ofstream(folder_ + "/json") << R"({"crossover": {}})";
  EXPECT_THAT(Run(plot + "/json " + folder_ + "/svg").err, HasSubstr("has no crossover"));
}

}  // namespace
}  // namespace widelane
