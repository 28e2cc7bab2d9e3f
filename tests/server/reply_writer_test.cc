#include "server/front/reply_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/src/backend.h"
#include "server/front/score_codec.h"
#include "tests/engine/plain_memory.h"
#include "tests/support/models.h"
#include "widelane/engine/engine.h"
#include "widelane/engine/errors.h"
#include "widelane/engine/slab.h"

namespace widelane {
namespace {

v1::ScoreReply Parse(const ReplySlices& slices) {
  std::string bytes;
  for (size_t i = 0; i < slices.count; ++i) {
    bytes.append(reinterpret_cast<const char*>(slices.slices[i].begin()), slices.slices[i].size());
  }
  EXPECT_EQ(bytes.size(), slices.size());
  v1::ScoreReply reply;
  EXPECT_TRUE(reply.ParseFromString(bytes));
  return reply;
}

TEST(ReplyWriterTest, AReplyWithoutRowsIsWhole) {
  const auto model = test::R4();
  ReplyWriter writer;
  writer.Start({model.get(), "12", 0, kReplyScores | kReplyRaw | kReplyLabels | kReplyProbabilities, 0});
  const v1::ScoreReply reply = Parse(writer.Finish(5, nullptr));
  EXPECT_EQ(reply.version(), "12");
  EXPECT_EQ(reply.rows(), 0u);
  EXPECT_EQ(reply.outputs(), 1u);
  EXPECT_EQ(reply.positive_label(), "1");
  EXPECT_EQ(reply.ignored_features(), 5u);
  EXPECT_EQ(reply.scores_size() + reply.raw_size() + reply.labels_size() + reply.probabilities_size(), 0);
}

// A slab as a batch of `raw` sums of a one-output model leaves it.
class DoneSlab {
 public:
  DoneSlab(const std::shared_ptr<const Model>& model, const std::vector<double>& raw) {
    slab_ = *Slab::Create({.rows = 64, .entries = 64, .results = 64}, memory_);
    slab_->Open(std::make_shared<LoadedModel>(model, std::vector<std::unique_ptr<ResidentModel>>(), false), {});
    segment_ = *slab_->Claim(raw.size(), 0, kWantScores | kWantRaw);
    slab_->Seal();
    for (size_t row = 0; row < raw.size(); ++row) {
      slab_->view().raw[row] = raw[row];
      slab_->view().scores[row] = static_cast<float>(raw[row]);
    }
  }
  const Slab& slab() const { return *slab_; }
  const Segment& segment() const { return segment_; }

