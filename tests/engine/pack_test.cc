#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "backend.h"
#include "elements.h"
#include "harness.h"
#include "plain_memory.h"
#include "widelane/engine/errors.h"
#include "widelane/engine/slab.h"

namespace widelane {
namespace {

using test::R4;

constexpr SlabOptions kSlab = {.rows = 16, .entries = 64, .results = 64};

template <typename T>
TypedArray Array(ElementType type, const std::vector<T>& data) {
  return TypedArray::Of(type, data.data(), data.size());
}

class PackTest : public ::testing::Test {
 protected:
  PackTest() : slab_(*Slab::Create(kSlab, memory_)) {}

  void Open(std::shared_ptr<const Model> model, const BatchKind& kind) {
    slab_->Open(std::make_shared<LoadedModel>(std::move(model), std::vector<std::unique_ptr<ResidentModel>>(), false),
                kind);
  }

  // All rows of `csr` as one segment.
  absl::StatusOr<uint64_t> Pack(const CsrView& csr) {
    const absl::StatusOr<CsrShape> shape = CheckShape(csr, {16, 64, 64});
    if (!shape.ok()) return shape.status();
    segment_ = *slab_->Claim(shape->rows, shape->entries, kWantScores);
    RowCursor cursor(csr);
    return PackRows(csr, cursor, *slab_, segment_);
  }

  // The segment just packed scores nothing and leaves the batch sound.
  void ExpectVoided() {
    slab_->Seal();
    const BatchView& view = slab_->view();
    for (uint32_t r = segment_.first_row; r < segment_.first_row + segment_.rows; ++r) {
      EXPECT_LE(view.row_begin[r], view.row_begin[r + 1]);
      if (view.row_max != nullptr) {
        EXPECT_EQ(view.row_max[r], 0.0F);
      }
    }
    for (uint32_t i = segment_.first_entry; i < segment_.first_entry + segment_.entries; ++i) {
      const uint32_t index = view.indices16 != nullptr ? view.indices16[i] : view.indices32[i];
      EXPECT_EQ(index, slab_->model()->model().zero_feature());
      if (view.values32 != nullptr) {
        EXPECT_EQ(view.values32[i], 0.0F);
      }
    }
  }

  static void ExpectRefused(const absl::Status& status, const std::string& field, const std::string& words) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(ErrorField(status), field) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  }

