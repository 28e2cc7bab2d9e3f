#include "server/observe/trace/tracer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "server/observe/trace/request_trace.h"
#include "tests/support/expect.h"
#include "tests/support/fake_clock.h"

namespace widelane::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Counts the records of each kind.
template <typename Record>
size_t Count(const Recording& recording) {
  size_t count = 0;
  recording.ForEach([&count](const auto& record) { count += std::is_same_v<decltype(record), const Record&>; });
  return count;
}

// Records on a thread of its own.
class Recorder {
 public:
  Recorder(Tracer& tracer, std::chrono::nanoseconds time)
      : thread_([this, &tracer, time] { result_.emplace(tracer.Record(time)); }) {
    EXPECT_TRUE(Eventually([&tracer] { return tracer.on(); }, seconds(30)));
  }
  ~Recorder() { Join(); }
  absl::StatusOr<Tracer::RecordingHandle>& Join() {
    if (thread_.joinable()) thread_.join();
    return *result_;
  }

 private:
  std::optional<absl::StatusOr<Tracer::RecordingHandle>> result_;
  std::thread thread_;
};

TEST(TracerTest, GivesNoNumbersAndKeepsNothingWhenOff) {
  Tracer tracer(Clock::Steady());
  EXPECT_FALSE(tracer.on());
  EXPECT_EQ(tracer.NewRequest(), 0U);
  EXPECT_EQ(tracer.NewBatch(), 0U);
  tracer.Write(CountersRecord());
  RequestTrace request(tracer);
  request.Start("Score", TracePoint());
  EXPECT_FALSE(request.on());
  request.OnAnswered(0, TracePoint());
  const auto recording = tracer.Record(milliseconds(1));
  ASSERT_TRUE(recording.ok());
  EXPECT_EQ(Count<RequestRecord>(**recording), 0U);
  EXPECT_EQ(Count<CountersRecord>(**recording), 0U);  // it was told of no source
}

TEST(TracerTest, RecordsForAsLongAsItIsTold) {
  FakeClock clock;
  Tracer tracer(clock);
  Recorder recorder(tracer, seconds(2));
  const uint64_t number = tracer.NewRequest();
  EXPECT_NE(number, 0U);
  RequestRecord request;
  request.number = number;
  tracer.Write(request);
  const TracePoint begin = clock.Now();
  while (tracer.on()) clock.Advance(milliseconds(1));
  const auto& recording = recorder.Join();
  ASSERT_TRUE(recording.ok());
  EXPECT_GE(clock.Now() - begin, seconds(2));
  EXPECT_EQ(Count<RequestRecord>(**recording), 1U);
  EXPECT_EQ((*recording)->first_request, number);
  EXPECT_EQ((*recording)->last_request, number);
  EXPECT_EQ(tracer.NewRequest(), 0U);
}

TEST(TracerTest, ThereIsOneAtATimeUntilItIsGivenBack) {
  Tracer tracer(Clock::Steady());
  {
    const auto first = tracer.Record(milliseconds(1));
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(tracer.Record(milliseconds(1)).status().code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(tracer.Record(milliseconds(1)).ok());
}

TEST(TracerTest, AStopEndsARecordingAndThereAreNoMore) {
  Tracer tracer(Clock::Steady());
  Recorder recorder(tracer, seconds(60));
  std::thread stopping([&tracer] { tracer.Stop(); });
  EXPECT_TRUE(recorder.Join().ok());
  std::move(recorder.Join()).value().reset();
  stopping.join();
  EXPECT_EQ(tracer.Record(seconds(1)).status().code(), absl::StatusCode::kUnavailable);
}

TEST(TracerTest, AsksHowMuchThereIsToDo) {
  FakeClock clock;
  Tracer tracer(clock);
  std::atomic<int> asked{0};
  tracer.SetSources({}, [&asked] {
    ++asked;
    return Tracer::Counters{.in_flight = 3, .queued = 2};
  });
  Recorder recorder(tracer, milliseconds(20));
  for (const int times : {1, 2}) {
    while (asked < times) std::this_thread::yield();
    clock.Advance(Tracer::kSamplePeriod);
  }
  while (tracer.on()) clock.Advance(milliseconds(1));
  const auto& recording = recorder.Join();
  ASSERT_TRUE(recording.ok());
  EXPECT_GE(Count<CountersRecord>(**recording), 2U);
}

// Memory that is freed too early is found by the sanitizers, a record in the wrong recording by its number.
TEST(TracerTest, ManyThreadsWriteWhileRecordingsComeAndGo) {
  Tracer tracer(Clock::Steady(), size_t{4} << 20);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&tracer, &stop] {
      while (!stop) {
        RequestRecord request;
        request.number = tracer.NewRequest();
        if (request.number != 0) tracer.Write(request);
        PieceRecord piece;
        piece.tag = AloneTag(request.number);
        piece.Add({});
        if (request.number != 0) tracer.OnPiece(piece);
      }
    });
  }
  size_t requests = 0;
  for (int i = 0; i < 100; ++i) {
    const auto recording = tracer.Record(milliseconds(1));
    ASSERT_TRUE(recording.ok());
    (*recording)->ForEach([&](const auto& record) {
      if constexpr (std::is_same_v<decltype(record), const RequestRecord&>) {
        ++requests;
        EXPECT_LE(record.number, (*recording)->last_request);
      }
    });
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(requests, 0U);
}

}  // namespace
}  // namespace widelane::test
