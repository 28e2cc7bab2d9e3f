#include "server/front/score_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/front/limits.h"
#include "tests/support/rows.h"
#include "widelane/engine/errors.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane {
namespace {

using test::EncodedRows;
using test::PlainRows;

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::CodedInputStream;

absl::Status TakeAll(uint64_t /*bytes*/) { return absl::OkStatus(); }

absl::Status Decode(const std::string& message, ScoreRequestView& view, const LimitsConfig& limits = {},
                    TakeMemory take = TakeAll) {
  const int size = static_cast<int>(message.size());
  CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()), size);
  return DecodeScoreRequest(in, size, limits, take, view);
}

// The same from blocks of `block` bytes.
absl::Status DecodeBlocks(const std::string& message, int block, ScoreRequestView& view) {
  ArrayInputStream blocks(message.data(), static_cast<int>(message.size()), block);
  CodedInputStream in(&blocks);
  return DecodeScoreRequest(in, static_cast<int>(message.size()), {}, TakeAll, view);
}

// The field an invalid request is refused for.
std::string RefusedField(const v1::ScoreRequest& request) {
  ScoreRequestView view;
  const absl::Status status = Decode(request.SerializeAsString(), view);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return ErrorField(status).value_or("none");
}

v1::ScoreRequest GoodRequest() { return test::Request("m", EncodedRows({{{0, 1.5f}, {2, 2.0f}}, {{1, 0.5f}}}, {})); }

TEST(ScoreCodecTest, ReadsEveryField) {
  v1::ScoreRequest request = GoodRequest();
  request.set_version("7");
  request.add_outputs(v1::RAW);
  request.add_outputs(v1::TOP_K);
  request.set_top_k(3);
  request.set_stage_times(true);
  request.mutable_rows()->set_features(9);
  const std::string message = request.SerializeAsString();
  ScoreRequestView view;
  ASSERT_TRUE(Decode(message, view).ok());
  EXPECT_EQ(view.model, "m");
  EXPECT_EQ(view.version, "7");
  EXPECT_EQ(view.outputs, kReplyRaw | kReplyTopK);
  EXPECT_EQ(view.top_k, 3u);
  EXPECT_TRUE(view.stage_times);
  EXPECT_EQ(view.csr.features, 9u);
  EXPECT_EQ(view.csr.indices.count, 3u);
  ASSERT_TRUE(view.csr.indptr.has_value());
  EXPECT_EQ(view.csr.indptr->count, 3u);
}

TEST(ScoreCodecTest, LooksAtArraysWhereTheyAre) {
  const std::string message = GoodRequest().SerializeAsString();
  ScoreRequestView view;
  ASSERT_TRUE(Decode(message, view).ok());
  const auto* begin = reinterpret_cast<const std::byte*>(message.data());
  EXPECT_GE(view.csr.indices.data, begin);
  EXPECT_LT(view.csr.indices.data, begin + message.size());
}