  test::PlainMemory memory_;
  std::unique_ptr<Slab> slab_;
  Segment segment_;
  const std::vector<uint32_t> offsets_ = {0, 2, 2, 5};
  const std::vector<uint16_t> indices_ = {0, 3, 2, 1, 2};
  const std::vector<float> values_ = {1, -2, 0.5, 4, -0.25};
};

TEST_F(PackTest, WritesRowsInTheirOrder) {
  Open(R4(), {.values = Values::kFloat32});
  CsrView csr{
      Array(ElementType::kU32, offsets_), {}, Array(ElementType::kU16, indices_), Array(ElementType::kF32, values_), 4};
  ASSERT_EQ(*Pack(csr), 0U);
  slab_->Seal();
  const BatchView& view = slab_->view();
  ASSERT_EQ(view.rows, 3U);
  ASSERT_EQ(view.entries, 5U);
  EXPECT_EQ(std::vector<uint32_t>(view.row_begin, view.row_begin + 4), offsets_);
  ASSERT_NE(view.indices16, nullptr);
  EXPECT_EQ(view.indices32, nullptr);
  EXPECT_EQ(std::vector<uint16_t>(view.indices16, view.indices16 + 5), indices_);
  EXPECT_EQ(std::vector<float>(view.values32, view.values32 + 5), values_);
  EXPECT_EQ(std::vector<float>(view.row_max, view.row_max + 3), (std::vector<float>{2, 0, 4}));
}

TEST_F(PackTest, NarrowsEveryTypeOfIndexAndValue) {
  const std::vector<uint32_t> u32 = {0, 3, 2, 1, 2};
  const std::vector<int32_t> i32 = {0, 3, 2, 1, 2};
  const std::vector<int64_t> i64 = {0, 3, 2, 1, 2};
  const std::vector<double> f64 = {1, -2, 0.5, 4, -0.25};
  const std::vector<uint16_t> f16 = {0x3C00, 0xC000, 0x3800, 0x4400, 0xB400};
  for (const TypedArray& indices : {Array(ElementType::kU16, indices_), Array(ElementType::kU32, u32),
                                    Array(ElementType::kI32, i32), Array(ElementType::kI64, i64)}) {
    for (const TypedArray& values :
         {Array(ElementType::kF16, f16), Array(ElementType::kF32, values_), Array(ElementType::kF64, f64)}) {
      SCOPED_TRACE(std::string(ElementName(indices.type)) + " " + ElementName(values.type));
      Open(R4(), {.values = Values::kFloat32});
      ASSERT_EQ(*Pack({Array(ElementType::kU32, offsets_), {}, indices, values, {}}), 0U);
      slab_->Seal();
      EXPECT_EQ(std::vector<uint16_t>(slab_->view().indices16, slab_->view().indices16 + 5), indices_);
      EXPECT_EQ(std::vector<float>(slab_->view().values32, slab_->view().values32 + 5), values_);
    }
  }
}

TEST_F(PackTest, KeepsWideIndicesOfWideModels) {
  for (const uint64_t features : {65535, 65536, 70000}) {
    test::Random random(1);
    Open(test::RandomModel({.features = features}, random), {});
    const std::vector<uint32_t> last = {static_cast<uint32_t>(features - 1)};
    const std::vector<uint32_t> offsets = {0, 1};
    ASSERT_TRUE(Pack({Array(ElementType::kU32, offsets), {}, Array(ElementType::kU32, last), {}, {}}).ok());
    slab_->Seal();
    EXPECT_EQ(slab_->view().indices16 != nullptr, features == 65535);
    EXPECT_EQ(slab_->view().indices16 != nullptr ? slab_->view().indices16[0] : slab_->view().indices32[0], last[0]);
  }
}

TEST_F(PackTest, ValuesThatAreAbsentAreOnesBesideOthers) {
  Open(R4(), {.values = Values::kFloat32});
  ASSERT_TRUE(Pack({Array(ElementType::kU32, offsets_), {}, Array(ElementType::kU16, indices_), {}, {}}).ok());
  slab_->Seal();
  EXPECT_EQ(std::vector<float>(slab_->view().values32, slab_->view().values32 + 5), std::vector<float>(5, 1.0F));
  EXPECT_EQ(slab_->view().row_max[0], 1.0F);
}

TEST_F(PackTest, RefusesIndicesOutsideTheModelNamingRowAndPosition) {
  for (const int64_t bad : {int64_t{4}, int64_t{-1}, int64_t{2147483647}, std::numeric_limits<int64_t>::min()}) {
    Open(R4(), {.values = Values::kFloat32});
    const std::vector<int64_t> indices = {0, 3, 2, bad, 2};
    const auto packed = Pack({Array(ElementType::kU32, offsets_),
                              {},
                              Array(ElementType::kI64, indices),
                              Array(ElementType::kF32, values_),
                              {}});
    ExpectRefused(packed.status(), "indices[3]", "row 2, position 1");
    ExpectRefused(packed.status(), "indices[3]", "feature " + std::to_string(bad));
    ExpectVoided();
  }
}

TEST_F(PackTest, NeverWrapsAWideIndexIntoTheModel) {
  // 2^16 + 1 and 2^32 + 1 would be feature 1 if they were narrowed first.
  for (const int64_t bad : {int64_t{65537}, int64_t{4294967297}, int64_t{-65535}}) {
    Open(R4(), {});
    const std::vector<int64_t> indices = {0, bad};
    const std::vector<uint32_t> offsets = {0, 2};
    const auto packed = Pack({Array(ElementType::kU32, offsets), {}, Array(ElementType::kI64, indices), {}, {}});
    ExpectRefused(packed.status(), "indices[1]", "row 0, position 1");
    ExpectVoided();
  }
}

TEST_F(PackTest, IgnoresAndCountsUnknownFeaturesWhereTheModelSaysSo) {
  Open(R4(UnknownFeatures::kIgnore), {.values = Values::kFloat32});
  const std::vector<int64_t> indices = {0, 4, 7, 1, int64_t{1} << 40};
  const std::vector<float> values = {1, 1e30F, 5, 4, 7};
  EXPECT_EQ(*Pack({Array(ElementType::kU32, offsets_),
                   {},
                   Array(ElementType::kI64, indices),
                   Array(ElementType::kF32, values),
                   {}}),
            3U);
  slab_->Seal();
  EXPECT_EQ(std::vector<uint16_t>(slab_->view().indices16, slab_->view().indices16 + 5),
            (std::vector<uint16_t>{0, 4, 4, 1, 4}));
  EXPECT_EQ(std::vector<float>(slab_->view().row_max, slab_->view().row_max + 3), (std::vector<float>{1, 0, 4}))
      << "what is ignored must not move the grid";
}

TEST_F(PackTest, RefusesNegativeIndicesAlsoWhereUnknownFeaturesAreIgnored) {
  Open(R4(UnknownFeatures::kIgnore), {.values = Values::kFloat32});
  const std::vector<int64_t> indices = {0, 4, -7, 1, 2};
  const auto packed =
      Pack({Array(ElementType::kU32, offsets_), {}, Array(ElementType::kI64, indices), std::nullopt, {}});
  EXPECT_EQ(ErrorField(packed.status()), "indices[2]");
}

TEST_F(PackTest, RefusesValuesThatAreNotFiniteFloats) {
  const double nan = std::nan("");
  for (const auto& [bad, words] : std::vector<std::pair<double, std::string>>{{nan, "not a number"},
                                                                              {-nan, "not a number"},
                                                                              {HUGE_VAL, "infinite"},
                                                                              {-HUGE_VAL, "infinite"},
                                                                              {3.5e38, "beyond the range"},
                                                                              {-1e300, "beyond the range"}}) {
    Open(R4(), {.values = Values::kFloat32});
    const std::vector<double> values = {1, 2, 3, 4, bad};
    const auto packed = Pack({Array(ElementType::kU32, offsets_),
                              {},
                              Array(ElementType::kU16, indices_),
                              Array(ElementType::kF64, values),
                              {}});
    ExpectRefused(packed.status(), "values[4]", "row 2, position 2");
    ExpectRefused(packed.status(), "values[4]", words);
    ExpectVoided();
  }
  Open(R4(), {.values = Values::kFloat32});
  const std::vector<uint16_t> halves = {0, 0, 0x7C00, 0, 0};
  ExpectRefused(Pack({Array(ElementType::kU32, offsets_),
                      {},
                      Array(ElementType::kU16, indices_),
                      Array(ElementType::kF16, halves),
                      {}})
                    .status(),
                "values[2]", "infinite");
}

TEST_F(PackTest, RoundsDoublesToFloatsUpToTheVeryLast) {
  Open(R4(), {.values = Values::kFloat32});
  const double largest = std::numeric_limits<float>::max();
  // The largest double that still rounds to the largest float, and its neighbours.
  const double last = std::nextafter(0x1.ffffffp127, 0.0);
  const std::vector<double> values = {largest, -last, 0.1, 1e-50, -1e-45};
  ASSERT_TRUE(Pack({Array(ElementType::kU32, offsets_),
                    {},
                    Array(ElementType::kU16, indices_),
                    Array(ElementType::kF64, values),
                    {}})
                  .ok());
  slab_->Seal();
  const float* packed = slab_->view().values32;
  EXPECT_EQ(packed[0], static_cast<float>(largest));
  EXPECT_EQ(packed[1], -static_cast<float>(largest));
  EXPECT_EQ(packed[2], 0.1F);
  EXPECT_EQ(packed[3], 0.0F);
  EXPECT_EQ(packed[4], -std::numeric_limits<float>::denorm_min());

  Open(R4(), {.values = Values::kFloat32});
  const std::vector<double> beyond = {0x1.ffffffp127, 0, 0, 0, 0};
  ExpectRefused(Pack({Array(ElementType::kU32, offsets_),
                      {},
                      Array(ElementType::kU16, indices_),
                      Array(ElementType::kF64, beyond),
                      {}})
                    .status(),
                "values[0]", "beyond the range");
}

TEST_F(PackTest, RefusesADeclaredWidthThatIsNotTheModels) {
  const std::vector<uint32_t> offsets = {0, 1};
  const std::vector<uint16_t> zero = {0};
  CsrView csr{Array(ElementType::kU32, offsets), {}, Array(ElementType::kU16, zero), {}, {}};
  for (const uint64_t width : {uint64_t{2}, uint64_t{5}, ~uint64_t{0}}) {
    Open(R4(), {});
    csr.features = width;
    ExpectRefused(Pack(csr).status(), "features", "the model has 4");
    ExpectVoided();
  }
  Open(R4(), {});
  csr.features = 4;
  EXPECT_TRUE(Pack(csr).ok());
}

TEST_F(PackTest, ABadSegmentLeavesItsNeighboursAlone) {
  Open(R4(), {.values = Values::kFloat32});
  const CsrView good{Array(ElementType::kU32, offsets_),
                     {},
                     Array(ElementType::kU16, indices_),
                     Array(ElementType::kF32, values_),
                     {}};
  const std::vector<uint16_t> outside = {0, 1, 9, 1, 2};
  CsrView bad = good;
  bad.indices = Array(ElementType::kU16, outside);
  ASSERT_TRUE(Pack(good).ok());
  ASSERT_FALSE(Pack(bad).ok());
  const Segment voided = segment_;
  ASSERT_TRUE(Pack(good).ok());
  slab_->Seal();
  const BatchView& view = slab_->view();
  ASSERT_EQ(view.rows, 9U);
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(view.indices16[i], indices_[i]);
    EXPECT_EQ(view.indices16[10 + i], indices_[i]);
    EXPECT_EQ(view.values32[10 + i], values_[i]);
  }
  EXPECT_EQ(view.row_begin[3], 5U);
  EXPECT_EQ(view.row_begin[6], 10U);
  segment_ = voided;
  ExpectVoided();
}

