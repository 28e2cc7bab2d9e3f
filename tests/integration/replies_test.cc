// Nothing is lost, doubled or swapped: many threads, calls and streams, distinct numbers, some cancelled, late, wrong
// or large.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "tests/support/expect.h"
#include "tests/support/fake_device.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/score_stream.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

constexpr int kThreads = kSanitized ? 16 : 32;
constexpr int kRequestsOfEach = kSanitized ? 100 : 2000;  // of each thread
constexpr int kChannels = 4;
constexpr uint32_t kSeed = 4711;

struct Counts {
  std::atomic<uint64_t> ok = 0;
  std::atomic<uint64_t> failed = 0;
  std::atomic<uint64_t> rows_sent = 0;
};

enum class Kind { kPlain, kCancelled, kLate, kWrong, kManyRows, kLarge };

struct Sent {
  Kind kind = Kind::kPlain;
  std::vector<float> values;
  v1::ScoreRequest request;
};

// One thread's requests, and what may become of them.
class Caller {
 public:
  Caller(int thread, std::shared_ptr<grpc::Channel> channel, Counts& counts)
      : thread_(thread), stub_(v1::Scoring::NewStub(channel)), counts_(counts), random_(kSeed + thread) {}
  virtual ~Caller() = default;
  virtual void Run() = 0;

 protected:
  Sent Draw(int k) {
    Sent sent;
    sent.kind = DrawKind();
    const bool many = sent.kind == Kind::kManyRows;
    sent.values.resize(sent.kind == Kind::kLarge ? 1000 : many ? 2 + random_() % 39 : 1);
    // Single precision holds integers to 2^24; the quarters tell rows of one request apart.
    for (size_t i = 0; i < sent.values.size(); ++i) {
      sent.values[i] = static_cast<float>(thread_ * 10000 + k) + static_cast<float>(i % 4) / 4;
    }
    sent.request = Id1Request(sent.values);
    if (sent.kind == Kind::kWrong) sent.request.mutable_rows()->set_plain_indices(0, 1 + static_cast<int>(Any(5)));
    counts_.rows_sent += sent.values.size();
    return sent;
  }

  void Check(const Sent& sent, const grpc::Status& status, const v1::ScoreReply& reply) {
    if (status.ok()) {
      ++counts_.ok;
      EXPECT_NE(sent.kind, Kind::kWrong);
      const std::vector<float> scores(reply.scores().begin(), reply.scores().end());
      ASSERT_EQ(scores, sent.values);
      return;
    }
    ++counts_.failed;
    const grpc::StatusCode code = status.error_code();
    const bool expected = (sent.kind == Kind::kCancelled && code == grpc::StatusCode::CANCELLED) ||
                          (sent.kind == Kind::kLate && code == grpc::StatusCode::DEADLINE_EXCEEDED) ||
                          (sent.kind == Kind::kWrong && code == grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_TRUE(expected) << "kind " << static_cast<int>(sent.kind) << ": " << code << " " << status.error_message();
  }

  uint32_t Any(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  v1::Scoring::Stub& stub() { return *stub_; }
  Counts& counts() { return counts_; }

 private:
  Kind DrawKind() {
    const uint32_t percent = Any(100);
    if (percent < 10) return Kind::kCancelled;
    if (percent < 20) return Kind::kLate;
    if (percent < 25) return Kind::kWrong;
    if (percent < 30) return Kind::kManyRows;
    return percent < 31 ? Kind::kLarge : Kind::kPlain;
  }

  const int thread_;
  const std::unique_ptr<v1::Scoring::Stub> stub_;
  Counts& counts_;
  std::mt19937 random_;
};

class UnaryCaller : public Caller {
 public:
  using Caller::Caller;
  void Run() override {
    for (int k = 0; k < kRequestsOfEach; ++k) One(Draw(k));
  }

 private:
  void One(const Sent& sent) {
    grpc::ClientContext context;
    const auto limit = sent.kind == Kind::kLate ? std::chrono::microseconds(1000 + Any(2000)) : kCallLimit;
    context.set_deadline(std::chrono::system_clock::now() + limit);
    v1::ScoreReply reply;
    grpc::Status status;
    if (sent.kind == Kind::kCancelled) {
      const auto pause = std::chrono::microseconds(Any(3000));
      std::thread canceller([&context, pause] {
        std::this_thread::sleep_for(pause);
        context.TryCancel();
      });
      status = stub().Score(&context, sent.request, &reply);
      canceller.join();
    } else {
      status = stub().Score(&context, sent.request, &reply);
    }
    Check(sent, status, reply);
  }
};

// Several at once on a stream. To cancel one it cancels the stream, and goes on with another.
class StreamCaller : public Caller {
 public:
  using Caller::Caller;
  void Run() override {
    constexpr size_t kAtOnce = 8;
    stream_.emplace(stub());
    for (int k = 0; k < kRequestsOfEach; ++k) {
      Sent sent = Draw(k);
      const bool cancel = sent.kind == Kind::kCancelled;
      const uint32_t timeout_ms = sent.kind == Kind::kLate ? 1 + Any(3) : 0;
      EXPECT_TRUE(stream_->Send(static_cast<uint64_t>(k), sent.request, timeout_ms));
      open_.emplace(k, std::move(sent));
      if (cancel) Cancel();
      if (open_.size() >= kAtOnce) Receive();
    }
    stream_->Close();
    while (!open_.empty()) Receive();
    ExpectOk(stream_->Finish());
  }

 private:
  void Receive() {
    v1::StreamReply reply;
    ASSERT_TRUE(stream_->Receive(reply)) << stream_->Finish().error_message();
    const auto sent = open_.find(reply.id());
    ASSERT_NE(sent, open_.end()) << reply.id();
    Check(sent->second, {static_cast<grpc::StatusCode>(reply.error().code()), reply.error().message()}, reply.reply());
    open_.erase(sent);
  }

  void Cancel() {
    stream_->Cancel();
    counts().failed += open_.size();
    open_.clear();
    stream_.emplace(stub());
  }

  std::optional<ScoreStream> stream_;
  std::map<uint64_t, Sent> open_;
};

void ExpectEveryReplyRight(TestServer& server) {
  SCOPED_TRACE(kSeed);
  Counts counts;
  std::array<std::shared_ptr<grpc::Channel>, kChannels> channels;
  for (auto& channel : channels) channel = Connect(server.server().grpc_address());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const auto& channel = channels[thread / 2 % kChannels];
      if (thread % 2 == 0) {
        UnaryCaller(thread, channel, counts).Run();
      } else {
        StreamCaller(thread, channel, counts).Run();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(counts.ok + counts.failed, static_cast<uint64_t>(kThreads) * kRequestsOfEach);
  EXPECT_GT(counts.ok, static_cast<uint64_t>(kThreads) * kRequestsOfEach / 2);
  EXPECT_TRUE(Eventually([&] { return MetricValue(server.Metrics(), "widelane_requests_in_flight") == 0.0; }));
  const std::string page = server.Metrics();
  EXPECT_LE(MetricValue(page, "widelane_rows_total").value_or(-1), static_cast<double>(counts.rows_sent));
  EXPECT_EQ(MetricValue(page, "widelane_streams_open"), 0.0);
  EXPECT_GE(MetricValue(page, "widelane_requests_total", {"code=\"OK\""}).value_or(-1), static_cast<double>(counts.ok));
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
  TestServer server({{"id1", Id1()}}, std::move(devices), [](ServerConfig& config) {
    config.engine.route = Route::kCopied;
    config.engine.slab = {.rows = 1 << 13, .entries = 1 << 14, .results = 1 << 13};  // models are tried with half
  });
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