TEST(ScoreCodecTest, AsksForTheMemoryOfLongPlainFieldsBeforeItTakesIt) {
  const size_t count = 10 * kFreeElements;
  const std::string message =
      test::Request("m", PlainRows({0, static_cast<int64_t>(count)}, std::vector<int64_t>(count, 1),
                                   std::vector<float>(count, 1)))
          .SerializeAsString();
  uint64_t taken = 0;
  ScoreRequestView view;
  const auto take = [&taken](uint64_t bytes) {
    taken += bytes;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Decode(message, view, {}, take).ok());
  EXPECT_EQ(taken, count * (sizeof(int64_t) + sizeof(float)));
  ScoreRequestView refused;
  const auto refuse = [](uint64_t /*bytes*/) { return absl::ResourceExhaustedError("full"); };
  EXPECT_EQ(Decode(message, refused, {}, refuse).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(refused.rows_memory.indices.capacity(), kFreeElements);
}

TEST(ScoreCodecTest, AsksForScoresUnlessTold) {
  const std::string message = GoodRequest().SerializeAsString();
  ScoreRequestView view;
  ASSERT_TRUE(Decode(message, view).ok());
  EXPECT_EQ(view.outputs, kReplyScores);
}

TEST(ScoreCodecTest, ReadsPlainNumbersPackedAndNot) {
  v1::Rows rows = PlainRows({0, 2}, {5, 300}, {0.5f, 2.0f});
  std::string message = test::Request("m", rows).SerializeAsString();
  // One more of each, not packed: fields 5, 6 (varints) and 7 (fixed32) of a second `rows` that is merged.
  const std::string more = std::string("\x28\x03\x30\x07\x3d", 5) + std::string("\x00\x00\x80\x3f", 4);
  message += std::string("\x1a", 1) + static_cast<char>(more.size()) + more;
  ScoreRequestView view;
  ASSERT_TRUE(Decode(message, view).ok());
  EXPECT_EQ(view.rows_memory.indptr, (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(view.rows_memory.indices, (std::vector<int64_t>{5, 300, 7}));
  EXPECT_EQ(view.rows_memory.values, (std::vector<float>{0.5f, 2.0f, 1.0f}));
  EXPECT_EQ(view.csr.values->count, 3u);
}

TEST(ScoreCodecTest, SkipsUnknownFields) {
  std::string message = GoodRequest().SerializeAsString();
  message += std::string("\xa2\x06\x03", 3) + "abc";               // field 100, bytes
  message += std::string("\xa3\x06\x08\x01\xa4\x06", 6);           // field 100, a group with a varint in it
  message += std::string("\xa9\x06", 2) + std::string(8, '\x7f');  // field 101, fixed64
  ScoreRequestView view;
  EXPECT_TRUE(Decode(message, view).ok());
}

TEST(ScoreCodecTest, RefusesBothFormsOfAnArray) {
  v1::ScoreRequest request = GoodRequest();
  request.mutable_rows()->add_plain_indices(1);
  EXPECT_EQ(RefusedField(request), "rows.indices");
  request = GoodRequest();
  request.mutable_rows()->add_plain_indptr(1);
  EXPECT_EQ(RefusedField(request), "rows.indptr");
  request = GoodRequest();
  request.mutable_rows()->add_plain_values(1);
  EXPECT_EQ(RefusedField(request), "rows.values");
}

TEST(ScoreCodecTest, RefusesIndptrTogetherWithRowLengths) {
  v1::ScoreRequest request = GoodRequest();
  *request.mutable_rows()->mutable_row_lengths() = test::Encode(v1::U16, {2, 1});
  EXPECT_EQ(RefusedField(request), "rows.row_lengths");
}

TEST(ScoreCodecTest, RefusesRowsWithoutOffsets) {
  v1::ScoreRequest request = GoodRequest();
  request.mutable_rows()->clear_indptr();
  EXPECT_EQ(RefusedField(request), "rows.indptr");
  EXPECT_EQ(RefusedField(v1::ScoreRequest()), "rows.indptr");
}

TEST(ScoreCodecTest, RefusesTypesThatAreMissingOrUnknown) {
  v1::ScoreRequest request = GoodRequest();
  request.mutable_rows()->mutable_indices()->clear_type();
  EXPECT_EQ(RefusedField(request), "rows.indices");
  request.mutable_rows()->mutable_indices()->set_type(static_cast<v1::ElementType>(77));
  EXPECT_EQ(RefusedField(request), "rows.indices");
}

TEST(ScoreCodecTest, RefusesBytesThatAreNoWholeElements) {
  v1::ScoreRequest request = GoodRequest();
  request.mutable_rows()->mutable_values()->mutable_data()->push_back('x');
  EXPECT_EQ(RefusedField(request), "rows.values");
}

TEST(ScoreCodecTest, RefusesUnknownOutputs) {
  v1::ScoreRequest request = GoodRequest();
  request.add_outputs(static_cast<v1::Output>(9));
  EXPECT_EQ(RefusedField(request), "outputs");
  request.set_outputs(0, v1::OUTPUT_UNSPECIFIED);
  EXPECT_EQ(RefusedField(request), "outputs");
}

TEST(ScoreCodecTest, RefusesMoreRowsOrEntriesThanTheLimitNamingTheOption) {
  LimitsConfig limits;
  limits.max_request_rows = 2;
  limits.max_request_entries = 2;
  ScoreRequestView view;
  const std::string bytes = GoodRequest().SerializeAsString();
  const absl::Status entries = Decode(bytes, view, limits);
  EXPECT_EQ(ErrorLimit(entries), kMaxRequestEntries) << entries;
  const std::string plain = test::Request("m", PlainRows({0, 0, 0, 0, 0}, {})).SerializeAsString();
  const absl::Status rows = Decode(plain, view, limits);
  EXPECT_EQ(ErrorLimit(rows), kMaxRequestRows) << rows;
}

TEST(ScoreCodecTest, NeverTakesPlainValuesBeyondTheLimitForNone) {
  LimitsConfig limits;
  limits.max_request_entries = 2;
  ScoreRequestView view;
  const std::string message = test::Request("m", PlainRows({0, 1}, {0}, {1, 2, 3, 4, 5})).SerializeAsString();
  ASSERT_TRUE(Decode(message, view, limits).ok());
  ASSERT_TRUE(view.csr.values.has_value());
  EXPECT_NE(view.csr.values->count, view.csr.indices.count);  // which CheckShape refuses
}

TEST(ScoreCodecTest, SurvivesEveryTruncation) {
  v1::ScoreRequest request = GoodRequest();
  request.add_outputs(v1::SCORES);
  const std::string message = request.SerializeAsString();
  ScoreRequestView view;
  for (size_t size = 0; size < message.size(); ++size) {
    // A copy of exactly that size, so that sanitizers see a read behind it.
    const std::string cut(message.data(), size);
    const absl::Status status = Decode(cut, view);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  }
}

TEST(ScoreCodecTest, SurvivesGarbage) {
  const std::string good = GoodRequest().SerializeAsString();
  std::mt19937 random(20240917);
  ScoreRequestView view;
  for (int round = 0; round < 20000; ++round) {
    SCOPED_TRACE(round);
    std::string message = good;
    for (int changes = 0; changes < 3; ++changes) message[random() % message.size()] = static_cast<char>(random());
    const std::string exact(message.data(), message.size() - random() % 4);
    const absl::Status status = Decode(exact, view);
    if (status.ok()) {
      EXPECT_LE(view.csr.indices.count, message.size());
    } else {
      EXPECT_FALSE(status.message().empty());
    }
  }
}

TEST(ScoreCodecTest, RefusesGarbageAsInvalid) {
  ScoreRequestView view;
  for (const std::string& message :
       {std::string("\xff\xff\xff"), std::string("\x1a\xff"), std::string("\x1a\x05\x0a", 3), std::string("\x07"),
        std::string("\x00\x00", 2), std::string("\x0c")}) {
    EXPECT_EQ(Decode(message, view).code(), absl::StatusCode::kInvalidArgument);
  }
}

v1::ScoreRequest RequestWithContexts() {
  v1::ScoreRequest request = GoodRequest();
  *request.mutable_contexts() = EncodedRows({{{3, 1.0f}}, {{4, 0.5f}, {5, 0.25f}}}, {});
  *request.mutable_context_of() = test::Encode(v1::U16, {1, 0});
  return request;
}

TEST(ScoreCodecTest, ReadsContexts) {
  ScoreRequestView view;
  const std::string message = RequestWithContexts().SerializeAsString();
  ASSERT_TRUE(Decode(message, view).ok());
  ASSERT_TRUE(view.contexts.has_value());
  EXPECT_EQ(view.contexts->features.indices.count, 3u);
  ASSERT_TRUE(view.contexts->of.has_value());
  EXPECT_EQ(view.contexts->of->type, ElementType::kU16);
  EXPECT_EQ(view.contexts->of->count, 2u);
  v1::ScoreRequest plain = RequestWithContexts();
  plain.clear_context_of();
  plain.add_plain_context_of(1);
  plain.add_plain_context_of(70000);
  const std::string bytes = plain.SerializeAsString();
  ASSERT_TRUE(Decode(bytes, view).ok());
  EXPECT_EQ(view.context_of, (std::vector<uint32_t>{1, 70000}));
  EXPECT_EQ(view.contexts->of->type, ElementType::kU32);
  const std::string without = GoodRequest().SerializeAsString();
  ASSERT_TRUE(Decode(without, view).ok());
  EXPECT_FALSE(view.contexts.has_value());
}

TEST(ScoreCodecTest, RefusesContextsThatAreWrongNamingTheirField) {
  v1::ScoreRequest request = RequestWithContexts();
  request.mutable_contexts()->clear_indptr();
  EXPECT_EQ(RefusedField(request), "contexts.indptr");
  request = RequestWithContexts();
  request.mutable_contexts()->mutable_indices()->set_type(static_cast<v1::ElementType>(77));
  EXPECT_EQ(RefusedField(request), "contexts.indices");
  request = RequestWithContexts();
  request.add_plain_context_of(1);
  EXPECT_EQ(RefusedField(request), "context_of");
  request = RequestWithContexts();
  request.clear_contexts();
  EXPECT_EQ(RefusedField(request), "context_of");
}

TEST(ScoreCodecTest, ContextsCountTowardsTheLimits) {
  LimitsConfig limits;
  limits.max_request_rows = 3;  // two rows and two contexts
  ScoreRequestView view;
  const std::string message = RequestWithContexts().SerializeAsString();
  EXPECT_EQ(ErrorLimit(Decode(message, view, limits)), kMaxRequestRows);
  limits = {};
  limits.max_request_entries = 5;  // three entries each
  EXPECT_EQ(ErrorLimit(Decode(message, view, limits)), kMaxRequestEntries);
}

TEST(ScoreCodecTest, ReadsPrioritiesAndRefusesUnknownOnes) {
  const auto priority = [](v1::Priority value) {
    v1::ScoreRequest request = GoodRequest();
    request.set_priority(value);
    ScoreRequestView view;
    EXPECT_TRUE(Decode(request.SerializeAsString(), view).ok());
    return view.priority;
  };
  EXPECT_EQ(priority(v1::PRIORITY_UNSPECIFIED), Priority::kNormal);
  EXPECT_EQ(priority(v1::HIGH), Priority::kHigh);
  EXPECT_EQ(priority(v1::NORMAL), Priority::kNormal);
  EXPECT_EQ(priority(v1::LOW), Priority::kLow);
  for (const int unknown : {4, -1}) {
    v1::ScoreRequest request = GoodRequest();
    request.set_priority(static_cast<v1::Priority>(unknown));
    EXPECT_EQ(RefusedField(request), "priority");
  }
}

// The bytes of an array, wherever they lie.
std::string Bytes(const TypedArray& array) {
  const size_t size = array.count * ElementSize(array.type);
  if (array.pieces.empty()) return {reinterpret_cast<const char*>(array.data), size};
  std::string bytes;
  for (size_t i = 0; i < array.pieces.size(); ++i) {
    const size_t end = i + 1 < array.pieces.size() ? array.pieces[i + 1].begin : size;
    EXPECT_LT(array.pieces[i].begin, end);
    EXPECT_EQ(array.pieces[i].begin, bytes.size());
    bytes.append(reinterpret_cast<const char*>(array.pieces[i].data), end - bytes.size());
  }
  return bytes;
}

void ExpectSame(const std::optional<TypedArray>& a, const std::optional<TypedArray>& b) {
  ASSERT_EQ(a.has_value(), b.has_value());
  if (!a.has_value()) return;
  EXPECT_EQ(a->type, b->type);
  ASSERT_EQ(a->count, b->count);
  EXPECT_EQ(Bytes(*a), Bytes(*b));
}

void ExpectSame(const CsrView& a, const CsrView& b) {
  ExpectSame(a.indptr, b.indptr);
  ExpectSame(a.row_lengths, b.row_lengths);
  ExpectSame(a.indices, b.indices);
  ExpectSame(a.values, b.values);
  EXPECT_EQ(a.features, b.features);
}

// Blocks of every size give what one block gives: the same values, or the same error.
void ExpectSameFromBlocks(const std::string& message) {
  ScoreRequestView whole;
  const absl::Status expected = Decode(message, whole);
  ScoreRequestView view;  // used again, as the server does
  const int most = static_cast<int>(std::min<size_t>(message.size(), 40));
  for (int block = 1; block <= most; ++block) {
    SCOPED_TRACE(block);
    const absl::Status status = DecodeBlocks(message, block, view);
    ASSERT_EQ(status, expected);
    if (!status.ok()) continue;
    EXPECT_EQ(view.model, whole.model);
    EXPECT_EQ(view.version, whole.version);
    EXPECT_EQ(view.outputs, whole.outputs);
    EXPECT_EQ(view.top_k, whole.top_k);
    EXPECT_EQ(view.priority, whole.priority);
    ExpectSame(view.csr, whole.csr);
    ASSERT_EQ(view.contexts.has_value(), whole.contexts.has_value());
    if (!view.contexts.has_value()) continue;
    ExpectSame(view.contexts->features, whole.contexts->features);
    ExpectSame(view.contexts->of, whole.contexts->of);
  }
}

TEST(ScoreCodecTest, BlocksOfEverySizeGiveTheSame) {
  v1::ScoreRequest request = RequestWithContexts();
  request.set_model("a name");
  request.set_version("12345");
  request.add_outputs(v1::RAW);
  request.add_outputs(v1::LABELS);
  request.set_priority(v1::LOW);
  request.mutable_rows()->set_features(70000);
  const std::string encoded = request.SerializeAsString();
  ExpectSameFromBlocks(encoded);
  v1::ScoreRequest plain = test::Request("plain", PlainRows({0, 2, 3}, {5, 300, 1 << 20}, {0.5f, 2.0f, -1.0f}));
  *plain.mutable_contexts() = PlainRows({0, 1}, {7}, {1.5f});
  plain.add_plain_context_of(0);
  plain.add_plain_context_of(300);
  const std::string numbers = plain.SerializeAsString();
  ExpectSameFromBlocks(numbers);
  for (size_t size = 0; size < encoded.size(); size += 7) ExpectSameFromBlocks(encoded.substr(0, size));
  for (size_t size = 0; size < numbers.size(); size += 5) ExpectSameFromBlocks(numbers.substr(0, size));
}

TEST(ScoreCodecTest, GarbageInBlocksGivesTheSame) {
  const std::string good = RequestWithContexts().SerializeAsString();
  std::mt19937 random(20240918);
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(round);
    std::string message = good;
    for (int changes = 0; changes < 2; ++changes) message[random() % message.size()] = static_cast<char>(random());
    ExpectSameFromBlocks(message);
  }
}

// As the only request of a message, whose bytes are `bytes`.
void DecodeStream(const std::string& bytes, StreamRequestView& view) {
  const int size = static_cast<int>(bytes.size());
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), size);
  DecodeStreamRequest(in, size, {}, TakeAll, view);
}