TEST_F(PackTest, ACursorGoesOnWhereTheLastSegmentEnded) {
  Open(R4(), {.values = Values::kFloat32});
  const CsrView csr{Array(ElementType::kU32, offsets_),
                    {},
                    Array(ElementType::kU16, indices_),
                    Array(ElementType::kF32, values_),
                    {}};
  ASSERT_TRUE(CheckShape(csr, {16, 64, 64}).ok());
  RowCursor cursor(csr);
  const CsrShape first = RowsThatFit(cursor, 3, {.rows = 10, .entries = 4});
  EXPECT_EQ(first.rows, 2U);
  EXPECT_EQ(first.entries, 2U);
  ASSERT_TRUE(PackRows(csr, cursor, *slab_, *slab_->Claim(first.rows, first.entries, kWantRaw)).ok());
  EXPECT_EQ(cursor.row(), 2U);
  const CsrShape rest = RowsThatFit(cursor, 1, {.rows = 10, .entries = 3});
  EXPECT_EQ(rest.rows, 1U);
  EXPECT_EQ(rest.entries, 3U);
  ASSERT_TRUE(PackRows(csr, cursor, *slab_, *slab_->Claim(rest.rows, rest.entries, kWantRaw)).ok());
  slab_->Seal();
  EXPECT_EQ(std::vector<uint32_t>(slab_->view().row_begin, slab_->view().row_begin + 4), offsets_);
}

