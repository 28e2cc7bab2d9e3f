#include "client/cli/narrow_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace widelane::cli {
namespace {

// -1 when it is refused.
int Bits16(double value, WeightType type) {
  std::byte bytes[2];
  if (!StoreWeight(value, type, bytes)) return -1;
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

TEST(StoreWeight, RoundsToFloat16) {
  const auto half = [](double value) { return Bits16(value, WeightType::kFloat16); };
  EXPECT_EQ(half(0.0), 0x0000);
  EXPECT_EQ(half(-0.0), 0x8000);
  EXPECT_EQ(half(1.0), 0x3C00);
  EXPECT_EQ(half(-2.5), 0xC100);
  EXPECT_EQ(half(0.1), 0x2E66);
  EXPECT_EQ(half(65504), 0x7BFF);
  EXPECT_EQ(half(65519.99), 0x7BFF);
  EXPECT_EQ(half(65520), -1);
  EXPECT_EQ(half(0x1p-14), 0x0400);
  EXPECT_EQ(half(0x1p-24), 0x0001);
  EXPECT_EQ(half(0x1p-25), 0x0000);          // a tie, to even
  EXPECT_EQ(half(0x1.8p-24), 0x0002);        // a tie, to even
  EXPECT_EQ(half(0x1.FFFp-15), 0x0400);      // up into the normal numbers
  EXPECT_EQ(half(1 + 0x1p-11), 0x3C00);      // a tie
  EXPECT_EQ(half(1 + 3 * 0x1p-11), 0x3C02);  // a tie
}

TEST(StoreWeight, RoundsOnce) {
  // Just above a tie of float16, but float32 rounds it onto the tie.
  EXPECT_EQ(Bits16(1 + 0x1p-11 + 0x1p-40, WeightType::kFloat16), 0x3C01);
  EXPECT_EQ(Bits16(1 + 0x1p-8 + 0x1p-40, WeightType::kBfloat16), 0x3F81);
}

TEST(StoreWeight, RoundsToBfloat16) {
  const auto brain = [](double value) { return Bits16(value, WeightType::kBfloat16); };
  EXPECT_EQ(brain(1.0), 0x3F80);
  EXPECT_EQ(brain(-0.1), 0xBDCD);
  EXPECT_EQ(brain(1 + 0x1p-8), 0x3F80);  // a tie
  EXPECT_EQ(brain(0x1.FEp127), 0x7F7F);
  EXPECT_EQ(brain(0x1.FFp127), -1);
  EXPECT_EQ(brain(0x1p-133), 0x0001);
  EXPECT_EQ(brain(1e300), -1);
}

TEST(StoreWeight, KeepsFloat32) {
  std::byte bytes[4];
  ASSERT_TRUE(StoreWeight(0.1, WeightType::kFloat32, bytes));
  float value;
  std::memcpy(&value, bytes, sizeof(value));
  EXPECT_EQ(value, 0.1F);
  EXPECT_FALSE(StoreWeight(3.5e38, WeightType::kFloat32, bytes));
}

}  // namespace
}  // namespace widelane::cli
