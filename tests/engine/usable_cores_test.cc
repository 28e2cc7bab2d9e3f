#include "widelane/engine/usable_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace widelane {
namespace {

TEST(QuotaFromCpuMax, ReadsQuotaOverPeriod) {
  EXPECT_DOUBLE_EQ(*QuotaFromCpuMax("150000 100000\n"), 1.5);
  EXPECT_DOUBLE_EQ(*QuotaFromCpuMax("20000 100000"), 0.2);
}

TEST(QuotaFromCpuMax, IsAbsentWithoutALimitOrSense) {
  for (const char* text : {"max 100000\n", "", "\n", "100000", "x y", "100000 0", "-1 100000", "0 100000", "1 2 3"}) {
    EXPECT_FALSE(QuotaFromCpuMax(text).has_value()) << text;
  }
}

TEST(QuotaFromCfs, ReadsBothFiles) {
  EXPECT_DOUBLE_EQ(*QuotaFromCfs("400000\n", "100000\n"), 4.0);
  EXPECT_FALSE(QuotaFromCfs("-1\n", "100000\n").has_value());
  EXPECT_FALSE(QuotaFromCfs("", "").has_value());
}

TEST(UsableCores, IsAtLeastOneAndFollowsTheAffinityMask) {
  const size_t all = UsableCores();
  EXPECT_GE(all, 1U);
  EXPECT_LE(all, static_cast<size_t>(CPU_SETSIZE));
  size_t pinned = 0;
  // On a thread of its own, so that the mask of the others stays.
  std::thread([&pinned] {
    cpu_set_t old;
    ASSERT_EQ(sched_getaffinity(0, sizeof(old), &old), 0);
    int core = 0;
    while (!CPU_ISSET(core, &old)) ++core;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    pinned = UsableCores();
  }).join();
  EXPECT_EQ(pinned, 1U);
}

}  // namespace
}  // namespace widelane