TEST(StreamCodecTest, ReadsTheRequestAndWhatIsAroundIt) {
  v1::StreamRequest message;
  message.set_id(77);
  message.set_timeout_ms(250);
  *message.mutable_request() = RequestWithContexts();
  const std::string bytes = message.SerializeAsString();
  StreamRequestView view;
  DecodeStream(bytes, view);
  EXPECT_TRUE(view.error.ok()) << view.error;
  EXPECT_EQ(view.id, 77u);
  EXPECT_EQ(view.timeout_ms, 250u);
  EXPECT_EQ(view.request.model, "m");
  EXPECT_TRUE(view.request.contexts.has_value());
}

TEST(StreamCodecTest, AnErrorOfTheRequestLeavesTheRestReadable) {
  v1::StreamRequest message;
  message.mutable_request()->set_model("m");
  message.mutable_request()->add_outputs(static_cast<v1::Output>(9));
  std::string bytes = message.SerializeAsString() + std::string("\x08\x05", 2);  // the id comes last
  StreamRequestView view;
  DecodeStream(bytes, view);
  EXPECT_EQ(ErrorField(view.error), "outputs");
  EXPECT_EQ(view.id, 5u);
  view.error = absl::OkStatus();
  bytes = std::string("\x12\x02\x1a\x7f\x08\x06", 6);  // a request that is cut short in itself
  DecodeStream(bytes, view);
  EXPECT_TRUE(absl::IsInvalidArgument(view.error)) << view.error;
  EXPECT_EQ(view.id, 6u);
}

