#include "client/cli/bench_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "widelane/engine/slab.h"

namespace widelane::cli {
namespace {

using ::testing::HasSubstr;

BenchProfile Small(const std::string& name) {
  BenchProfile profile = *FindProfile(name);
  profile.features = std::min<uint64_t>(profile.features, 5'000);
  profile.outputs = std::min<uint32_t>(profile.outputs, 20);
  return profile;
}

TEST(BenchProfile, NamesThoseThereAre) {
  const auto found = FindProfile("text");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* name : {"text-54k", "ctr-1M", "multihot-178M", "rank", "1B", "long", "labels-1k", "labels-10k"}) {
    EXPECT_TRUE(FindProfile(name).ok()) << name;
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(name));
  }
}

TEST(BenchProfile, CountsItsEntries) {
  for (const char* name : {"text-54k", "long", "rank"}) {
    const BenchProfile profile = *FindProfile(name);
    uint64_t entries = 0;
    for (uint64_t row = 0; row < 400; ++row) {
      EXPECT_EQ(profile.EntriesOfRows(row), entries) << name << " " << row;
      entries += profile.EntriesOfRow(row);
    }
  }
  EXPECT_GT(FindProfile("long")->EntriesOfRows(300), 1'850'000);
}

TEST(BenchData, MakesWeightsOfEachType) {
  BenchProfile profile = Small("labels-1k");
  for (const WeightType type : {WeightType::kFloat32, WeightType::kFloat16, WeightType::kBfloat16, WeightType::kInt8}) {
    profile.weights = type;
    const auto model = MakeModel(profile, 1);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->features(), profile.features);
    EXPECT_EQ((*model)->outputs(), profile.outputs);
    if (type == WeightType::kInt8) {
      EXPECT_EQ((*model)->max_weight(), 128);
    } else {
      EXPECT_LT((*model)->max_weight(), 0.125);
      EXPECT_GT((*model)->max_weight(), 0.12);
    }
  }
}

TEST(BenchData, MakesRowsThatTheEngineTakes) {
  for (const char* name : {"text-54k", "long", "rank"}) {
    BenchProfile profile = Small(name);
    for (const Values values : {Values::kOnes, Values::kFloat16, Values::kFloat32}) {
      profile.values = values;
      const MadeRows rows = MakeRows(profile, 70, 1);
      ASSERT_EQ(rows.rows(), 70);
      const CsrView csr = rows.View(50);
      const auto shape = CheckShape(csr, {1'000'000, 10'000'000, kMaxRowEntries});
      ASSERT_TRUE(shape.ok()) << shape.status();
      EXPECT_EQ(shape->rows, 50);
      EXPECT_EQ(shape->entries, profile.EntriesOfRows(50));
      EXPECT_LT(*std::max_element(rows.indices.begin(), rows.indices.end()), profile.features);
      EXPECT_EQ(NarrowestValues(csr.values), values) << name;
    }
  }
}

TEST(BenchData, SharesTheContextOfARanking) {
  BenchProfile profile = Small("rank");
  profile.context_rows = 3;
  const MadeRows rows = MakeRows(profile, 6, 1);
  const auto row = [&](int r) {
    return rows.indices.begin() + static_cast<std::ptrdiff_t>(r) * profile.entries_per_row;
  };
  const auto context = static_cast<std::ptrdiff_t>(profile.context);
  EXPECT_TRUE(std::equal(row(0), row(0) + context, row(2)));
  EXPECT_FALSE(std::equal(row(0) + context, row(1), row(1) + context));
  EXPECT_FALSE(std::equal(row(0), row(0) + context, row(3)));
}

TEST(BenchData, FollowsTheSeed) {
  const BenchProfile profile = Small("text-54k");
  EXPECT_EQ(MakeRows(profile, 10, 1).indices, MakeRows(profile, 10, 1).indices);
  EXPECT_NE(MakeRows(profile, 10, 1).indices, MakeRows(profile, 10, 2).indices);
}

}  // namespace
}  // namespace widelane::cli
