#include "server/observe/stripes.h"

#include <gtest/gtest.h>

#include <barrier>
#include <set>
#include <thread>
#include <vector>

namespace widelane {
namespace {

constexpr size_t kThreads = kStripes + 16;

TEST(StripesTest, AThreadKeepsItsStripe) {
  const size_t own = OwnStripe();
  EXPECT_LT(own, kStripes);
  EXPECT_EQ(OwnStripe(), own);
}

TEST(StripesTest, NothingIsLostWhenThreadsShareOne) {
  constexpr int64_t kAdds = 10'000;
  Striped<int64_t> sum;
  std::barrier all_there(kThreads);
  std::vector<size_t> stripes(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      stripes[i] = OwnStripe();
      all_there.arrive_and_wait();
      for (int64_t n = 0; n < kAdds; ++n) sum.Add(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum.Sum(), static_cast<int64_t>(kThreads) * kAdds);
  std::multiset<size_t> owners(stripes.begin(), stripes.end());
  owners.erase(kSharedStripe);
  for (const size_t stripe : owners) EXPECT_EQ(owners.count(stripe), 1u) << stripe;
}

TEST(StripesTest, AThreadThatEndsGivesItsStripeBack) {
  for (size_t i = 0; i < 2 * kThreads; ++i) {
    std::thread([] { EXPECT_NE(OwnStripe(), kSharedStripe); }).join();
  }
}

}  // namespace
}  // namespace widelane