TEST(StreamCodecTest, PassesOverTheRequestAfterAnError) {
  v1::StreamRequest message;
  message.set_id(9);
  *message.mutable_request() = GoodRequest();
  const std::string bytes = message.SerializeAsString();
  StreamRequestView view;
  view.error = absl::ResourceExhaustedError("full");
  DecodeStream(bytes, view);
  EXPECT_EQ(view.id, 9u);
  EXPECT_TRUE(absl::IsResourceExhausted(view.error));
}

TEST(StreamCodecTest, RefusesRequestsThatAreNone) {
  StreamRequestView view;
  for (const std::string& bytes : {std::string("\xff"), std::string("\x12\x05\x01", 3), std::string("\x07")}) {
    view.error = absl::OkStatus();
    DecodeStream(bytes, view);
    EXPECT_TRUE(absl::IsInvalidArgument(view.error)) << view.error;
  }
  view.error = absl::OkStatus();
  DecodeStream("", view);
  EXPECT_EQ(ErrorField(view.error), "rows.indptr");
}

TEST(StreamCodecTest, CanBeWalkedAgainFromAnyRequest) {
  v1::StreamRequests one;
  one.add_requests()->set_id(1);
  v1::StreamRequests other;
  other.add_requests()->set_id(2);
  // Between the two: a field of another version, whose bytes look like requests.
  const std::string unknown = std::string("\x7a\x06\x0a\x04\x0a\x02\x08\x09", 8);
  const std::string message = one.SerializeAsString() + unknown + other.SerializeAsString();
  CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size()));
  StreamRequestsReader reader(in, static_cast<int>(message.size()));
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.begin(), 0);
  reader.Read([](CodedInputStream&, int) {});
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(message.substr(static_cast<size_t>(reader.begin())), other.SerializeAsString());
}

