// Loads of a fraction of a second on a service in this process.

#include "client/cli/bench_load.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "client/cli/bench_requests.h"
#include "widelane/v1/scoring.grpc.pb.h"

namespace widelane::cli {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

size_t RowsOf(const v1::ScoreRequest& request) { return request.rows().row_lengths().data().size() / sizeof(uint16_t); }

// The score of a row is its first feature.
void AnswerWithFeatures(const v1::ScoreRequest& request, v1::ScoreReply& reply) {
  const size_t rows = RowsOf(request);
  const size_t entries = request.rows().indices().data().size() / sizeof(uint16_t);
  reply.set_version("1");
  reply.set_rows(rows);
  for (size_t r = 0; r < rows; ++r) {
    uint16_t feature = 0;
    std::memcpy(&feature, request.rows().indices().data().data() + r * entries / rows * sizeof(feature),
                sizeof(feature));
    reply.add_scores(feature);
  }
}

class Service final : public v1::Scoring::Service {
 public:
  using Handler = std::function<grpc::Status(const v1::ScoreRequest&, v1::ScoreReply&)>;

  Service() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) std::abort();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~Service() override { server_->Shutdown(std::chrono::system_clock::now()); }

  const std::string& address() const { return address_; }

  grpc::Status Score(grpc::ServerContext* /*context*/, const v1::ScoreRequest* request,
                     v1::ScoreReply* reply) override {
    ++calls;
    return on_score(*request, *reply);
  }

  // Answers the requests of each message in one message, the last first.
  grpc::Status ScoreStream(grpc::ServerContext* /*context*/,
                           grpc::ServerReaderWriter<v1::StreamReplies, v1::StreamRequests>* stream) override {
    ++streams;
    int left = stream_requests;
    v1::StreamRequests requests;
    while (left != 0 && stream->Read(&requests)) {
      ++messages;
      v1::StreamReplies replies;
      for (int i = requests.requests_size(); i-- > 0 && left != 0; --left) {
        ++calls;
        const v1::StreamRequest& request = requests.requests(i);
        v1::StreamReply& reply = *replies.add_replies();
        reply.set_id(request.id());
        const grpc::Status status = on_score(request.request(), *reply.mutable_reply());
        if (!status.ok()) reply.mutable_error()->set_code(status.error_code());
      }
      stream->Write(replies);
    }
    return left < 0 ? grpc::Status::OK : grpc::Status(grpc::StatusCode::UNAVAILABLE, "stopping");
  }

  Handler on_score = [](const v1::ScoreRequest& request, v1::ScoreReply& reply) {
    AnswerWithFeatures(request, reply);
    return grpc::Status::OK;
  };
  int stream_requests = -1;  // until a stream is ended; -1: never
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> streams{0};
  std::atomic<uint64_t> messages{0};  // of all streams

 private:
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

class BenchLoad : public ::testing::Test {
 protected:
  BenchLoad() {
    requests_.profile = *FindProfile("text-54k");
    requests_.model = "m";
    requests_.rows = 3;
    load_.address = service_.address();
    load_.concurrency = 8;
    load_.connections = 2;
    load_.threads = 2;
    load_.duration = 300ms;
    load_.warm_up = 50ms;
  }

