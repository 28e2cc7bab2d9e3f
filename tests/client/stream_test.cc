#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "tests/client/stub_service.h"
#include "widelane/client/client.h"

namespace widelane::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Le;

// A row of one feature, which the stub gives back as its score.
class OneRow {
 public:
  explicit OneRow(int64_t feature) {
    rows_.Add({feature});
    request_.model = "m";
    request_.rows = rows_;
  }
  OneRow(int64_t feature, milliseconds deadline) : OneRow(feature) { request_.deadline = deadline; }
  operator const ScoreRequest&() const { return request_; }  // NOLINT(google-explicit-constructor)

 private:
  Rows rows_;
  ScoreRequest request_;
};

v1::StreamReply EchoOf(const v1::StreamRequest& request) {
  uint16_t feature = 0;
  std::memcpy(&feature, request.request().rows().indices().data().data(), sizeof(feature));
  v1::StreamReply reply;
  reply.set_id(request.id());
  reply.mutable_reply()->add_scores(feature);
  return reply;
}

grpc::Status EchoAll(int /*call*/, grpc::ServerContext& /*context*/, StubService::Stream& stream) {
  v1::StreamRequest request;
  while (stream.Read(&request)) stream.Write(EchoOf(request));
  return grpc::Status::OK;
}

void WaitUntilCancelled(grpc::ServerContext& context) {
  while (!context.IsCancelled()) std::this_thread::sleep_for(milliseconds(5));
}

using Reply = absl::StatusOr<ScoreReply>;

// What one message got.
class Answer {
 public:
  auto Callback() {
    return [promise = promise_](Reply reply) { promise->set_value(std::move(reply)); };
  }
  Reply Get() { return promise_->get_future().get(); }

 private:
  std::shared_ptr<std::promise<Reply>> promise_ = std::make_shared<std::promise<Reply>>();
};

class Stream : public ::testing::Test {
 protected:
  std::unique_ptr<ScoreStream> Open(const StreamOptions& options = {}, const ClientOptions& client_options = {}) {
    service_.Start();
    auto client = Client::Connect(service_.address(), client_options);
    EXPECT_TRUE(client.ok()) << client.status();
    return (*client)->OpenStream(options);  // and outlives it
  }

  StubService service_;
};

TEST_F(Stream, GivesEachMessageItsOwnAnswer) {
  // Answers four at a time, the last first.
  service_.on_stream = [](int, grpc::ServerContext&, StubService::Stream& stream) {
    std::vector<v1::StreamRequest> requests(4);
    while (std::all_of(requests.begin(), requests.end(), [&](auto& request) { return stream.Read(&request); })) {
      for (auto request = requests.rbegin(); request != requests.rend(); ++request) stream.Write(EchoOf(*request));
    }
    return grpc::Status::OK;
  };
  const auto stream = Open();
  std::vector<Answer> answers(40);
  for (int i = 0; i < 40; ++i) stream->Score(OneRow(i), answers[i].Callback());
  for (int i = 0; i < 40; ++i) {
    const Reply reply = answers[i].Get();
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->scores, std::vector<float>{static_cast<float>(i)});
  }
  stream->Close();
  EXPECT_EQ(service_.stream_calls(), 1);
}

// Holds the first message back from the server's handler until all others wait behind it: what is more than flow
// control lets through.
TEST_F(Stream, SendsWhatWaitsInFewMessages) {
  constexpr int kRequests = 600;
  std::promise<void> all_wait;
  std::promise<std::vector<int>> sizes;
  service_.max_message_bytes = 64 << 20;
  service_.on_stream = [&, wait = all_wait.get_future().share()](int, grpc::ServerContext&,
                                                                 StubService::Stream& stream) {
    wait.wait();
    std::vector<int> seen;
    int count = 0;
    v1::StreamRequests requests;
    while (count < 1 + kRequests && stream.Read(&requests)) {
      v1::StreamReplies replies;
      for (const v1::StreamRequest& request : requests.requests()) *replies.add_replies() = EchoOf(request);
      stream.Write(replies);
      seen.push_back(requests.requests_size());
      count += seen.back();
    }
    sizes.set_value(seen);
    return grpc::Status::OK;
  };
  const auto stream = Open({.max_in_flight = 1 + kRequests});
  const std::vector<int64_t> indptr = {0, 4'000'000};
  const std::vector<uint16_t> indices(4'000'000, 7);
  ScoreRequest large;
  large.model = "m";
  large.rows = {std::span(indptr), std::span(indices), {}, 0};
  Answer first;
  stream->Score(large, first.Callback());
  std::vector<Answer> answers(kRequests);
  for (int i = 0; i < kRequests; ++i) stream->Score(OneRow(i), answers[i].Callback());
  all_wait.set_value();
  EXPECT_TRUE(first.Get().ok());
  for (int i = 0; i < kRequests; ++i) {
    const Reply reply = answers[i].Get();
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->scores, std::vector<float>{static_cast<float>(i)});
  }
  const std::vector<int> seen = sizes.get_future().get();
  EXPECT_THAT(seen, Each(Le(256)));
  EXPECT_LT(seen.size(), 20);  // 4 but for what the beginning may let through
}