 private:
  test::PlainMemory memory_;
  std::unique_ptr<Slab> slab_;
  Segment segment_;
};

TEST(ReplyWriterTest, RepliesOfEveryLengthArriveWhole) {
  const auto model = test::R4();
  for (size_t rows = 1; rows <= 40; ++rows) {
    SCOPED_TRACE(rows);
    std::vector<double> raw;
    for (size_t row = 0; row < rows; ++row) raw.push_back(static_cast<double>(row) - 1);
    const DoneSlab done(model, raw);
    for (const uint8_t outputs : {kReplyScores, kReplyRaw, kReplyLabels, kReplyProbabilities, kReplyTopK}) {
      ReplyWriter writer;
      writer.Start({model.get(), "1", rows, outputs, 1});
      writer.Add(done.slab(), done.segment(), 0);
      ASSERT_TRUE(writer.Check().ok());
      const v1::ScoreReply reply = Parse(writer.Finish(0, nullptr));
      ASSERT_EQ(reply.rows(), rows);
      for (size_t row = 0; row < rows; ++row) {
        const auto i = static_cast<int>(row);
        if (outputs == kReplyScores) {
          ASSERT_EQ(reply.scores(i), static_cast<float>(raw[row]));
        }
        if (outputs == kReplyRaw) {
          ASSERT_EQ(reply.raw(i), raw[row]);
        }
        if (outputs == kReplyLabels) {
          ASSERT_EQ(reply.labels(i), raw[row] > 0 ? "1" : "0");
        }
        if (outputs == kReplyProbabilities) {
          ASSERT_FLOAT_EQ(reply.probabilities(2 * i) + reply.probabilities(2 * i + 1), 1);
        }
        if (outputs == kReplyTopK) {
          ASSERT_EQ(reply.top_scores(i), static_cast<float>(raw[row]));
        }
      }
    }
  }
}

TEST(ReplyWriterTest, NamesTheFirstScoreBeyondFloat32) {
  const auto model = test::R4();
  const DoneSlab done(model, {1, 2, 1e300, 1e301});
  ReplyWriter writer;
  writer.Start({model.get(), "1", 4, kReplyScores, 0});
  writer.Add(done.slab(), done.segment(), 0);
  EXPECT_EQ(writer.Check().code(), absl::StatusCode::kOutOfRange);
  EXPECT_NE(std::string(writer.Check().message()).find("row 2, output 0"), std::string::npos) << writer.Check();
  writer.Start({model.get(), "1", 4, kReplyRaw, 0});
  writer.Add(done.slab(), done.segment(), 0);
  EXPECT_TRUE(writer.Check().ok());
}

// A model with six outputs and labels.
std::shared_ptr<const Model> Six() {
  return test::MakeModel(
      {.features = 1, .outputs = 6, .weights = {1, 2, 3, 4, 5, 6}, .labels = {"a", "b", "c", "d", "e", "f"}});
}

TEST(ReplyWriterTest, AsksForNoMoreOutputsThanItShows) {
  const auto six = Six();
  const auto best = [](const Model& model, uint8_t outputs, uint32_t top_k) {
    return BestWanted({&model, "1", 1, outputs, top_k});
  };
  EXPECT_EQ(best(*six, kReplyLabels, 0), 1u);
  EXPECT_EQ(best(*six, kReplyTopK, 1), 1u);
  EXPECT_EQ(best(*six, kReplyTopK, 3), 4u);
  EXPECT_EQ(best(*six, kReplyTopK | kReplyLabels, 4), 4u);
  EXPECT_EQ(best(*six, kReplyTopK, 5), 6u);  // the next step is beyond the outputs
  EXPECT_EQ(best(*six, kReplyTopK, 6), 0u);
  for (const uint8_t all : {kReplyScores, kReplyRaw, kReplyProbabilities}) {
    EXPECT_EQ(best(*six, static_cast<uint8_t>(all | kReplyTopK), 2), 0u);
  }
  EXPECT_EQ(best(*test::R4(), kReplyLabels, 0), 0u);

  const auto many = test::MakeModel({.features = 1, .outputs = 1000, .weights = std::vector<float>(1000, 1)});
  EXPECT_EQ(best(*many, kReplyTopK, 10), 16u);
  EXPECT_EQ(best(*many, kReplyTopK, 17), 64u);
  EXPECT_EQ(best(*many, kReplyTopK, 65), kMaxBest);
  EXPECT_EQ(best(*many, kReplyTopK, kMaxBest), kMaxBest);
  EXPECT_EQ(best(*many, kReplyTopK, kMaxBest + 1), 0u);
}

TEST(ReplyWriterTest, TakesTheFirstOfTheBestOutputs) {
  const auto six = Six();
  test::PlainMemory memory;
  const std::unique_ptr<Slab> slab = *Slab::Create({.rows = 2, .entries = 1, .results = 8}, memory);
  slab->Open(std::make_shared<LoadedModel>(six, std::vector<std::unique_ptr<ResidentModel>>(), false), {.best = 4});
  const Segment segment = *slab->Claim(2, 0, 0);
  slab->Seal();
  const std::vector<uint32_t> outputs = {5, 4, 3, 2, 1, 0, 2, 3};
  const std::vector<float> scores = {9, 8, 7, std::numeric_limits<float>::infinity(), 4, 3, 2, 1};
  std::copy(outputs.begin(), outputs.end(), slab->view().best_outputs);
  std::copy(scores.begin(), scores.end(), slab->view().best_scores);

  ReplyWriter writer;
  writer.Start({six.get(), "1", 2, kReplyTopK | kReplyLabels, 3});
  writer.Add(*slab, segment, 0);
  EXPECT_TRUE(writer.Check().ok());  // the one beyond float32 is not shown
  const v1::ScoreReply reply = Parse(writer.Finish(0, nullptr));
  EXPECT_EQ(std::vector<uint32_t>(reply.top_outputs().begin(), reply.top_outputs().end()),
            (std::vector<uint32_t>{5, 4, 3, 1, 0, 2}));
  EXPECT_EQ(std::vector<float>(reply.top_scores().begin(), reply.top_scores().end()),
            (std::vector<float>{9, 8, 7, 4, 3, 2}));
  EXPECT_EQ(reply.labels(0), "f");
  EXPECT_EQ(reply.labels(1), "b");

  writer.Start({six.get(), "1", 2, kReplyTopK, 4});
  writer.Add(*slab, segment, 0);
  EXPECT_NE(std::string(writer.Check().message()).find("row 0, output 2"), std::string::npos) << writer.Check();
}

TEST(ReplyWriterTest, CarriesStageTimes) {
  const auto model = test::R4();
  ReplyWriter writer;
  writer.Start({model.get(), "1", 0, kReplyScores, 0});
  v1::StageTimes times;
  times.set_queue_ns(7);
  times.set_device("cpu");
  const v1::ScoreReply reply = Parse(writer.Finish(0, &times));
  EXPECT_EQ(reply.stage_times().queue_ns(), 7u);
  EXPECT_EQ(reply.stage_times().device(), "cpu");
}

TEST(ReplyWriterTest, PromisesNoFewerBytesThanItWrites) {
  const auto model = test::R4();
  const ReplyShape shape{model.get(), "1", 0, kReplyScores, 0, 1};
  ReplyWriter writer;
  writer.Start(shape);
  EXPECT_LE(writer.Finish(0, nullptr).size(), ReplyBytes(shape));
}

TEST(ReplyWriterTest, ChecksWhatTheModelCanGive) {
  const auto identity = test::Id1();
  EXPECT_EQ(CheckReplyShape({identity.get(), "1", 1, kReplyLabels, 0}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CheckReplyShape({identity.get(), "1", 1, kReplyProbabilities, 0}).code(),
            absl::StatusCode::kFailedPrecondition);
  for (const uint32_t k : {0, 2}) {
    EXPECT_EQ(ErrorField(CheckReplyShape({identity.get(), "1", 1, kReplyTopK, k})), "top_k");
  }
  EXPECT_TRUE(CheckReplyShape({identity.get(), "1", 1, kReplyTopK | kReplyScores | kReplyRaw, 1}).ok());
}

}  // namespace
}  // namespace widelane