struct Walk {
  std::vector<uint64_t> good;  // ids
  int bad = 0;
  bool broken = false;
};

// From blocks of `block` bytes.
Walk WalkRequests(const std::string& message, int block) {
  const int size = static_cast<int>(message.size());
  ArrayInputStream blocks(message.data(), size, block);
  CodedInputStream in(&blocks);
  StreamRequestsReader reader(in, size);
  Walk walk;
  while (reader.Next()) {
    StreamRequestView view;
    reader.Read([&](CodedInputStream& at, int bytes) { DecodeStreamRequest(at, bytes, {}, TakeAll, view); });
    if (view.error.ok()) walk.good.push_back(view.id);
    walk.bad += view.error.ok() ? 0 : 1;
  }
  walk.broken = reader.broken();
  return walk;
}

std::string Requests(uint64_t first_id, uint64_t last_id) {
  v1::StreamRequests message;
  for (uint64_t id = first_id; id <= last_id; ++id) {
    message.add_requests()->set_id(id);
    *message.mutable_requests()->rbegin()->mutable_request() = GoodRequest();
  }
  return message.SerializeAsString();
}

TEST(StreamCodecTest, WalksTheRequestsOfAMessage) {
  const std::string three = Requests(1, 3);
  const std::string unknown("\xa2\x06\x01x\x08\x07", 6);  // field 100; field 1, but a number
  for (const int block : {1, 3, 1000}) {
    SCOPED_TRACE(block);
    EXPECT_EQ(WalkRequests(three, block).good, (std::vector<uint64_t>{1, 2, 3}));
    const Walk more = WalkRequests(unknown + three + unknown + Requests(4, 4) + unknown, block);
    EXPECT_EQ(more.good, (std::vector<uint64_t>{1, 2, 3, 4}));
    EXPECT_EQ(more.bad, 0);
    EXPECT_FALSE(more.broken);
    const Walk none = WalkRequests("", block);
    EXPECT_TRUE(none.good.empty());
    EXPECT_FALSE(none.broken);
  }
}