// Messages with several requests are no larger than the server takes.
TEST_F(Stream, KeepsTheServersLimitWithManyRequests) {
  service_.max_message_bytes = 1000;
  std::atomic<int> messages{0};
  service_.on_stream = [&messages](int call, grpc::ServerContext& context, StubService::Stream& stream) {
    std::this_thread::sleep_for(milliseconds(20));
    const grpc::Status status = EchoAll(call, context, stream);
    messages = stream.messages();
    return status;
  };
  const auto stream = Open();
  std::vector<Answer> answers(200);
  for (int i = 0; i < 200; ++i) stream->Score(OneRow(i), answers[i].Callback());
  for (Answer& answer : answers) EXPECT_TRUE(answer.Get().ok());
  stream->Close();
  EXPECT_EQ(service_.stream_calls(), 1);
  EXPECT_LT(messages, 200);
}

TEST_F(Stream, TakesSeveralAnswersInOneMessage) {
  service_.on_stream = [](int, grpc::ServerContext&, StubService::Stream& stream) {
    v1::StreamReplies replies;
    stream.Write(replies);  // with none
    for (int i = 0; i < 3; ++i) {
      v1::StreamRequest request;
      stream.Read(&request);
      *replies.add_replies() = EchoOf(request);
    }
    replies.mutable_replies(1)->mutable_error()->set_code(static_cast<int>(grpc::StatusCode::NOT_FOUND));
    replies.add_replies()->set_id(12345);  // which nobody waits for
    replies.mutable_replies()->SwapElements(0, 2);
    stream.Write(replies);
    v1::StreamRequest request;
    while (stream.Read(&request)) stream.Write(EchoOf(request));
    return grpc::Status::OK;
  };
  const auto stream = Open();
  std::vector<Answer> answers(3);
  for (int i = 0; i < 3; ++i) stream->Score(OneRow(i), answers[i].Callback());
  EXPECT_EQ(answers[0].Get()->scores, std::vector<float>{0});
  EXPECT_EQ(answers[1].Get().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(answers[2].Get()->scores, std::vector<float>{2});
  EXPECT_TRUE(stream->Score(OneRow(3)).ok());
}

TEST_F(Stream, SendsWhatACallSendsAndTheTimeLeft) {
  std::promise<v1::StreamRequest> seen;
  service_.on_stream = [&seen](int, grpc::ServerContext&, StubService::Stream& stream) {
    v1::StreamRequest request;
    stream.Read(&request);
    seen.set_value(request);
    stream.Write(EchoOf(request));
    return grpc::Status::OK;
  };
  const auto stream = Open();
  Rows rows, contexts;
  rows.Add({3, 4}, {0.5F, 0.1F});
  contexts.Add({7});
  ScoreRequest request;
  request.model = "m";
  request.rows = rows;
  request.contexts = contexts;
  request.priority = Priority::kHigh;
  request.outputs = {Output::kRaw};
  request.deadline = milliseconds(20000);
  EXPECT_TRUE(stream->Score(request).ok());
  const v1::StreamRequest message = seen.get_future().get();
  EXPECT_GT(message.timeout_ms(), 0);
  EXPECT_THAT(message.timeout_ms(), Le(20000));
  EXPECT_EQ(message.request().model(), "m");
  EXPECT_EQ(message.request().priority(), v1::HIGH);
  EXPECT_EQ(message.request().outputs(0), v1::RAW);
  EXPECT_EQ(message.request().rows().values().data().size(), 8);
  EXPECT_EQ(message.request().contexts().indices().data().size(), 2);
}

TEST_F(Stream, GivesAnErrorToItsMessageAlone) {
  service_.on_stream = [](int, grpc::ServerContext&, StubService::Stream& stream) {
    v1::StreamRequest request;
    while (stream.Read(&request)) {
      v1::StreamReply reply = EchoOf(request);
      if (reply.reply().scores(0) == 1) {
        google::rpc::RetryInfo retry;
        retry.mutable_retry_delay()->set_nanos(250000000);
        reply.mutable_error()->set_code(static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED));
        reply.mutable_error()->set_message("full");
        reply.mutable_error()->add_details()->PackFrom(retry);
      } else if (reply.reply().scores(0) == 2) {
        reply.clear_result();
      } else if (reply.reply().scores(0) == 3) {
        reply.mutable_error();  // of code OK
      }
      stream.Write(reply);
    }
    return grpc::Status::OK;
  };
  const auto stream = Open();
  EXPECT_TRUE(stream->Score(OneRow(0)).ok());
  const Reply full = stream->Score(OneRow(1));
  EXPECT_EQ(full.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.status().message(), "full");
  EXPECT_EQ(RetryDelay(full.status()), milliseconds(250));
  EXPECT_EQ(stream->Score(OneRow(2)).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(stream->Score(OneRow(3)).status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(stream->Score(OneRow(4)).ok());
  EXPECT_EQ(service_.stream_calls(), 1);
}

TEST_F(Stream, SendsAgainWhatAnUnavailableServerLeft) {
  std::atomic<int> read{0};
  // The first call answers one of the first two and reads on; the second ends before it has read anything.
  service_.on_stream = [&read](int call, grpc::ServerContext& context, StubService::Stream& stream) {
    if (call > 2) return EchoAll(call, context, stream);
    if (call == 1) {
      v1::StreamRequest request;
      for (; stream.Read(&request); ++read) {
        if (read == 1) stream.Write(EchoOf(request));
        if (read == 2) break;
      }
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "stopping");
  };
  const auto stream = Open();
  std::vector<Answer> answers(20);
  for (int i = 0; i < 20; ++i) stream->Score(OneRow(i), answers[i].Callback());
  for (int i = 0; i < 20; ++i) {
    const Reply reply = answers[i].Get();
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->scores, std::vector<float>{static_cast<float>(i)});
  }
  EXPECT_EQ(service_.stream_calls(), 3);
}

TEST_F(Stream, GivesUpAfterSoManyAttemptsAndStaysOfUse) {
  std::atomic<bool> up{false};
  service_.on_stream = [&up](int call, grpc::ServerContext& context, StubService::Stream& stream) {
    return up ? EchoAll(call, context, stream) : grpc::Status(grpc::StatusCode::UNAVAILABLE, "stopping");
  };
  ClientOptions options;
  options.max_attempts = 2;
  const auto stream = Open({}, options);
  const Reply reply = stream->Score(OneRow(1));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("stopping"));
  EXPECT_EQ(service_.stream_calls(), 2);
  up = true;
  EXPECT_TRUE(stream->Score(OneRow(2)).ok());
}

