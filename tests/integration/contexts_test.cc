// Contexts through the wire: the scores are those of the rows with all features written out, bit for bit.

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/support/expect.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

constexpr int64_t kContextFeatures = 500;
constexpr uint32_t kContextOutputs = 7;

std::shared_ptr<const Model> Wide(uint32_t outputs, Link link) {
  ModelSpec spec{.features = kContextFeatures, .outputs = outputs, .link = link};
  std::mt19937 random(7);
  std::normal_distribution<float> weight;
  for (int64_t i = 0; i < kContextFeatures * outputs; ++i) spec.weights.push_back(weight(random));
  for (uint32_t k = 0; k < std::max(outputs, 2U); ++k) spec.labels.push_back("label " + std::to_string(k));
  return MakeModel(spec);
}

std::vector<WireRow> RandomRows(size_t count, size_t longest, bool ones, std::mt19937& random) {
  std::vector<WireRow> rows(count);
  std::lognormal_distribution<float> value(0, 4);
  for (WireRow& row : rows) {
    for (size_t length = random() % (longest + 1); length > 0; --length) {
      row.push_back({static_cast<int64_t>(random() % kContextFeatures), ones ? 1.0F : value(random)});
    }
  }
  return rows;
}

std::vector<WireRow> WriteOut(const std::vector<WireRow>& rows, const std::vector<WireRow>& contexts,
                              const std::vector<uint32_t>& of) {
  std::vector<WireRow> all = rows;
  for (size_t r = 0; r < rows.size(); ++r) {
    const WireRow& context = contexts[of.empty() ? 0 : of[r]];
    all[r].insert(all[r].end(), context.begin(), context.end());
  }
  return all;
}

template <typename List>
void ExpectSameBits(const List& actual, const List& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  if (actual.empty()) return;
  EXPECT_EQ(std::memcmp(actual.data(), expected.data(), static_cast<size_t>(actual.size()) * sizeof(*actual.data())),
            0);
}

class ContextsTest : public ::testing::Test {
 protected:
  void ExpectLikeWrittenOut(const std::vector<WireRow>& rows, const std::vector<WireRow>& contexts,
                            const std::vector<uint32_t>& of, const Encoding& encoding,
                            const std::vector<v1::Output>& outputs) {
    for (const char* model : {"one", "many"}) {
      SCOPED_TRACE(model);
      v1::ScoreRequest request = Request(model, EncodedRows(rows, encoding));
      *request.mutable_contexts() = EncodedRows(contexts, encoding);
      if (!of.empty()) *request.mutable_context_of() = Encode(v1::U16, std::vector<double>(of.begin(), of.end()));
      v1::ScoreRequest written = Request(model, EncodedRows(WriteOut(rows, contexts, of), encoding));
      for (v1::ScoreRequest* each : {&request, &written}) {
        for (const v1::Output output : outputs) each->add_outputs(output);
        each->set_top_k(1);
      }
      const ScoreResult expected = server_.Score(written);
      ExpectOk(expected.status);
      const ScoreResult actual = server_.Score(request);
      ExpectOk(actual.status);
      ExpectSameBits(actual.reply.scores(), expected.reply.scores());
      ExpectSameBits(actual.reply.raw(), expected.reply.raw());
      ExpectSameBits(actual.reply.top_scores(), expected.reply.top_scores());
      ExpectSameBits(actual.reply.top_outputs(), expected.reply.top_outputs());
      ASSERT_EQ(actual.reply.labels_size(), expected.reply.labels_size());
      for (int i = 0; i < actual.reply.labels_size(); ++i) EXPECT_EQ(actual.reply.labels(i), expected.reply.labels(i));
    }
  }

  std::mt19937 random_{20240919};
  TestServer server_{{{"one", Wide(1, Link::kSigmoid)}, {"many", Wide(kContextOutputs, Link::kSoftmax)}}};
};

TEST_F(ContextsTest, OneContextOfAllRows) {
  for (const bool ones : {true, false}) {
    const auto rows = RandomRows(300, 10, ones, random_);
    const auto contexts = RandomRows(1, 200, ones, random_);
    const Encoding encoding{.values = ones ? v1::ELEMENT_TYPE_UNSPECIFIED : v1::F32};
    ExpectLikeWrittenOut(rows, contexts, {}, encoding, {v1::SCORES, v1::RAW, v1::LABELS, v1::TOP_K});
    ExpectLikeWrittenOut(rows, contexts, {}, encoding, {v1::TOP_K});
  }
}