  LoadResult Run() {
    const absl::StatusOr<LoadOptions> load = FillIn(load_);
    EXPECT_TRUE(load.ok()) << load.status();
    absl::StatusOr<LoadResult> result =
        RunLoad(*load, EncodeRequests(requests_), requests_.rows, [](double, uint64_t) {});
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  static void ExpectFaultless(const LoadResult& result) {
    const LoadCounts& counts = result.total->counts();
    EXPECT_GT(counts.answered, 0);
    EXPECT_GT(result.total->latencies().count(), 0);
    EXPECT_GT(result.total->latencies().max(), 0ns);
    EXPECT_GT(counts.bytes_out, counts.answered * 240);
    EXPECT_GT(counts.bytes_in, counts.answered * 12);
    EXPECT_EQ(counts.wrong_rows, 0);
    EXPECT_EQ(counts.different, 0);
    EXPECT_EQ(result.total->first_error(), "");
    EXPECT_GT(result.cpu_seconds, 0);
  }

  Service service_;
  RequestOptions requests_;
  LoadOptions load_;
};

TEST_F(BenchLoad, ClosedLoopAnswersAll) {
  const LoadResult result = Run();
  ExpectFaultless(result);
  EXPECT_EQ(result.total->calls(), service_.calls);
}

TEST_F(BenchLoad, OpenLoopSendsAsManyAsPlanned) {
  load_.rate = 500;
  const LoadResult result = Run();
  ExpectFaultless(result);
  // 150 are planned in the window; twenty standard deviations are 240.
  EXPECT_GT(result.total->latencies().count(), 50);
  EXPECT_LT(result.total->latencies().count(), 390);
  EXPECT_EQ(result.total->calls(), service_.calls);
}

TEST_F(BenchLoad, OpenLoopChargesAServerThatStallsForTheCallsItKeptBack) {
  std::atomic<bool> stalled{false};
  service_.on_score = [&](const v1::ScoreRequest& request, v1::ScoreReply& reply) {
    if (!stalled.exchange(true)) std::this_thread::sleep_for(200ms);
    AnswerWithFeatures(request, reply);
    return grpc::Status::OK;
  };
  load_.concurrency = load_.connections = load_.threads = 1;
  load_.rate = 1000;
  load_.warm_up = 0ms;
  const LoadResult result = Run();
  // Calls planned while the one was out waited half of its time in the mean; were they timed from when they are sent, a
  // single one would be slow.
  EXPECT_GT(result.total->latencies().Percentile(0.8), 50ms);
  EXPECT_GT(result.total->latencies().count(), 100);
}

TEST_F(BenchLoad, StreamsMatchAnswersByTheirIds) {
  load_.stream = true;
  load_.streams = 3;
  load_.concurrency = 30;
  const LoadResult result = Run();
  ExpectFaultless(result);
  EXPECT_EQ(service_.streams, 3);
  EXPECT_EQ(result.total->calls(), service_.calls);
  // The ten of a stream begin together, and are answered together.
  EXPECT_LE(2 * service_.messages, service_.calls);
}

TEST_F(BenchLoad, StreamsHaveAnOpenLoopToo) {
  load_.stream = true;
  load_.rate = 500;
  const LoadResult result = Run();
  ExpectFaultless(result);
  EXPECT_GT(result.total->latencies().count(), 50);
  EXPECT_EQ(result.total->calls(), service_.calls);
}

TEST_F(BenchLoad, CountsErrorsByCode) {
  for (const bool stream : {false, true}) {
    load_.stream = stream;
    std::atomic<int> count{0};
    service_.on_score = [&](const v1::ScoreRequest& request, v1::ScoreReply& reply) {
      if (++count % 4 == 0) return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full");
      AnswerWithFeatures(request, reply);
      return grpc::Status::OK;
    };
    const LoadResult result = Run();
    EXPECT_GT(result.total->counts().answered, 0);
    EXPECT_GT(result.total->counts().failed[grpc::StatusCode::RESOURCE_EXHAUSTED], 0);
    EXPECT_THAT(result.total->first_error(), HasSubstr("RESOURCE_EXHAUSTED: "));
  }
}

TEST_F(BenchLoad, NoticesRepliesThatAreWrong) {
  service_.on_score = [&](const v1::ScoreRequest& request, v1::ScoreReply& reply) {
    AnswerWithFeatures(request, reply);
    reply.set_rows(reply.rows() + 1);
    return grpc::Status::OK;
  };
  const LoadResult rows = Run();
  EXPECT_EQ(rows.total->counts().answered, 0);
  EXPECT_GT(rows.total->counts().wrong_rows, 0);
  EXPECT_EQ(rows.total->first_error(), "a reply to 4 rows where 3 were sent");

  std::atomic<int> count{0};
  service_.on_score = [&](const v1::ScoreRequest& request, v1::ScoreReply& reply) {
    AnswerWithFeatures(request, reply);
    reply.set_scores(0, static_cast<float>(++count));
    return grpc::Status::OK;
  };
  load_.duration = 1s;  // so that each request is sent often
  EXPECT_GT(Run().total->counts().different, 0);
}

TEST_F(BenchLoad, TellsOfStreamsThatTheServerEnds) {
  load_.stream = true;
  load_.warm_up = 0ms;
  service_.stream_requests = 5;
  const absl::StatusOr<LoadResult> result =
      RunLoad(*FillIn(load_), EncodeRequests(requests_), requests_.rows, [](double, uint64_t) {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(result.status().message().find("before the time was over: UNAVAILABLE: stopping"), std::string::npos)
      << result.status();
}

TEST_F(BenchLoad, HasDeadlines) {
  load_.deadline = 20ms;
  service_.on_score = [&](const v1::ScoreRequest& /*request*/, v1::ScoreReply& /*reply*/) {
    std::this_thread::sleep_for(100ms);
    return grpc::Status::OK;
  };
  EXPECT_GT(Run().total->counts().failed[grpc::StatusCode::DEADLINE_EXCEEDED], 0);
}

TEST(BenchLoadOptions, FillsInWhatIsLeftOpen) {
  LoadOptions options;
  options.concurrency = 1;
  EXPECT_EQ(FillIn(options)->threads, 1);
  EXPECT_EQ(FillIn(options)->connections, 1);
  options.concurrency = 10;
  options.threads = 2;
  options.connections = 3;
  options.stream = true;
  EXPECT_EQ(FillIn(options)->streams, 3);
}

TEST(BenchLoadOptions, RefusesCountsThatDoNotGoTogether) {
  LoadOptions options;
  options.threads = 2;
  options.connections = 1;
  EXPECT_EQ(FillIn(options).status().message(), "connections: 1 are fewer than the 2 threads");
  options.connections = 4;
  options.concurrency = 3;
  EXPECT_EQ(FillIn(options).status().message(), "concurrency: 3 are fewer than the 4 connections");
  options.concurrency = 100;
  options.stream = true;
  options.streams = 3;
  EXPECT_EQ(FillIn(options).status().message(), "streams: 3 are fewer than the 4 connections");
}

TEST(BenchLoadOptions, SaysWhenThereIsNobody) {
  LoadOptions options;
  options.address = "unix:/nowhere/at/all";
  const auto result = RunLoad(*FillIn(options), {grpc::Slice("x")}, 1, [](double, uint64_t) {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("cannot connect to unix:/nowhere/at/all"));
}

}  // namespace
}  // namespace widelane::cli