TEST_F(PackTest, RowsThatFitStopsAtEitherLimit) {
  const CsrView csr{Array(ElementType::kU32, offsets_), {}, Array(ElementType::kU16, indices_), {}, {}};
  EXPECT_EQ(RowsThatFit(RowCursor(csr), 3, {.rows = 1, .entries = 64}).rows, 1U);
  EXPECT_EQ(RowsThatFit(RowCursor(csr), 3, {.rows = 16, .entries = 1}).rows, 0U);
  EXPECT_EQ(RowsThatFit(RowCursor(csr), 3, {.rows = 16, .entries = 5}).rows, 3U);
  EXPECT_EQ(RowsThatFit(RowCursor(csr), 0, {.rows = 16, .entries = 5}).rows, 0U);
}

TEST(NarrowestValues, IsTheNarrowestThatHoldsThemAll) {
  const std::vector<double> ones(3, 1.0);
  const std::vector<double> almost = {1, 1, std::nextafter(1.0, 2.0)};
  const std::vector<double> halves_as_doubles = {1, -0.5, 0x1p-24, 65504, 0.0, -0.0, 0x1.ff8p-15};
  const std::vector<float> floats = {1, 1};
  const std::vector<float> negative = {1, -1};
  const std::vector<uint16_t> halves = {0x3C00, 0x3C00};
  const std::vector<uint16_t> other_halves = {0x3C00, 0x3C01};
  EXPECT_EQ(NarrowestValues(std::nullopt), Values::kOnes);
  EXPECT_EQ(NarrowestValues(Array(ElementType::kF64, ones)), Values::kOnes);
  EXPECT_EQ(NarrowestValues(Array(ElementType::kF64, almost)), Values::kFloat32);
  EXPECT_EQ(NarrowestValues(Array(ElementType::kF64, halves_as_doubles)), Values::kFloat16);
  EXPECT_EQ(NarrowestValues(Array(ElementType::kF32, floats)), Values::kOnes);
  EXPECT_EQ(NarrowestValues(Array(ElementType::kF32, negative)), Values::kFloat16);
  EXPECT_EQ(NarrowestValues(Array(ElementType::kF16, halves)), Values::kOnes);
  EXPECT_EQ(NarrowestValues(Array(ElementType::kF16, other_halves)), Values::kFloat16);
  EXPECT_EQ(NarrowestValues(TypedArray{ElementType::kF32, nullptr, 0}), Values::kOnes);
  for (const float wide : {0x1p-25F, 65505.0F, 65536.0F, 0x1p100F, 0.1F, 1e-38F, std::nanf(""), HUGE_VALF}) {
    const std::vector<float> values = {1, 2, wide};
    EXPECT_EQ(NarrowestValues(Array(ElementType::kF32, values)), Values::kFloat32) << wide;
  }
}

