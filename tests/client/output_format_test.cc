#include "client/cli/output_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/cli/progress.h"
#include "client/cli/stage_table.h"
#include "client/cli/table.h"

namespace widelane::cli {
namespace {

using ::testing::HasSubstr;

std::string Lines(const std::string& outputs, const client::ScoreReply& reply, uint64_t rows) {
  const auto format = ParseOutputFormat(outputs);
  if (!format.ok()) return std::string(format.status().message());
  std::string text;
  const absl::Status status = AppendLines(*format, reply, rows, text);
  return status.ok() ? text : std::string(status.message());
}

client::ScoreReply TwoRows() {
  client::ScoreReply reply;
  reply.rows = 2;
  reply.outputs = 2;
  reply.scores = {0.1F, 1, -2.5F, 1e-20F};
  reply.raw = {0.1, 1.0 / 3, 5, 1e300};
  reply.labels = {"a", "b"};
  reply.probabilities = {0.25F, 0.75F, 1, 0};
  reply.top_outputs = {1, 0};
  reply.top_scores = {1, -2.5F};
  return reply;
}

TEST(OutputFormat, PrintsOneLineARow) {
  EXPECT_EQ(Lines("scores", TwoRows(), 2), "0.100000001 1\n-2.5 9.99999968e-21\n");
  EXPECT_EQ(Lines("raw", TwoRows(), 2), "0.10000000000000001 0.33333333333333331\n5 1.0000000000000001e+300\n");
  EXPECT_EQ(Lines("labels,probabilities", TwoRows(), 2), "a 0.25 0.75\nb 1 0\n");
  EXPECT_EQ(Lines("top:1,labels", TwoRows(), 2), "1:1 a\n0:-2.5 b\n");
}

TEST(OutputFormat, PrintsNothingForNoRows) { EXPECT_EQ(Lines("scores,labels", {}, 0), ""); }

TEST(OutputFormat, RefusesUnknownAndRepeatedWords) {
  EXPECT_THAT(Lines("score", {}, 0), HasSubstr("'score' is not an output"));
  EXPECT_THAT(Lines("scores,", {}, 0), HasSubstr("'' is not an output"));
  EXPECT_THAT(Lines("top:0", {}, 0), HasSubstr("'top:0' is not an output"));
  EXPECT_THAT(Lines("top:x", {}, 0), HasSubstr("'top:x' is not an output"));
  EXPECT_THAT(Lines("raw,raw", {}, 0), HasSubstr("output 'raw' comes twice"));
}

TEST(OutputFormat, RefusesRepliesThatDoNotFit) {
  client::ScoreReply reply = TwoRows();
  EXPECT_THAT(Lines("scores", reply, 3), HasSubstr("the reply has 2 rows, 3 were sent"));
  reply.labels.pop_back();
  EXPECT_THAT(Lines("labels", reply, 2), HasSubstr("the reply has 1 labels for 2 rows"));
  reply.raw.clear();
  EXPECT_THAT(Lines("raw", reply, 2), HasSubstr("the reply has 0 raw sums"));
  reply.top_scores.clear();
  EXPECT_THAT(Lines("top:1", reply, 2), HasSubstr("top_scores"));
}

TEST(StageTable, ShowsMedianAndSum) {
  StageTable table;
  EXPECT_EQ(table.Format(), "");
  for (const int ms : {1, 2, 30}) {
    client::StageTimes times;
    times.compute = std::chrono::milliseconds(ms);
    times.device = "cpu";
    times.batches = 2;
    table.Add(times);
  }
  EXPECT_THAT(table.Format(), HasSubstr("compute       2.000   33.000\n"));
  EXPECT_THAT(table.Format(), HasSubstr("3 calls in 6 batches on cpu\n"));
}

TEST(FormatTable, AlignsColumns) {
  EXPECT_EQ(FormatTable({{"A", "LONG", "C"}, {"longer", "x", ""}}), "A       LONG  C\nlonger  x     \n");
}

TEST(ProgressLine, ShowsABarOnlyWithATotal) {
  EXPECT_EQ(ProgressLine(50, 100, 2000000, 2), "[===============               ]  50%  2.0 M rows  1.0 M rows/s");
  EXPECT_EQ(ProgressLine(50, 0, 500, 0), "500 rows  0 rows/s");
}

}  // namespace
}  // namespace widelane::cli
