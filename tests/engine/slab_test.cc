#include "widelane/engine/slab.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "backend.h"
#include "harness.h"
#include "plain_memory.h"
#include "widelane/engine/engine.h"

namespace widelane {
namespace {

using test::PlainMemory;

std::shared_ptr<const LoadedModel> Loaded(std::shared_ptr<const Model> model) {
  return std::make_shared<LoadedModel>(std::move(model), std::vector<std::unique_ptr<ResidentModel>>(), false);
}

std::shared_ptr<const Model> Wide(uint32_t outputs) {
  return test::MakeModel(outputs, std::vector<float>(outputs, 1.0F), {}, Link::kIdentity);
}

TEST(Slab, GivesItsMemoryBack) {
  int live = 0;
  PlainMemory memory(1, &live);
  {
    auto slab = Slab::Create({.rows = 4, .entries = 8, .results = 4}, memory);
    ASSERT_TRUE(slab.ok());
    EXPECT_EQ(live, 1);
    EXPECT_EQ(Slab::Create({.rows = 4, .entries = 8, .results = 4}, memory).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(live, 0);
}

TEST(Slab, BoundsRowsEntriesAndResults) {
  PlainMemory memory;
  const auto slab = *Slab::Create({.rows = 10, .entries = 20, .results = 12}, memory);
  slab->Open(Loaded(Wide(1)), {});
  EXPECT_EQ(slab->Room().rows, 10U);
  EXPECT_EQ(slab->Room().entries, 20U);
  EXPECT_FALSE(slab->Claim(11, 0, kWantRaw).has_value());
  EXPECT_FALSE(slab->Claim(1, 21, kWantRaw).has_value());
  EXPECT_FALSE(slab->Claim(~uint64_t{0}, ~uint64_t{0}, kWantRaw).has_value());
  EXPECT_EQ(slab->rows(), 0U);

  slab->Open(Loaded(Wide(3)), {});
  EXPECT_EQ(slab->Room().rows, 4U) << "12 results are 4 rows of 3";
  slab->Open(Loaded(Wide(12)), {});
  EXPECT_EQ(slab->Room().rows, 1U);
}

TEST(Slab, ClaimsFollowOneAnother) {
  PlainMemory memory;
  const auto slab = *Slab::Create({.rows = 10, .entries = 20, .results = 12}, memory);
  slab->Open(Loaded(Wide(1)), {.values = Values::kFloat32});
  const auto first = slab->Claim(3, 7, kWantScores);
  const auto second = slab->Claim(7, 13, kWantScores);
  ASSERT_TRUE(first.has_value());
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(first->first_row, 0U);
  EXPECT_EQ(second->first_row, 3U);
  EXPECT_EQ(second->first_entry, 7U);
  EXPECT_EQ(second->rows, 7U);
  EXPECT_EQ(second->entries, 13U);
  EXPECT_FALSE(slab->Claim(1, 0, kWantScores).has_value());
  EXPECT_TRUE(slab->Claim(0, 0, kWantScores).has_value());
}

TEST(Slab, ShowsWhatAnySegmentWants) {
  PlainMemory memory;
  const auto slab = *Slab::Create({.rows = 10, .entries = 20, .results = 12}, memory);
  for (const int wants : {0, 1, 2, 3}) {
    slab->Open(Loaded(Wide(2)), {});
    const auto first = *slab->Claim(1, 0, static_cast<uint8_t>(wants & kWantScores));
    const auto second = *slab->Claim(1, 0, static_cast<uint8_t>(wants & kWantRaw));
    slab->Void(first);
    slab->Void(second);
    slab->Seal();
    EXPECT_EQ(slab->view().scores != nullptr, (wants & kWantScores) != 0);
    EXPECT_EQ(slab->view().raw != nullptr, (wants & kWantRaw) != 0);
    if ((wants & kWantScores) != 0) {
      EXPECT_EQ(slab->scores(1), slab->view().scores + 2);
    }
    if ((wants & kWantRaw) == 0) {
      EXPECT_EQ(slab->raw(1), nullptr);
    }
  }
}

TEST(Slab, IsNewAfterOpen) {
  PlainMemory memory;
  const auto slab = *Slab::Create({.rows = 10, .entries = 20, .results = 12}, memory);
  auto model = Loaded(Wide(1));
  slab->Open(model, {.values = Values::kFloat32});
  slab->Void(*slab->Claim(10, 20, kWantRaw));
  slab->Seal();
  slab->status = absl::InternalError("x");
  slab->device = 3;
  slab->Open(Loaded(Wide(2)), {});
  EXPECT_EQ(model.use_count(), 1) << "the slab let go of the model before";
  EXPECT_EQ(slab->rows(), 0U);
  EXPECT_EQ(slab->entries(), 0U);
  EXPECT_EQ(slab->kind(), BatchKind());
  EXPECT_TRUE(slab->status.ok());
  EXPECT_EQ(slab->device, -1);
  slab->Seal();
  EXPECT_EQ(slab->view().rows, 0U);
  EXPECT_EQ(slab->view().row_begin[0], 0U);
  EXPECT_EQ(slab->view().values32, nullptr);
}

TEST(Slab, ArraysStandOnTheirOwnCacheLines) {
  PlainMemory memory;
  const auto slab = *Slab::Create({.rows = 3, .entries = 5, .results = 7}, memory);
  slab->Open(Loaded(Wide(1)), {.values = Values::kFloat32});
  slab->Void(*slab->Claim(3, 5, kWantRaw | kWantScores));
  slab->Seal();
  const BatchView& view = slab->view();
  for (const void* array : {static_cast<const void*>(view.row_begin), static_cast<const void*>(view.row_max),
                            static_cast<const void*>(view.indices16), static_cast<const void*>(view.values32),
                            static_cast<const void*>(view.scores), static_cast<const void*>(view.raw)}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(array) % 64, 0U);
  }
}

}  // namespace
}  // namespace widelane