TEST(NarrowestValues, EveryFloat16ComesBackFromFloat32) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7C00u) != 0x7C00u) values.push_back(numeric::FromFloat16(static_cast<uint16_t>(bits)));
  }
  EXPECT_EQ(NarrowestValues(Array(ElementType::kF32, values)), Values::kFloat16);
  for (const float value : values) {
    const float back = numeric::FromFloat16(HalfBitsOf(value));
    EXPECT_EQ(numeric::FloatBitsOf(back), numeric::FloatBitsOf(value));
  }
}

TEST_F(PackTest, PacksHalvesAndTheirLargest) {
  const std::vector<float> values = {1, -2, 0.5, 4, -0.25};
  for (const bool wide : {false, true}) {
    Open(R4(), {.values = Values::kFloat16});
    const std::vector<uint16_t> halves = {0x3C00, 0xC000, 0x3800, 0x4400, 0xB400};
    const TypedArray from = wide ? Array(ElementType::kF32, values) : Array(ElementType::kF16, halves);
    ASSERT_EQ(*Pack({Array(ElementType::kU32, offsets_), {}, Array(ElementType::kU16, indices_), from, {}}), 0U);
    slab_->Seal();
    const BatchView& view = slab_->view();
    EXPECT_EQ(view.values32, nullptr);
    EXPECT_EQ(std::vector<uint16_t>(view.values16, view.values16 + 5), halves);
    for (uint32_t r = 0; r < 3; ++r) {
      float most = 0;
      for (uint32_t i = offsets_[r]; i < offsets_[r + 1]; ++i) most = std::max(most, std::fabs(values[i]));
      EXPECT_EQ(view.row_max[r], most);
    }
  }
}

TEST_F(PackTest, KeepsLengthsInTheFewestBytes) {
  struct Case {
    uint32_t longest;
    bool in8;
    bool in16;
  };
  test::PlainMemory memory;
  const auto slab = *Slab::Create({.rows = 100, .entries = 70'000, .results = 100}, memory);
  for (const Case& of :
       {Case{255, true, false}, Case{256, false, true}, Case{65'535, false, true}, Case{65'536, false, false}}) {
    std::vector<uint32_t> lengths(70, 3);
    lengths[40] = of.longest;
    const std::vector<uint16_t> indices(69 * 3 + of.longest, 1);
    const CsrView csr{{}, Array(ElementType::kU32, lengths), Array(ElementType::kU16, indices), {}, {}};
    slab->Open(std::make_shared<LoadedModel>(R4(), std::vector<std::unique_ptr<ResidentModel>>(), false), {});
    RowCursor cursor(csr);
    ASSERT_TRUE(PackRows(csr, cursor, *slab, *slab->Claim(70, indices.size(), kWantScores)).ok());
    slab->Seal();
    const BatchView& view = slab->view();
    EXPECT_EQ(view.longest_row, of.longest);
    EXPECT_EQ(view.lengths8 != nullptr, of.in8);
    EXPECT_EQ(view.lengths16 != nullptr, of.in16);
    for (uint32_t r = 0; r < 70; ++r) {
      if (of.in8) {
        EXPECT_EQ(view.lengths8[r], lengths[r]);
      }
      if (of.in16) {
        EXPECT_EQ(view.lengths16[r], lengths[r]);
      }
      EXPECT_EQ(view.row_begin[r + 1] - view.row_begin[r], lengths[r]);
    }
    for (uint32_t group = 0; group < 3; ++group) {
      EXPECT_EQ(view.group_begin[group], view.row_begin[group * kGroupRows]);
    }
  }
}

}  // namespace
}  // namespace widelane
