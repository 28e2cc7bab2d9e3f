// The C++ client's stream on a real server: what comes back is what unary calls give, whatever becomes of the
// connection.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/check.h"
#include "tests/support/expect.h"
#include "tests/support/held_server.h"
#include "tests/support/http.h"
#include "widelane/client/client.h"

namespace widelane::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Rows and contexts that live as long as requests are made of them.
struct SentValue {
  client::Rows rows;
  client::Rows contexts;
  std::vector<uint32_t> context_of;

  client::ScoreRequest Request(const std::string& model) const {
    client::ScoreRequest request;
    request.model = model;
    request.rows = rows;
    if (contexts.rows() > 0) request.contexts = contexts;
    request.context_of = context_of;
    request.outputs = {client::Output::kScores, client::Output::kRaw};
    return request;
  }
};

SentValue OneValue(float value) {
  SentValue sent;
  Require(sent.rows.Add({0}, {value}), "a row");
  return sent;
}

TEST(ClientStreamTest, AnswersInTheOrderInWhichTheyAreDone) {
  HeldServer server(OneModel(), [](ServerConfig& config) { config.batching.max_rows = 1; });
  const auto client = Must(client::Client::Connect(server->server().grpc_address(), {}));
  ExpectNear(Must(client->Score(OneValue(1).Request("id1"))).scores, {1}, 0);
  const auto stream = client->OpenStream({});
  server.device().Block();
  std::mutex mutex;
  std::vector<float> order;
  const auto send = [&](float value, client::Priority priority) {
    const SentValue sent = OneValue(value);
    client::ScoreRequest request = sent.Request("id1");
    request.priority = priority;
    stream->Score(request, [&](const absl::StatusOr<client::ScoreReply>& reply) {
      const std::lock_guard lock(mutex);
      order.push_back(reply.ok() ? reply->scores[0] : -1);
    });
  };
  const uint64_t before = server.batches();
  send(1, client::Priority::kDefault);
  ASSERT_TRUE(server.WaitForBatches(before + 1));
  send(2, client::Priority::kLow);
  ASSERT_TRUE(server.WaitForInFlight(2));
  send(3, client::Priority::kHigh);
  ASSERT_TRUE(server.WaitForInFlight(3));
  server.device().Unblock();
  stream->Close();
  EXPECT_EQ(order, (std::vector<float>{1, 3, 2}));
}

// Ones, values that half precision holds, values that it does not; with and without contexts; few features and many.
TEST(ClientStreamTest, GivesTheBitsOfPlainNumbersInEveryEncoding) {
  constexpr int kRequests = kSanitized ? 20 : 100;
  for (const uint64_t features : {1000, 100'000}) {
    std::mt19937 random(20261130);
    ModelSpec spec{.features = features, .link = Link::kSigmoid};
    for (uint64_t i = 0; i < features; ++i) spec.weights.push_back(std::normal_distribution<float>()(random));
    TestServer server({{"wide", MakeModel(spec)}});
    const auto client = Must(client::Client::Connect(server.server().grpc_address(), {}));
    const auto stream = client->OpenStream({});
    std::atomic<int> answered{0};
    const auto value_of = [&random](int form) {
      if (form == 0) return 1.0F;
      if (form == 1) return static_cast<float>(random() % 2048) / 16;
      return std::lognormal_distribution<float>(0, 4)(random);
    };
    for (int k = 0; k < kRequests; ++k) {
      const auto fill = [&](client::Rows& rows, v1::Rows& plain) {
        plain.add_plain_indptr(0);
        for (size_t row = 1 + random() % 5; row > 0; --row) {
          for (size_t entry = random() % 20; entry > 0; --entry) {
            const auto index = static_cast<int64_t>(random() % features);
            const float value = value_of(k % 3);
            rows.AddEntry(index, value);
            plain.add_plain_indices(index);
            plain.add_plain_values(value);
          }
          rows.EndRow();
          plain.add_plain_indptr(plain.plain_indices_size());
        }
      };
      SentValue sent;
      v1::ScoreRequest plain;
      plain.set_model("wide");
      plain.add_outputs(v1::RAW);
      fill(sent.rows, *plain.mutable_rows());
      if (k % 2 == 1) {
        fill(sent.contexts, *plain.mutable_contexts());
        for (size_t row = 0; row < sent.rows.rows(); ++row) {
          sent.context_of.push_back(random() % sent.contexts.rows());
          plain.add_plain_context_of(sent.context_of.back());
        }
      }
      const ScoreResult expected = server.Score(plain);
      ExpectOk(expected.status);
      const std::vector<double> raw(expected.reply.raw().begin(), expected.reply.raw().end());
      stream->Score(sent.Request("wide"), [&answered, raw, k](const absl::StatusOr<client::ScoreReply>& reply) {
        ++answered;
        ASSERT_TRUE(reply.ok()) << reply.status();
        EXPECT_EQ(reply->raw, raw) << k;
      });
    }
    stream->Close();
    EXPECT_EQ(answered, kRequests);
  }
}

// Callers that go on until told, each with numbers of its own.
class Callers {
 public:
  Callers(client::ScoreStream& stream, int count) {
    for (int caller = 0; caller < count; ++caller) {
      threads_.emplace_back([this, &stream, caller] {
        for (int i = 0; !stop_; ++i) {
          const auto value = static_cast<float>(100'000 * caller + i);
          const auto reply = stream.Score(OneValue(value).Request("id1"));
          ASSERT_TRUE(reply.ok()) << reply.status();
          ASSERT_EQ(reply->scores[0], value);
          ++answered_;
        }
      });
    }
  }
  ~Callers() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  int answered() const { return answered_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> answered_{0};
  std::vector<std::thread> threads_;
};

TEST(ClientStreamTest, GoesOnWhenItsConnectionIsOld) {
  TestServer server(OneModel(), [](ServerConfig& config) {
    config.front.max_connection_age = milliseconds(150);
    config.front.max_connection_age_grace = seconds(5);
  });
  const auto client = Must(client::Client::Connect(server.server().grpc_address(), {}));
  const auto stream = client->OpenStream({});
  const auto end = std::chrono::steady_clock::now() + seconds(1);
  const Callers callers(*stream, 3);
  std::this_thread::sleep_until(end);
  EXPECT_TRUE(Eventually([&] { return callers.answered() > 10; }));
}

// A rolling update: the server that has the stream stops, and another takes over.
TEST(ClientStreamTest, GoesOnWithAnotherServerWhenItsOwnStops) {
  std::unique_ptr<TestServer> servers[] = {std::make_unique<TestServer>(OneModel()),
                                           std::make_unique<TestServer>(OneModel())};
  const std::string both = "ipv4:" + servers[0]->server().grpc_address() + "," + servers[1]->server().grpc_address();
  const auto client = Must(client::Client::Connect(both, {}));
  const auto stream = client->OpenStream({});
  const Callers callers(*stream, 3);
  ASSERT_TRUE(Eventually([&] { return callers.answered() > 50; }));
  const auto has_stream = [](const TestServer& server) {
    return MetricValue(server.Metrics(), "widelane_streams_open") == 1.0;
  };
  const bool second = has_stream(*servers[1]);
  ASSERT_NE(has_stream(*servers[0]), second);
  servers[second ? 1 : 0]->server().Shutdown();
  const int before = callers.answered();
  EXPECT_TRUE(Eventually([&] { return callers.answered() > before + 50; }));
  EXPECT_TRUE(has_stream(*servers[second ? 0 : 1]));
}

}  // namespace
}  // namespace widelane::test
