#include "server/models/cost_table.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"

namespace widelane {
namespace {

const std::vector<DeviceInfo> kDevices = {
    {"cpu", "a CPU", -1, "", 0}, {"GPU-a", "a GPU", 0, "0000:01:00.0", 1}, {"GPU-b", "a GPU", 1, "0000:02:00.0", 1}};

TEST(CostTableTest, HasALineForEachCost) {
  const std::vector<RouteCost> costs = {
      {Route::kInline, 0, {Values::kOnes, 0}, {.fixed_ns = 250, .row_ns = 10, .entry_ns = 0.5}},
      {Route::kCopied, 1, {Values::kFloat16, 10}, {.fixed_ns = 20000, .row_ns = 0.25, .entry_ns = 0.05}}};
  const std::vector<std::string> lines = CostTableLines(costs, kDevices);
  ASSERT_EQ(lines.size(), 3u);
  for (const char* head : {"route", "device", "values", "results", "fixed us", "ns a row", "ns an entry"}) {
    EXPECT_TRUE(absl::StrContains(lines[0], head)) << lines[0];
  }
  // 1,000 rows of 40 entries: 250 + 10 x 1,000 + 0.5 x 40,000 ns.
  for (const char* part : {"inline", "cpu", "ones", "all", "0.25", "10.000", "0.5000", "30.25"}) {
    EXPECT_TRUE(absl::StrContains(lines[1], part)) << part << " in " << lines[1];
  }
  for (const char* part : {"copied", "gpu 0", "float16", "best", "20.00"}) {
    EXPECT_TRUE(absl::StrContains(lines[2], part)) << part << " in " << lines[2];
  }
  EXPECT_EQ(lines[1].size(), lines[0].size());
  EXPECT_EQ(lines[2].size(), lines[0].size());
}

TEST(CostTableTest, DevicesThatCostTheSameShareALine) {
  RouteCost first{Route::kMapped, 1, {}, {.fixed_ns = 15000, .row_ns = 0.5, .entry_ns = 0.1}};
  RouteCost second = first;
  second.device = 2;
  RouteCost copied = second;
  copied.route = Route::kCopied;
  const std::vector<std::string> lines = CostTableLines({first, second, copied}, kDevices);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(absl::StrContains(lines[1], "gpu 0,1")) << lines[1];
  EXPECT_TRUE(absl::StrContains(lines[2], "gpu 1 ")) << lines[2];
}

TEST(CostTableTest, IsEmptyWithoutCosts) { EXPECT_TRUE(CostTableLines({}, kDevices).empty()); }

}  // namespace
}  // namespace widelane
