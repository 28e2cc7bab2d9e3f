// Requests that `widelane bench server` sends, and what it reads of replies.

#include "client/cli/bench_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "client/cli/bench_data.h"
#include "client/cli/bench_wire.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane::cli {
namespace {

RequestOptions Options(const char* profile, uint64_t rows) {
  RequestOptions options;
  options.model = "m";
  options.profile = *FindProfile(profile);
  options.rows = rows;
  return options;
}

std::vector<v1::ScoreRequest> Parsed(const RequestOptions& options) {
  EXPECT_TRUE(CheckRequests(options).ok());
  std::vector<v1::ScoreRequest> requests;
  for (const grpc::Slice& slice : EncodeRequests(options)) {
    EXPECT_TRUE(requests.emplace_back().ParseFromString(std::string(TextOf(slice))));
  }
  return requests;
}

std::vector<uint32_t> NumbersOf(const v1::Array& array) {
  const size_t size = array.type() == v1::U16 ? 2 : 4;
  std::vector<uint32_t> numbers(array.data().size() / size);
  for (size_t i = 0; i < numbers.size(); ++i) std::memcpy(&numbers[i], array.data().data() + i * size, size);
  return numbers;
}

TEST(BenchRequests, AreNarrowAndAllDifferent) {
  const auto requests = Parsed(Options("text-54k", 3));
  EXPECT_GT(requests.size(), 100);
  std::set<std::string> different;
  for (const v1::ScoreRequest& request : requests) {
    EXPECT_EQ(request.model(), "m");
    EXPECT_EQ(request.priority(), v1::PRIORITY_UNSPECIFIED);
    EXPECT_EQ(request.rows().row_lengths().type(), v1::U16);
    EXPECT_EQ(NumbersOf(request.rows().row_lengths()), std::vector<uint32_t>({40, 40, 40}));
    EXPECT_EQ(request.rows().indices().type(), v1::U16);
    EXPECT_EQ(request.rows().indices().data().size(), 3 * 40 * 2);
    EXPECT_FALSE(request.rows().has_values());
    EXPECT_FALSE(request.has_contexts());
    different.insert(request.rows().indices().data());
  }
  EXPECT_EQ(different.size(), requests.size());
}

TEST(BenchRequests, HaveWiderArraysWhereTheyMust) {
  RequestOptions options = Options("ctr-1M", 1);
  options.profile.values = Values::kFloat16;
  options.priority = "low";
  options.version = "7";
  const v1::ScoreRequest request = Parsed(options).front();
  EXPECT_EQ(request.rows().indices().type(), v1::U32);
  EXPECT_EQ(request.rows().values().type(), v1::F16);
  EXPECT_EQ(request.rows().values().data().size(), 39 * 2);
  EXPECT_EQ(request.priority(), v1::LOW);
  EXPECT_EQ(request.version(), "7");
  options.profile.values = Values::kFloat32;
  EXPECT_EQ(Parsed(options).front().rows().values().type(), v1::F32);
  const v1::ScoreRequest best = Parsed(Options("labels-1k", 2)).front();
  EXPECT_EQ(best.outputs(0), v1::TOP_K);
  EXPECT_EQ(best.top_k(), 10);
}

// With 700 rows a request, and 500 that share a context, contexts begin at any row of a request.
TEST(BenchRequests, WithContextAreTheWrittenOutRows) {
  RequestOptions options = Options("rank", 700);
  options.profile.entries_per_row = 7;
  options.profile.context = 5;
  const auto written_out = Parsed(options);
  options.context = true;
  const auto shared = Parsed(options);
  ASSERT_EQ(shared.size(), written_out.size());
  for (size_t i = 0; i < 4; ++i) {
    const std::vector<uint32_t> all = NumbersOf(written_out[i].rows().indices());
    const std::vector<uint32_t> own = NumbersOf(shared[i].rows().indices());
    const std::vector<uint32_t> contexts = NumbersOf(shared[i].contexts().indices());
    const std::vector<uint32_t> of = NumbersOf(shared[i].context_of());
    ASSERT_EQ(own.size(), 700 * 2);
    ASSERT_EQ(contexts.size() % 5, 0);
    ASSERT_EQ(of.size(), 700);
    for (size_t r = 0; r < 700; ++r) {
      ASSERT_LT(of[r], contexts.size() / 5);
      std::vector<uint32_t> row(contexts.begin() + of[r] * 5, contexts.begin() + (of[r] + 1) * 5);
      row.insert(row.end(), own.begin() + static_cast<ptrdiff_t>(r * 2),
                 own.begin() + static_cast<ptrdiff_t>((r + 1) * 2));
      ASSERT_TRUE(std::equal(row.begin(), row.end(), all.begin() + static_cast<ptrdiff_t>(r * 7))) << i << " " << r;
    }
  }
  options.rows = 500;
  EXPECT_FALSE(Parsed(options).front().has_context_of());
}

TEST(BenchRequests, RefusesWhatCannotBe) {
  RequestOptions options = Options("text-54k", 1);
  options.context = true;
  EXPECT_EQ(CheckRequests(options).message(), "context: rows of text-54k share no features; those of rank do");
  EXPECT_FALSE(CheckRequests(Options("text-54k", 1 << 26)).ok());
}

grpc::ByteBuffer InPieces(const std::string& bytes, size_t piece) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += piece) slices.emplace_back(bytes.substr(i, piece));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

