// Nothing is lost, doubled or swapped: many threads, distinct numbers, some calls cancelled, late or wrong.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>

#include "tests/support/expect.h"
#include "tests/support/fake_device.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

constexpr int kThreads = kSanitized ? 16 : 32;
constexpr int kRequests = kSanitized ? 100 : 1000;  // of each thread
constexpr int kChannels = 4;
constexpr uint32_t kSeed = 4711;

struct Counts {
  std::atomic<uint64_t> ok = 0;
  std::atomic<uint64_t> failed = 0;
  std::atomic<uint64_t> rows_sent = 0;
};

class Caller {
 public:
  Caller(int thread, std::shared_ptr<grpc::Channel> channel, Counts& counts)
      : thread_(thread), stub_(v1::Scoring::NewStub(channel)), counts_(counts), random_(kSeed + thread) {}

  void Run() {
    for (int k = 0; k < kRequests; ++k) One(thread_ * 10000 + k);
  }

 private:
  enum class Kind { kPlain, kCancelled, kLate, kWrong, kManyRows };

  Kind Draw() {
    const uint32_t percent = random_() % 100;
    if (percent < 10) return Kind::kCancelled;
    if (percent < 20) return Kind::kLate;
    if (percent < 25) return Kind::kWrong;
    return percent < 30 ? Kind::kManyRows : Kind::kPlain;
  }

  void One(int number) {
    const Kind kind = Draw();
    std::vector<float> values(kind == Kind::kManyRows ? 2 + random_() % 39 : 1);
    // Single precision holds integers to 2^24; the quarters tell rows of one request apart.
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(number) + static_cast<float>(i % 4) / 4;
    v1::ScoreRequest request = Id1Request(values);
    if (kind == Kind::kWrong) request.mutable_rows()->set_plain_indices(0, 1 + static_cast<int>(random_() % 5));
    counts_.rows_sent += values.size();

    grpc::ClientContext context;
    const auto limit = kind == Kind::kLate ? std::chrono::microseconds(1000 + random_() % 2000) : kCallLimit;
    context.set_deadline(std::chrono::system_clock::now() + limit);
    v1::ScoreReply reply;
    grpc::Status status;
    if (kind == Kind::kCancelled) {
      const auto pause = std::chrono::microseconds(random_() % 3000);
      std::thread canceller([&context, pause] {
        std::this_thread::sleep_for(pause);
        context.TryCancel();
      });
      status = stub_->Score(&context, request, &reply);
      canceller.join();
    } else {
      status = stub_->Score(&context, request, &reply);
    }
    Check(kind, status, values, reply);
  }

  void Check(Kind kind, const grpc::Status& status, const std::vector<float>& values, const v1::ScoreReply& reply) {
    if (status.ok()) {
      ++counts_.ok;
      EXPECT_NE(kind, Kind::kWrong);
      const std::vector<float> scores(reply.scores().begin(), reply.scores().end());
      ASSERT_EQ(scores, values);
      return;
    }
    ++counts_.failed;
    const grpc::StatusCode code = status.error_code();
    const bool expected = (kind == Kind::kCancelled && code == grpc::StatusCode::CANCELLED) ||
                          (kind == Kind::kLate && code == grpc::StatusCode::DEADLINE_EXCEEDED) ||
                          (kind == Kind::kWrong && code == grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_TRUE(expected) << "kind " << static_cast<int>(kind) << ": " << code << " " << status.error_message();
  }

  const int thread_;
  const std::unique_ptr<v1::Scoring::Stub> stub_;
  Counts& counts_;
  std::mt19937 random_;
};

void ExpectEveryReplyRight(TestServer& server) {
  SCOPED_TRACE(kSeed);
  Counts counts;
  std::array<std::shared_ptr<grpc::Channel>, kChannels> channels;
  for (auto& channel : channels) channel = Connect(server.server().grpc_address());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] { Caller(thread, channels[thread % kChannels], counts).Run(); });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(counts.ok + counts.failed, static_cast<uint64_t>(kThreads) * kRequests);
  EXPECT_GT(counts.ok, static_cast<uint64_t>(kThreads) * kRequests / 2);
  EXPECT_TRUE(Eventually([&] { return MetricValue(server.Metrics(), "widelane_requests_in_flight") == 0.0; }));
  const std::string page = server.Metrics();
  EXPECT_LE(MetricValue(page, "widelane_rows_total").value_or(-1), static_cast<double>(counts.rows_sent));
  EXPECT_GE(MetricValue(page, "widelane_requests_total", {"method=\"Score\"", "code=\"OK\""}).value_or(-1),
            static_cast<double>(counts.ok));
}

TEST(RepliesTest, EveryOkCarriesItsOwnNumbers) {
  TestServer server({{"id1", Id1()}});
  ExpectEveryReplyRight(server);
}

TEST(RepliesTest, AlsoFromTinyBatches) {
  TestServer server({{"id1", Id1()}}, [](ServerConfig& config) {
    config.engine.slab = {.rows = 16, .entries = 16, .results = 16};
    config.engine.slabs = 3;
  });
  ExpectEveryReplyRight(server);
}

// Its work goes to the CPU, and stays there: a GPU that has failed once gets no more, whatever it would say now.
TEST(RepliesTest, AlsoWhenAGpuFails) {
  const auto gpu = std::make_shared<FakeDeviceControl>();
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(FakeDevice::Cpu(std::make_shared<FakeDeviceControl>()));
  devices.push_back(FakeDevice::Gpu(0, gpu));
  TestServer server({{"id1", Id1()}}, std::move(devices),
                    [](ServerConfig& config) { config.engine.route = Route::kCopied; });
  ASSERT_TRUE(server.server().WaitUntilLoaded(std::chrono::seconds(60)));
  std::thread failing([&] {
    EXPECT_TRUE(gpu->WaitForBatches(20, std::chrono::seconds(60)));
    gpu->set_failure(absl::InternalError("the fake GPU fell off the bus"));
  });
  ExpectEveryReplyRight(server);
  failing.join();
  const uint64_t batches = gpu->batches();
  gpu->set_failure(absl::OkStatus());
  for (int i = 0; i < 20; ++i) {
    const auto value = static_cast<float>(i);
    EXPECT_EQ(server.Scores(Id1Request({value})), std::vector<float>{value});
  }
  EXPECT_EQ(gpu->batches(), batches);
}

}  // namespace
}  // namespace widelane::test
