#include "server/observe/trace/recording.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace widelane {
namespace {

CountersRecord Counters(uint64_t in_flight, uint64_t queued) {
  CountersRecord record;
  record.in_flight = in_flight;
  record.queued = queued;
  return record;
}

// Calls `visit` with the records of one kind.
template <typename Record, typename Visit>
void ForEach(const Recording& recording, const Visit& visit) {
  recording.ForEach([&visit](const auto& record) {
    if constexpr (std::is_same_v<decltype(record), const Record&>) visit(record);
  });
}

TEST(RecordingTest, GivesBackWhatWasAdded) {
  const auto recording = Recording::Create(1 << 20);
  RequestRecord request;
  request.number = 5;
  request.method = "Score";
  request.model = ShortName("clicks");
  recording->Add(request);
  recording->Add(Counters(1, 2));
  SpanRecord span;
  span.stage = Stage::kTransferIn;
  recording->Add(span);
  std::string seen;
  recording->ForEach([&seen](const auto& record) { seen += std::to_string(static_cast<int>(record.head.kind)); });
  EXPECT_EQ(seen, "054");
  ForEach<RequestRecord>(*recording, [](const RequestRecord& record) {
    EXPECT_EQ(record.number, 5U);
    EXPECT_EQ(record.model.text(), "clicks");
  });
  EXPECT_EQ(recording->dropped(), 0U);
}

TEST(RecordingTest, CutsLongNames) {
  EXPECT_EQ(ShortName(std::string(100, 'x')).text(), std::string(47, 'x'));
  EXPECT_EQ(ShortName("").text(), "");
}

TEST(RecordingTest, CountsWhatDoesNotFit) {
  const auto recording = Recording::Create(3 * Recording::kBlockBytes);
  uint64_t added = 0;
  for (; recording->dropped() < 10; ++added) recording->Add(Counters(added, 0));
  uint64_t kept = 0;
  ForEach<CountersRecord>(*recording, [&kept](const CountersRecord& record) { EXPECT_EQ(record.in_flight, kept++); });
  EXPECT_EQ(kept + 10, added);
  EXPECT_GE(kept * sizeof(CountersRecord), 3 * (Recording::kBlockBytes - 2 * sizeof(CountersRecord)));
}

TEST(RecordingTest, KeepsTheOrderOfEachThread) {
  constexpr uint64_t kThreads = 60;  // more than have a stripe
  constexpr uint64_t kRecords = 2000;
  const auto recording = Recording::Create(64 << 20);
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&recording, thread] {
      for (uint64_t i = 0; i < kRecords; ++i) recording->Add(Counters(thread, i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<uint64_t, uint64_t> next;
  ForEach<CountersRecord>(
      *recording, [&next](const CountersRecord& record) { EXPECT_EQ(record.queued, next[record.in_flight]++); });
  EXPECT_EQ(next.size(), kThreads);
  for (const auto& [thread, records] : next) EXPECT_EQ(records, kRecords) << thread;
}

TEST(RecordingTest, AThreadThatWroteToOneMayWriteToTheNext) {
  for (uint64_t round = 0; round < 100; ++round) {
    const auto recording = Recording::Create(2 * Recording::kBlockBytes);
    recording->Add(Counters(round, 0));
    uint64_t records = 0;
    ForEach<CountersRecord>(*recording, [&](const CountersRecord& record) {
      EXPECT_EQ(record.in_flight, round);
      ++records;
    });
    EXPECT_EQ(records, 1U);
  }
}

}  // namespace
}  // namespace widelane