TEST(BenchWire, FindsTheRowsOfAReplyFromItsBeginning) {
  v1::ScoreReply reply;
  reply.set_version("12");
  reply.set_rows(1000);
  for (int i = 0; i < 1000; ++i) reply.add_scores(1);
  const std::string bytes = reply.SerializeAsString();
  EXPECT_EQ(RowsOfReply(bytes), 1000);
  EXPECT_EQ(RowsOfReply(bytes.substr(0, 8)), 1000);
  EXPECT_FALSE(RowsOfReply(bytes.substr(0, 5)).has_value());
  EXPECT_FALSE(RowsOfReply("").has_value());
  EXPECT_EQ(TextOf(HeadOf(InPieces(bytes, 100))), bytes.substr(0, 100));
  EXPECT_EQ(TextOf(HeadOf(InPieces(bytes, 1))), bytes);
  EXPECT_EQ(TextOf(HeadOf(InPieces(bytes, bytes.size()))), bytes);
  EXPECT_EQ(TextOf(WholeOf(InPieces(bytes, 7))), bytes);
}

TEST(BenchWire, ReadsAnswersOfStreams) {
  v1::StreamReply message;
  message.set_id(300);
  message.mutable_reply()->set_rows(2);
  std::string bytes = message.SerializeAsString();
  StreamAnswer answer = ReadStreamAnswer(bytes);
  EXPECT_EQ(answer.id, 300);
  EXPECT_EQ(RowsOfReply(answer.reply), 2);
  EXPECT_FALSE(answer.error.has_value());
  message.mutable_error()->set_code(8);
  bytes = message.SerializeAsString();
  EXPECT_EQ(ReadStreamAnswer(bytes).error, 8);
}

grpc::Slice Encoded(size_t name) {
  v1::ScoreRequest request;
  request.set_model(std::string(name, 'm'));
  return grpc::Slice(request.SerializeAsString());
}

// Small ones are copied, large ones are not.
TEST(BenchWire, WritesRequestsOfAnySizeIntoOneMessage) {
  StreamBatch batch;
  const std::vector<size_t> names = {3, 300, 5000, 4, 70'000, 70'001, 100};
  for (const uint32_t timeout : {0U, 250U}) {
    for (const size_t name : names) batch.Add(name << 10, timeout, Encoded(name));
    v1::StreamRequests message;
    ASSERT_TRUE(message.ParseFromString(std::string(TextOf(WholeOf(batch.Take())))));
    ASSERT_EQ(message.requests_size(), names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      const v1::StreamRequest& request = message.requests(static_cast<int>(i));
      EXPECT_EQ(request.id(), names[i] << 10);
      EXPECT_EQ(request.timeout_ms(), timeout);
      EXPECT_EQ(request.request().model(), std::string(names[i], 'm'));
    }
  }
}

TEST(BenchWire, BoundsMessagesInRequestsAndBytes) {
  StreamBatch batch;
  EXPECT_FALSE(batch.IsFull(1 << 30));
  int requests = 0;
  for (; !batch.IsFull(10); ++requests) batch.Add(1, 0, Encoded(8));
  EXPECT_EQ(requests, 256);
  (void)batch.Take();
  batch.Add(1, 0, Encoded(200 << 10));
  EXPECT_FALSE(batch.IsFull(50 << 10));
  EXPECT_TRUE(batch.IsFull(57 << 10));
}

}  // namespace
}  // namespace widelane::cli