TEST_F(Stream, FailsWhatIsInFlightWhenTheCallEndsOtherwise) {
  service_.on_stream = [](int call, grpc::ServerContext& context, StubService::Stream& stream) {
    if (call > 2) return EchoAll(call, context, stream);
    v1::StreamRequest request;
    for (int i = 0; i < 3; ++i) stream.Read(&request);
    return call == 1 ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "reads too slowly") : grpc::Status::OK;
  };
  const auto stream = Open();
  for (const auto code : {absl::StatusCode::kResourceExhausted, absl::StatusCode::kInternal}) {
    std::vector<Answer> answers(3);
    for (Answer& answer : answers) stream->Score(OneRow(1), answer.Callback());
    for (Answer& answer : answers) EXPECT_EQ(answer.Get().status().code(), code);
  }
  EXPECT_TRUE(stream->Score(OneRow(1)).ok());
  EXPECT_EQ(service_.stream_calls(), 3);
}

// A server that reads and never answers, and one that does not even read.
TEST_F(Stream, KeepsDeadlinesOfASilentServer) {
  std::atomic<bool> reads{true};
  service_.on_stream = [&reads](int, grpc::ServerContext& context, StubService::Stream& stream) {
    v1::StreamRequest request;
    while (reads && stream.Read(&request)) {
    }
    WaitUntilCancelled(context);
    return grpc::Status::OK;
  };
  service_.Start();
  const auto client = *Client::Connect(service_.address(), {});
  for (const bool each : {true, false}) {
    reads = each;
    const auto stream = client->OpenStream({});
    // More than a window of flow control takes.
    const std::vector<int64_t> indptr = {0, 200'000};
    const std::vector<uint16_t> indices(200'000);
    ScoreRequest large;
    large.model = "m";
    large.rows = {std::span(indptr), std::span(indices), {}, 0};
    large.deadline = milliseconds(300);
    std::vector<Answer> answers(30);
    for (Answer& answer : answers) stream->Score(large, answer.Callback());
    const Reply early = stream->Score(OneRow(1, milliseconds(50)));
    EXPECT_EQ(early.status().code(), absl::StatusCode::kDeadlineExceeded);
    for (Answer& answer : answers) EXPECT_EQ(answer.Get().status().code(), absl::StatusCode::kDeadlineExceeded);
  }
}

TEST_F(Stream, WaitsOrRefusesWhenItIsFull) {
  std::promise<void> release;
  service_.on_stream = [wait = release.get_future().share()](int call, grpc::ServerContext& context,
                                                             StubService::Stream& stream) {
    wait.wait();
    return EchoAll(call, context, stream);
  };
  service_.Start();
  const auto client = *Client::Connect(service_.address(), {});
  const auto refusing = client->OpenStream({.max_in_flight = 2, .refuse_when_full = true});
  const auto waiting = client->OpenStream({.max_in_flight = 2});
  std::vector<Answer> answers(4);
  for (int i = 0; i < 4; ++i) (i < 2 ? refusing : waiting)->Score(OneRow(i), answers[i].Callback());
  const Reply refused = refusing->Score(OneRow(5));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("StreamOptions::max_in_flight"));
  EXPECT_EQ(waiting->Score(OneRow(5, milliseconds(50))).status().code(), absl::StatusCode::kDeadlineExceeded);
  std::thread waits([&] { EXPECT_TRUE(waiting->Score(OneRow(6)).ok()); });
  release.set_value();
  waits.join();
  for (Answer& answer : answers) EXPECT_TRUE(answer.Get().ok());
}

TEST_F(Stream, RefusesWhatIsOverALimitBeforeSendingIt) {
  service_.max_message_bytes = 1000;
  service_.on_stream = EchoAll;
  const auto stream = Open();
  Rows rows;
  for (int i = 0; i < 400; ++i) rows.Add({i});
  ScoreRequest request;
  request.model = "m";
  request.rows = rows;
  const Reply reply = stream->Score(request);
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("(widelane-server --max-message-bytes)"));
  EXPECT_EQ(service_.stream_calls(), 0);
  EXPECT_TRUE(stream->Score(OneRow(1)).ok());
}

