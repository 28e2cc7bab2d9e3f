#include "thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace widelane {
namespace {

using std::chrono::microseconds;

class ThreadPoolWithSpin : public ::testing::TestWithParam<int> {
 protected:
  microseconds spin() const { return microseconds(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Spins, ThreadPoolWithSpin, ::testing::Values(0, 20, 5000));

TEST_P(ThreadPoolWithSpin, RunsEveryChunkOnce) {
  ThreadPool pool(3, spin());
  for (const size_t chunks : {0, 1, 2, 3, 7, 100, 1000}) {
    std::vector<std::atomic<int>> runs(chunks);
    pool.ForEachChunk(chunks, [&](size_t worker, size_t chunk) {
      EXPECT_LE(worker, pool.helpers());
      ++runs[chunk];
    });
    for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 1);
  }
}

TEST_P(ThreadPoolWithSpin, ServesManyCallersAtOnce) {
  ThreadPool pool(3, spin());
  // More callers than the pool has places for jobs.
  std::vector<std::thread> callers;
  for (size_t caller = 0; caller < 12; ++caller) {
    callers.emplace_back([&pool, caller] {
      for (size_t job = 0; job < 200; ++job) {
        const size_t chunks = 2 + (caller + job) % 9;
        std::vector<size_t> seen(chunks, 0);  // each written by one thread: chunks are not shared
        pool.ForEachChunk(chunks, [&](size_t, size_t chunk) { seen[chunk] += chunk + 1; });
        for (size_t chunk = 0; chunk < chunks; ++chunk) ASSERT_EQ(seen[chunk], chunk + 1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_P(ThreadPoolWithSpin, AHelperIsAlwaysTheSameThread) {
  ThreadPool pool(3, spin());
  std::vector<std::vector<std::thread::id>> ids(pool.helpers() + 1);  // [worker], of helpers used by its thread alone
  for (int job = 0; job < 200; ++job) {
    pool.ForEachChunk(16, [&](size_t worker, size_t) {
      if (ids[worker].empty() || ids[worker].back() != std::this_thread::get_id()) {
        ids[worker].push_back(std::this_thread::get_id());
      }
    });
  }
  EXPECT_EQ(ids[0].size(), 1U);
  EXPECT_EQ(ids[0].front(), std::this_thread::get_id());
  for (size_t worker = 1; worker < ids.size(); ++worker) EXPECT_LE(ids[worker].size(), 1U);
}

TEST_P(ThreadPoolWithSpin, HelpersJoinAfterASleep) {
  ThreadPool pool(1, spin());
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::atomic<int> together{0};
  // Ends only if two threads are in it at once.
  pool.ForEachChunk(2, [&](size_t, size_t) {
    ++together;
    while (together < 2) std::this_thread::yield();
  });
  EXPECT_EQ(together, 2);
}

TEST_P(ThreadPoolWithSpin, ChunksMayHaveJobsOfTheirOwn) {
  ThreadPool pool(3, spin());
  std::atomic<int> runs{0};
  pool.ForEachChunk(8, [&](size_t, size_t) { pool.ForEachChunk(8, [&](size_t, size_t) { ++runs; }); });
  EXPECT_EQ(runs, 64);
}

TEST(ThreadPool, WorksWithoutHelpers) {
  ThreadPool pool(0, microseconds(0));
  size_t sum = 0;
  pool.ForEachChunk(5, [&](size_t worker, size_t chunk) {
    EXPECT_EQ(worker, 0U);
    sum += chunk;
  });
  EXPECT_EQ(sum, 10U);
  EXPECT_EQ(pool.helpers(), 0U);
}

TEST(ThreadPool, MayGoBeforeAnyHelperHasWoken) {
  for (int i = 0; i < 50; ++i) ThreadPool(4, microseconds(i % 2 * 50));
}

}  // namespace
}  // namespace widelane