TEST_F(ContextsTest, SeveralContextsInAnyOrder) {
  const auto rows = RandomRows(2000, 8, false, random_);
  const auto contexts = RandomRows(17, 60, false, random_);
  std::vector<uint32_t> of;
  for (size_t r = 0; r < rows.size(); ++r) of.push_back(random_() % 17);
  ExpectLikeWrittenOut(rows, contexts, of, {}, {v1::SCORES, v1::RAW});
  ExpectLikeWrittenOut(rows, contexts, of, {}, {v1::LABELS, v1::TOP_K});
}

TEST_F(ContextsTest, MoreRowsThanABatchHolds) {
  const auto rows = RandomRows(30000, 3, false, random_);
  const auto contexts = RandomRows(3, 20, false, random_);
  std::vector<uint32_t> of;
  for (size_t r = 0; r < rows.size(); ++r) of.push_back(random_() % 3);
  ExpectLikeWrittenOut(rows, contexts, of, {}, {v1::SCORES});
}

TEST_F(ContextsTest, EmptyOnesAndNoRows) {
  ExpectLikeWrittenOut({{{1, 2.0F}}, {}}, {{}}, {}, {}, {v1::SCORES});
  ExpectLikeWrittenOut({{}, {}}, {{{3, 1.5F}}, {}}, {1, 0}, {}, {v1::RAW});
  ExpectLikeWrittenOut({}, {{{3, 1.5F}}}, {}, {}, {v1::SCORES});
}

TEST_F(ContextsTest, PlainOnesAreTheSame) {
  v1::ScoreRequest request = Request("one", PlainRows({{{1, 2.0F}}, {{4, 0.5F}}}));
  *request.mutable_contexts() = PlainRows({{{7, 1.0F}}, {{8, 3.0F}, {9, 0.25F}}});
  request.add_plain_context_of(1);
  request.add_plain_context_of(0);
  const auto expected =
      server_.Scores(Request("one", PlainRows({{{1, 2.0F}, {8, 3.0F}, {9, 0.25F}}, {{4, 0.5F}, {7, 1.0F}}})));
  EXPECT_EQ(server_.Scores(request), expected);
}

TEST_F(ContextsTest, WhatIsWrongIsNamed) {
  const v1::ScoreRequest good = [] {
    v1::ScoreRequest request = Request("one", PlainRows({{{1, 2.0F}}, {{4, 0.5F}}}));
    *request.mutable_contexts() = PlainRows({{{7, 1.0F}}, {{8, 3.0F}}});
    request.add_plain_context_of(1);
    request.add_plain_context_of(0);
    return request;
  }();
  v1::ScoreRequest request = good;
  request.set_plain_context_of(1, 2);
  ExpectBadField(server_.Score(request).status, "context_of[1]");
  request = good;
  request.add_plain_context_of(0);
  ExpectBadField(server_.Score(request).status, "context_of");
  request = good;
  request.clear_plain_context_of();
  ExpectBadField(server_.Score(request).status, "context_of");
  request = good;
  request.mutable_contexts()->set_plain_indices(1, kContextFeatures);
  ExpectBadField(server_.Score(request).status, "contexts.indices[1]");
  request = good;
  request.mutable_contexts()->set_plain_values(0, std::numeric_limits<float>::infinity());
  ExpectBadField(server_.Score(request).status, "contexts.values[0]");
  request = good;
  request.mutable_contexts()->set_features(kContextFeatures + 1);
  ExpectBadField(server_.Score(request).status, "contexts.features");
  request = good;
  request.mutable_contexts()->set_plain_indptr(1, 5);
  ExpectBadField(server_.Score(request).status, "contexts.indptr");
  request = good;
  request.mutable_rows()->set_plain_indices(1, kContextFeatures);
  ExpectBadField(server_.Score(request).status, "rows.indices[1]");
  request = good;
  request.set_priority(static_cast<v1::Priority>(4));
  ExpectBadField(server_.Score(request).status, "priority");
  EXPECT_EQ(server_.Scores(good).size(), 2u);
}

}  // namespace
}  // namespace widelane::test