TEST_F(Stream, FailsWithoutAServer) {
  const auto client = *Client::Connect("127.0.0.1:1", {});
  const auto stream = client->OpenStream({});
  const Reply reply = stream->Score(OneRow(1));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("127.0.0.1:1"));
}

TEST_F(Stream, MayScoreInsideACallback) {
  service_.on_stream = EchoAll;
  const auto stream = Open({.max_in_flight = 1});
  std::promise<std::vector<absl::StatusCode>> codes;
  stream->Score(OneRow(1), [&](Reply) {
    const Reply blocking = stream->Score(OneRow(2));
    stream->Score(OneRow(3), [&, blocking](Reply third) {
      codes.set_value({blocking.status().code(), third.status().code()});
    });
  });
  EXPECT_EQ(codes.get_future().get(), (std::vector{absl::StatusCode::kFailedPrecondition, absl::StatusCode::kOk}));
}

TEST_F(Stream, WaitsForWhatIsInFlightWhenItIsClosed) {
  std::atomic<bool> cancelled{false};
  service_.on_stream = [&](int call, grpc::ServerContext& context, StubService::Stream& stream) {
    std::this_thread::sleep_for(milliseconds(100));
    const grpc::Status status = EchoAll(call, context, stream);
    cancelled = context.IsCancelled();
    return status;
  };
  const auto stream = Open();
  std::atomic<int> right{0};
  for (int i = 0; i < 50; ++i) {
    stream->Score(OneRow(i), [&right, i](Reply reply) {
      if (reply.ok() && reply->scores == std::vector<float>{static_cast<float>(i)}) ++right;
    });
  }
  stream->Close();
  EXPECT_EQ(right, 50);
  EXPECT_FALSE(cancelled);
  EXPECT_EQ(stream->Score(OneRow(1)).status().code(), absl::StatusCode::kFailedPrecondition);
  stream->Close();
}

TEST_F(Stream, ServesManyThreadsOverManyCalls) {
  // Each call ends in the middle of it all.
  service_.on_stream = [](int, grpc::ServerContext&, StubService::Stream& stream) {
    v1::StreamRequest request;
    for (int i = 0; i < 100 && stream.Read(&request); ++i) stream.Write(EchoOf(request));
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "make the connection anew");
  };
  ClientOptions options;
  options.max_attempts = 5;
  const auto stream = Open({.max_in_flight = 16}, options);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const Reply reply = stream->Score(OneRow(t * 1000 + i));
        if (reply.ok() && reply->scores == std::vector<float>{static_cast<float>(t * 1000 + i)}) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 800);
  EXPECT_GT(service_.stream_calls(), 7);
}

}  // namespace
}  // namespace widelane::client