TEST(StreamCodecTest, ABadRequestLeavesThoseBehindItReadable) {
  const std::string bad("\x0a\x05\x12\x7f\x01\x02\x03", 7);
  // Groups that do not end: each would leave its depth to the next.
  std::string groups;
  for (int i = 0; i < 200; ++i) groups += std::string("\x0a\x02\x23\x23", 4);
  const std::string nested("\x0a\x02\x23\x24", 4);  // one that ends
  for (const int block : {1, 3, 1000}) {
    SCOPED_TRACE(block);
    const Walk walk = WalkRequests(bad + Requests(1, 1) + groups + nested + Requests(2, 2), block);
    EXPECT_EQ(walk.good, (std::vector<uint64_t>{1, 2}));
    EXPECT_EQ(walk.bad, 202);
    EXPECT_FALSE(walk.broken);
  }
}

TEST(StreamCodecTest, TheWalkEndsAtWhatIsNoMessage) {
  for (const std::string& end : {std::string("\x0a\x05\x01", 3), std::string("\xff"), std::string("\x07")}) {
    const Walk walk = WalkRequests(Requests(1, 2) + end, 5);
    EXPECT_EQ(walk.good, (std::vector<uint64_t>{1, 2}));
    EXPECT_TRUE(walk.broken);
  }
}

TEST(StreamCodecTest, TheWalkGoesOnFromWhereARequestBegins) {
  const std::string message = Requests(1, 3);
  CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size()));
  StreamRequestsReader reader(in, static_cast<int>(message.size()));
  std::vector<size_t> begins;
  while (reader.Next()) {
    begins.push_back(static_cast<size_t>(reader.begin()));
    EXPECT_EQ(reader.is_last(), begins.size() == 3);
    reader.Read([](CodedInputStream& /*in*/, int /*size*/) {});
  }
  ASSERT_EQ(begins.size(), 3u);
  EXPECT_EQ(begins[0], 0u);
  EXPECT_EQ(WalkRequests(message.substr(begins[1]), 4).good, (std::vector<uint64_t>{2, 3}));
}

}  // namespace
}  // namespace widelane
