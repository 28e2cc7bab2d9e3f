#include "cuda/memory_budget.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/match.h"

namespace widelane::cuda {
namespace {

constexpr uint64_t kPlenty = uint64_t{1} << 40;

TEST(MemoryBudget, IsGivenBackWithTheShare) {
  const auto budget = MemoryBudget::Create(100);
  MemoryBudget::Share share = *budget->Take(60, kPlenty);
  EXPECT_EQ(budget->Left(kPlenty), 40U);
  const auto refused = budget->Take(41, kPlenty);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  for (const char* number : {"41", "100", "60", "40"}) {
    EXPECT_TRUE(absl::StrContains(refused.status().message(), number)) << refused.status();
  }
  MemoryBudget::Share moved = std::move(share);
  share = nullptr;
  EXPECT_EQ(budget->Left(kPlenty), 40U);
  moved.reset();
  EXPECT_EQ(budget->Left(kPlenty), 100U);
}

TEST(MemoryBudget, IsNoMoreThanWhatIsFree) {
  EXPECT_EQ(MemoryBudget::Create(100)->Left(30), 30U);
  EXPECT_FALSE(MemoryBudget::Create(100)->Take(31, 30).ok());
}

TEST(MemoryBudget, WithoutALimitKeepsAReserve) {
  const auto budget = MemoryBudget::Create(0);
  EXPECT_EQ(budget->Left(MemoryBudget::kReserve + 7), 7U);
  EXPECT_EQ(budget->Left(5), 0U);
  EXPECT_TRUE(budget->Take(7, MemoryBudget::kReserve + 7).ok());
  EXPECT_FALSE(budget->Take(8, MemoryBudget::kReserve + 7).ok());
}

TEST(MemoryBudget, OutlivesItsLastHolder) {
  auto budget = MemoryBudget::Create(100);
  MemoryBudget::Share share = *budget->Take(60, kPlenty);
  budget.reset();
}

}  // namespace
}  // namespace widelane::cuda
