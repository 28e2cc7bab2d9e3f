#include "server/front/reply_writer.h"

#include <gtest/gtest.h>

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

v1::ScoreReply Parse(const grpc::ByteBuffer& buffer) {
  grpc::Slice bytes;
  EXPECT_TRUE(buffer.DumpToSingleSlice(&bytes).ok());
  v1::ScoreReply reply;
  EXPECT_TRUE(reply.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size())));
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
    slab_->Open(std::make_shared<LoadedModel>(model, std::vector<std::unique_ptr<ResidentModel>>()), false);
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
  EXPECT_LE(writer.Finish(0, nullptr).Length(), ReplyBytes(shape));
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
