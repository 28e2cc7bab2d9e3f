#include "widelane/client/client.h"

#include <gmock/gmock.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/client/stub_service.h"

namespace widelane::client {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Client> ConnectTo(const StubService& service, const ClientOptions& options = {}) {
  auto client = Client::Connect(service.address(), options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

// Answers each row with the index of its only feature.
grpc::Status Echo(const v1::ScoreRequest& request, v1::ScoreReply& reply) {
  const std::string& data = request.rows().indices().data();
  std::vector<uint16_t> indices(data.size() / 2);
  if (!data.empty()) std::memcpy(indices.data(), data.data(), data.size());
  for (const uint16_t index : indices) reply.add_scores(index);
  reply.set_rows(indices.size());
  reply.set_outputs(1);
  return grpc::Status::OK;
}

ScoreRequest RequestFor(const RowsView& rows) {
  ScoreRequest request;
  request.model = "m";
  request.rows = rows;
  return request;
}

TEST(Client, RefusesOptionsOutOfRange) {
  EXPECT_FALSE(Client::Connect("", {}).ok());
  ClientOptions options;
  options.max_attempts = 6;
  EXPECT_THAT(std::string(Client::Connect("localhost:1", options).status().message()), HasSubstr("max_attempts is 6"));
  options = {};
  options.max_reply_bytes = size_t{1} << 40;
  EXPECT_THAT(std::string(Client::Connect("localhost:1", options).status().message()), HasSubstr("max_reply_bytes"));
  options = {};
  options.deadline = milliseconds(0);
  EXPECT_FALSE(Client::Connect("localhost:1", options).ok());
}

TEST(Client, SendsWhatIsAskedAndGivesPlainVectors) {
  StubService service;
  v1::ScoreRequest seen;
  service.on_score = [&seen](const v1::ScoreRequest& request, v1::ScoreReply& reply) {
    seen = request;
    reply.set_version("7");
    reply.set_rows(1);
    reply.set_outputs(2);
    reply.add_scores(0.5F);
    reply.add_scores(0.25F);
    reply.add_raw(1.5);
    reply.add_labels("yes");
    reply.add_top_outputs(1);
    reply.add_top_scores(0.5F);
    reply.set_ignored_features(3);
    reply.mutable_stage_times()->set_compute_ns(1000);
    reply.mutable_stage_times()->set_device("cpu");
    return grpc::Status::OK;
  };
  service.Start();
  Rows rows;
  rows.Add({1, 2}, {0.5F, 2.0F});
  ScoreRequest request = RequestFor(rows);
  request.version = "7";
  request.outputs = {Output::kScores, Output::kRaw, Output::kLabels, Output::kTopK};
  request.top_k = 1;
  request.stage_times = true;
  Rows contexts;
  contexts.Add({5});
  request.contexts = contexts;
  const std::vector<uint32_t> context_of = {0};
  request.context_of = context_of;
  request.priority = Priority::kLow;
  const auto reply = ConnectTo(service)->Score(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(seen.model(), "m");
  EXPECT_EQ(seen.version(), "7");
  EXPECT_THAT(seen.outputs(), ElementsAre(v1::SCORES, v1::RAW, v1::LABELS, v1::TOP_K));
  EXPECT_EQ(seen.top_k(), 1);
  EXPECT_TRUE(seen.stage_times());
  EXPECT_EQ(seen.contexts().indices().data().size(), 2);
  EXPECT_EQ(seen.context_of().data().size(), 2);
  EXPECT_EQ(seen.priority(), v1::LOW);
  EXPECT_EQ(reply->version, "7");
  EXPECT_THAT(reply->scores, ElementsAre(0.5F, 0.25F));
  EXPECT_THAT(reply->raw, ElementsAre(1.5));
  EXPECT_THAT(reply->labels, ElementsAre("yes"));
  EXPECT_THAT(reply->top_outputs, ElementsAre(1));
  EXPECT_EQ(reply->ignored_features, 3);
  ASSERT_TRUE(reply->stage_times.has_value());
  EXPECT_EQ(reply->stage_times->compute, std::chrono::microseconds(1));
  EXPECT_EQ(reply->stage_times->device, "cpu");
}

TEST(Client, KeepsFieldAndRetryDelayOfErrors) {
  StubService service;
  service.on_score = [](const v1::ScoreRequest&, v1::ScoreReply&) {
    google::rpc::Status details;
    google::rpc::BadRequest bad;
    bad.add_field_violations()->set_field("rows.indices[17]");
    details.add_details()->PackFrom(bad);
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_nanos(250000000);
    details.add_details()->PackFrom(retry);
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "rows.indices[17]: wrong", details.SerializeAsString());
  };
  service.Start();
  const auto reply = ConnectTo(service)->Score(RequestFor({}));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(reply.status().message(), "rows.indices[17]: wrong");
  EXPECT_EQ(ErrorField(reply.status()), "rows.indices[17]");
  EXPECT_EQ(RetryDelay(reply.status()), milliseconds(250));
  EXPECT_EQ(ErrorField(absl::InternalError("x")), std::nullopt);
  EXPECT_EQ(RetryDelay(absl::OkStatus()), std::nullopt);
}

TEST(Client, RefusesARequestOverTheServersLimitBeforeSendingIt) {
  StubService service;
  service.max_message_bytes = 1000;
  service.on_score = Echo;
  service.Start();
  const auto client = ConnectTo(service);
  Rows rows;
  for (int i = 0; i < 200; ++i) rows.Add({i});
  EXPECT_TRUE(client->Score(RequestFor(rows)).ok());
  for (int i = 0; i < 200; ++i) rows.Add({i});
  const auto reply = client->Score(RequestFor(rows));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(reply.status().message()),
              HasSubstr("takes at most 1000 (widelane-server --max-message-bytes)"));
  EXPECT_EQ(service.score_calls(), 1);
  rows.Clear();
  rows.Add({9});
  EXPECT_THAT(client->Score(RequestFor(rows))->scores, ElementsAre(9));
}

TEST(Client, AsksForTheLimitOnce) {
  StubService service;
  service.on_score = Echo;
  service.Start();
  const auto client = ConnectTo(service);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(client->Score(RequestFor({})).ok());
  EXPECT_EQ(service.get_model_calls(), 1);
}

TEST(Client, AsksOnceAServerThatTellsNoLimit) {
  StubService service;
  service.on_score = Echo;
  service.on_get_model = [](v1::ModelInfo& model) {
    model.clear_max_message_bytes();
    return grpc::Status::OK;
  };
  service.Start();
  const auto client = ConnectTo(service);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(client->Score(RequestFor({})).ok());
  EXPECT_EQ(service.get_model_calls(), 1);
}

TEST(Client, SendsAnywayWhenTheLimitCannotBeHad) {
  StubService service;
  service.on_score = Echo;
  std::atomic<grpc::StatusCode> code{grpc::StatusCode::INTERNAL};
  service.on_get_model = [&code](v1::ModelInfo&) { return grpc::Status(code, "no telling"); };
  service.Start();
  const auto client = ConnectTo(service);
  Rows rows;
  rows.Add({9});
  for (const auto one : {grpc::StatusCode::INTERNAL, grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::UNIMPLEMENTED}) {
    code = one;
    const auto reply = client->Score(RequestFor(rows));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_THAT(reply->scores, ElementsAre(9));
  }
}

// Asking for the limit is part of the call, and neither makes it longer nor goes elsewhere.
TEST(Client, AsksForTheLimitWithinTheDeadline) {
  StubService service;
  service.on_score = Echo;
  std::promise<void> release;
  service.on_get_model = [wait = release.get_future().share()](v1::ModelInfo&) {
    wait.wait();
    return grpc::Status::OK;
  };
  service.Start();
  ScoreRequest request = RequestFor({});
  request.deadline = milliseconds(500);
  EXPECT_EQ(ConnectTo(service)->Score(request).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(service.score_calls(), 0);
  release.set_value();
}

TEST(Client, AsksNoServerThatDoesNotServe) {
  StubService service;
  service.on_score = Echo;
  service.Start();
  service.server().GetHealthCheckService()->SetServingStatus("", false);
  const auto reply = ConnectTo(service)->Score(RequestFor({}));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(service.get_model_calls() + service.score_calls(), 0);
}

TEST(Client, NamesItsOwnLimits) {
  StubService service;
  service.on_score = [](const v1::ScoreRequest&, v1::ScoreReply& reply) {
    reply.mutable_scores()->Resize(10000, 1.0F);
    return grpc::Status::OK;
  };
  service.Start();
  ClientOptions options;
  options.max_reply_bytes = 20000;
  options.max_request_bytes = 500;
  const auto client = ConnectTo(service, options);
  const auto reply = client->Score(RequestFor({}));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("ClientOptions::max_reply_bytes"));
  Rows rows;
  for (int i = 0; i < 200; ++i) rows.Add({i});
  const auto large = client->Score(RequestFor(rows));
  EXPECT_EQ(large.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("ClientOptions::max_request_bytes"));
}

// gRPC's own default would refuse 4 MiB.
TEST(Client, TakesLargeRepliesAndSendsLargeRequestsByDefault) {
  StubService service;
  service.max_message_bytes = 64 << 20;
  service.on_score = [](const v1::ScoreRequest& request, v1::ScoreReply& reply) {
    reply.mutable_scores()->Resize(static_cast<int>(request.rows().row_lengths().data().size() / 2), 0.5F);
    return grpc::Status::OK;
  };
  service.Start();
  const std::vector<int32_t> indptr(3000001, 0);
  ScoreRequest request;
  request.model = "m";
  request.rows.indptr = std::span<const int32_t>(indptr);
  const auto reply = ConnectTo(service)->Score(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->scores.size(), 3000000);
}

TEST(Client, TriesAgainOnlyWhatIsUnavailable) {
  StubService service;
  std::atomic<int> failures{2};
  std::atomic<grpc::StatusCode> code{grpc::StatusCode::UNAVAILABLE};
  service.on_score = [&](const v1::ScoreRequest&, v1::ScoreReply&) {
    return failures-- > 0 ? grpc::Status(code, "not now") : grpc::Status::OK;
  };
  service.Start();
  const auto client = ConnectTo(service);
  EXPECT_TRUE(client->Score(RequestFor({})).ok());
  EXPECT_EQ(service.score_calls(), 3);
  code = grpc::StatusCode::RESOURCE_EXHAUSTED;
  failures = 1;
  EXPECT_EQ(client->Score(RequestFor({})).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(service.score_calls(), 4);
}

TEST(Client, GivesUpAtTheDeadline) {
  StubService service;
  std::promise<void> release;
  service.on_score = [wait = release.get_future().share()](const v1::ScoreRequest&, v1::ScoreReply&) {
    wait.wait();
    return grpc::Status::OK;
  };
  service.Start();
  ScoreRequest request = RequestFor({});
  request.deadline = milliseconds(300);
  EXPECT_EQ(ConnectTo(service)->Score(request).status().code(), absl::StatusCode::kDeadlineExceeded);
  release.set_value();
}

TEST(Client, NamesTheAddressItCannotReach) {
  const auto client = *Client::Connect("127.0.0.1:1", {});
  const auto reply = client->Score(RequestFor({}));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("127.0.0.1:1"));
  const absl::Status ready = client->WaitUntilReady(milliseconds(300));
  EXPECT_EQ(ready.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(ready.message()), HasSubstr("127.0.0.1:1 is not ready after 300 ms"));
}

TEST(Client, WaitsUntilTheServerServes) {
  StubService service;
  service.on_score = Echo;
  service.Start();
  auto* health = service.server().GetHealthCheckService();
  health->SetServingStatus("", false);
  const auto client = ConnectTo(service);
  EXPECT_FALSE(*client->IsServing(""));
  EXPECT_EQ(client->IsServing("nothing").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(client->WaitUntilReady(milliseconds(200)).message()), HasSubstr("NOT_SERVING"));
  std::thread later([health] {
    std::this_thread::sleep_for(milliseconds(300));
    health->SetServingStatus("", true);
  });
  EXPECT_TRUE(client->WaitUntilReady(milliseconds(30000)).ok());
  later.join();
  EXPECT_TRUE(*client->IsServing(""));
  EXPECT_TRUE(client->Score(RequestFor({})).ok());
}

TEST(Client, ListsAndGetsModels) {
  StubService service;
  auto* model = service.models.add_models();
  model->set_name("m");
  model->set_state(v1::ModelInfo::FAILED);
  model->set_error("bad file");
  model->add_labels("a");
  service.Start();
  const auto client = ConnectTo(service);
  const auto models = client->ListModels();
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->size(), 1);
  EXPECT_EQ((*models)[0].state, ModelInfo::State::kFailed);
  EXPECT_EQ((*models)[0].error, "bad file");
  EXPECT_THAT((*models)[0].labels, ElementsAre("a"));
  EXPECT_EQ(client->GetModel("m", "")->max_message_bytes, 4 << 20);
  EXPECT_EQ(client->GetModel("absent", "").status().code(), absl::StatusCode::kNotFound);
}

TEST(Client, GivesManyThreadsTheirOwnAnswers) {
  StubService service;
  service.on_score = Echo;
  service.Start();
  const auto client = ConnectTo(service);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        Rows rows;
        rows.Add({t * 1000 + i});
        const auto reply = client->Score(RequestFor(rows));
        if (!reply.ok() || reply->scores != std::vector<float>{static_cast<float>(t * 1000 + i)}) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Client, ReachesAServerBehindAUnixSocket) {
  StubService service;
  service.on_score = Echo;
  const std::string path = ::testing::TempDir() + "client_test_" + std::to_string(getpid());
  service.Start("unix:" + path);
  Rows rows;
  rows.Add({9});
  for (const bool check_health : {true, false}) {
    ClientOptions options;
    options.check_health = check_health;
    const auto reply = ConnectTo(service, options)->Score(RequestFor(rows));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_THAT(reply->scores, ElementsAre(9));
  }
  unlink(path.c_str());
}

TEST(Client, WaitsForAsynchronousCallsAtItsEnd) {
  StubService service;
  service.on_score = Echo;
  service.Start();
  std::atomic<int> right{0};
  {
    const auto client = ConnectTo(service);
    for (int i = 0; i < 100; ++i) {
      Rows rows;  // gone before the answer comes
      rows.Add({i});
      client->ScoreAsync(RequestFor(rows), [&right, i](absl::StatusOr<ScoreReply> reply) {
        if (reply.ok() && reply->scores == std::vector<float>{static_cast<float>(i)}) ++right;
      });
    }
  }
  EXPECT_EQ(right, 100);
}

// Takes its time to go, and tells whether the client is gone by then.
class LastToGo {
 public:
  LastToGo(std::future<void> client_gone, std::atomic<bool>& outlived)
      : client_gone_(std::move(client_gone)), outlived_(outlived) {}
  ~LastToGo() { outlived_ = client_gone_.wait_for(milliseconds(200)) == std::future_status::ready; }
  LastToGo(const LastToGo&) = delete;
  LastToGo& operator=(const LastToGo&) = delete;

 private:
  const std::future<void> client_gone_;
  std::atomic<bool>& outlived_;
};

// Else a call's end could take the channel with it, on a thread of gRPC that is then waited for by itself.
TEST(Client, NothingOfACallOutlivesIt) {
  StubService service;
  service.on_score = Echo;
  service.Start();
  Rows rows;
  rows.Add({1});
  std::atomic<bool> outlived{true};
  std::promise<void> client_gone;
  auto client = ConnectTo(service);
  auto last = std::make_shared<LastToGo>(client_gone.get_future(), outlived);
  client->ScoreAsync(RequestFor(rows), [last](const absl::StatusOr<ScoreReply>& reply) { EXPECT_TRUE(reply.ok()); });
  last.reset();
  client.reset();
  client_gone.set_value();
  EXPECT_FALSE(outlived);
}

}  // namespace
}  // namespace widelane::client
