#include "server/front/reply_writer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "server/front/score_codec.h"
#include "widelane/engine/errors.h"
#include "widelane/engine/outputs.h"
#include "widelane/engine/route.h"

namespace widelane {

namespace {

using google::protobuf::io::CodedOutputStream;
using v1::ScoreReply;

constexpr uint32_t kVarint = 0;
constexpr uint32_t kLengthDelimited = 2;
constexpr size_t kMostHeader = 1 + 10;  // tag (all fields are below 16) and a varint

uint8_t* WriteTag(int field, uint32_t wire_type, uint8_t* at) {
  return CodedOutputStream::WriteTagToArray(static_cast<uint32_t>(field) << 3 | wire_type, at);
}

uint8_t* WriteNumber(int field, uint64_t value, uint8_t* at) {
  return CodedOutputStream::WriteVarint64ToArray(value, WriteTag(field, kVarint, at));
}

uint8_t* WriteString(int field, absl::string_view text, uint8_t* at) {
  at = CodedOutputStream::WriteVarint64ToArray(text.size(), WriteTag(field, kLengthDelimited, at));
  return CodedOutputStream::WriteRawToArray(text.data(), static_cast<int>(text.size()), at);
}

size_t StringBytes(absl::string_view text) { return 1 + CodedOutputStream::VarintSize64(text.size()) + text.size(); }

absl::string_view PositiveLabel(const Model& model) {
  return model.outputs() == 1 && model.labels().size() == 2 ? absl::string_view(model.labels()[1])
                                                            : absl::string_view();
}

// By the bits, so that the compiler can do many at a time.
bool AllFinite(const float* numbers, size_t count) {
  constexpr uint32_t kExponent = 0x7F800000;
  uint32_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, numbers + i, sizeof(bits));
    bad |= static_cast<uint32_t>((bits & kExponent) == kExponent);
  }
  return bad == 0;
}

size_t HeadBytes(const ReplyShape& shape) {
  const uint64_t outputs = shape.model->outputs();
  size_t bytes = StringBytes(shape.version) + StringBytes(PositiveLabel(*shape.model)) + 2 * kMostHeader;
  if ((shape.outputs & kReplyScores) != 0) bytes += kMostHeader + shape.rows * outputs * sizeof(float);
  if ((shape.outputs & kReplyRaw) != 0) bytes += kMostHeader + shape.rows * outputs * sizeof(double);
  if ((shape.outputs & kReplyProbabilities) != 0) {
    bytes += kMostHeader + shape.rows * ProbabilityCount(*shape.model) * sizeof(float);
  }
  if ((shape.outputs & kReplyTopK) != 0) bytes += kMostHeader + shape.rows * shape.top_k * sizeof(float);
  return bytes;
}

}  // namespace

absl::Status CheckReplyShape(const ReplyShape& shape) {
  const Model& model = *shape.model;
  if ((shape.outputs & kReplyLabels) != 0 && model.labels().empty()) {
    return absl::FailedPreconditionError("outputs: LABELS is asked of a model that has no labels");
  }
  if ((shape.outputs & kReplyProbabilities) != 0) {
    if (absl::Status status = CheckHasProbabilities(model); !status.ok()) return status;
  }
  if ((shape.outputs & kReplyTopK) != 0 && (shape.top_k == 0 || shape.top_k > model.outputs())) {
    return FieldError("top_k",
                      absl::StrCat("is ", shape.top_k, ", it may be 1 to the model's ", model.outputs(), " outputs"));
  }
  return absl::OkStatus();
}

uint32_t BestWanted(const ReplyShape& shape) {
  constexpr uint8_t kOfTheBest = kReplyLabels | kReplyTopK;
  constexpr std::array<uint32_t, 5> kSteps = {1, 4, 16, 64, kMaxBest};
  const uint32_t outputs = shape.model->outputs();
  if ((shape.outputs & ~kOfTheBest) != 0) return 0;
  const uint32_t k = (shape.outputs & kReplyTopK) != 0 ? shape.top_k : 1;
  if (k >= outputs || k > kMaxBest) return 0;
  return std::min(*std::lower_bound(kSteps.begin(), kSteps.end(), k), outputs);
}

uint8_t EngineWants(const Model& model, uint8_t outputs) {
  uint8_t wants = 0;
  if ((outputs & (kReplyScores | kReplyTopK)) != 0) wants |= kWantScores;
  if ((outputs & (kReplyRaw | kReplyLabels | kReplyTopK)) != 0) wants |= kWantRaw;
  if ((outputs & kReplyProbabilities) != 0) wants |= model.outputs() > 1 ? kWantScores : kWantRaw;
  return wants;
}

size_t ReplySlices::size() const {
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += slices[i].size();
  return bytes;
}

uint64_t ReplyBytes(const ReplyShape& shape) {
  constexpr uint64_t kTimes = 256;
  uint64_t bytes = HeadBytes(shape) + kTimes;
  if ((shape.outputs & kReplyLabels) != 0) bytes += shape.rows * (kMostHeader + shape.longest_label);
  if ((shape.outputs & kReplyTopK) != 0) bytes += shape.rows * shape.top_k * 4;  // a varint below 2^28
  return bytes;
}

template <typename T>
uint8_t* ReplyWriter::WriteArrayHeader(int field, uint64_t count, uint8_t* at, uint8_t*& array) {
  at = CodedOutputStream::WriteVarint64ToArray(count * sizeof(T), WriteTag(field, kLengthDelimited, at));
  array = at;
  return at + count * sizeof(T);
}

void ReplyWriter::Start(const ReplyShape& shape) {
  shape_ = shape;
  outputs_ = shape.model->outputs();
  scores_ = raw_ = probability_array_ = top_scores_ = nullptr;
  labels_.clear();
  top_outputs_.clear();
  not_finite_.store(kAllFinite, std::memory_order_relaxed);

  // _large: never stored inside the slice object, so the bytes stay where they are when it moves.
  grpc_slice slice = grpc_slice_malloc_large(HeadBytes(shape));
  uint8_t* const begin = GRPC_SLICE_START_PTR(slice);
  uint8_t* at = WriteString(ScoreReply::kVersionFieldNumber, shape.version, begin);
  at = WriteNumber(ScoreReply::kRowsFieldNumber, shape.rows, at);
  at = WriteNumber(ScoreReply::kOutputsFieldNumber, outputs_, at);
  if (const absl::string_view label = PositiveLabel(*shape.model); !label.empty()) {
    at = WriteString(ScoreReply::kPositiveLabelFieldNumber, label, at);
  }
  const uint64_t numbers = shape.rows * outputs_;
  if ((shape.outputs & kReplyScores) != 0) {
    at = WriteArrayHeader<float>(ScoreReply::kScoresFieldNumber, numbers, at, scores_);
  }
  if ((shape.outputs & kReplyRaw) != 0) {
    at = WriteArrayHeader<double>(ScoreReply::kRawFieldNumber, numbers, at, raw_);
  }
  if ((shape.outputs & kReplyProbabilities) != 0) {
    probabilities_ = ProbabilityCount(*shape.model);
    at = WriteArrayHeader<float>(ScoreReply::kProbabilitiesFieldNumber, shape.rows * probabilities_, at,
                                 probability_array_);
  }
  if ((shape.outputs & kReplyTopK) != 0) {
    at = WriteArrayHeader<float>(ScoreReply::kTopScoresFieldNumber, shape.rows * shape.top_k, at, top_scores_);
    top_outputs_.resize(shape.rows * shape.top_k);
  }
  if ((shape.outputs & kReplyLabels) != 0) labels_.resize(shape.rows);
  // Not Slice::sub, which copies what is short: the arrays are yet to be written.
  GRPC_SLICE_SET_LENGTH(slice, static_cast<size_t>(at - begin));
  head_ = grpc::Slice(slice, grpc::Slice::STEAL_REF);
}

void ReplyWriter::NoteNotFinite(uint64_t position) {
  uint64_t first = not_finite_.load(std::memory_order_relaxed);
  while (position < first && !not_finite_.compare_exchange_weak(first, position, std::memory_order_relaxed)) {
  }
}

void ReplyWriter::Add(const Slab& slab, const Segment& segment, uint64_t first_row) {
  if (segment.rows == 0) return;
  if (slab.kind().best > 0) return AddBest(slab, segment, first_row);
  if (scores_ != nullptr) AddScores(slab, segment, first_row);
  if (raw_ != nullptr) {
    std::memcpy(raw_ + first_row * outputs_ * sizeof(double), slab.raw(segment.first_row),
                size_t{segment.rows} * outputs_ * sizeof(double));
  }
  if (!labels_.empty()) {
    for (uint32_t row = 0; row < segment.rows; ++row) {
      labels_[first_row + row] = LabelOf(*shape_.model, slab.raw(segment.first_row + row));
    }
  }
  if (probability_array_ != nullptr) AddProbabilities(slab, segment, first_row);
  if (top_scores_ != nullptr) AddTopK(slab, segment, first_row);
}

void ReplyWriter::AddScores(const Slab& slab, const Segment& segment, uint64_t first_row) {
  const float* scores = slab.scores(segment.first_row);
  const size_t count = size_t{segment.rows} * outputs_;
  std::memcpy(scores_ + first_row * outputs_ * sizeof(float), scores, count * sizeof(float));
  if (AllFinite(scores, count)) return;
  const float* bad = std::find_if_not(scores, scores + count, [](float score) { return std::isfinite(score); });
  NoteNotFinite(first_row * outputs_ + static_cast<uint64_t>(bad - scores));
}

void ReplyWriter::AddProbabilities(const Slab& slab, const Segment& segment, uint64_t first_row) {
  const size_t row_bytes = probabilities_ * sizeof(float);
  uint8_t* const to = probability_array_ + first_row * row_bytes;
  if (outputs_ > 1) {
    // The scores are the probabilities; the device has done the work.
    std::memcpy(to, slab.scores(segment.first_row), segment.rows * row_bytes);
    return;
  }
  for (uint32_t row = 0; row < segment.rows; ++row) {
    std::array<float, 2> both{};
    Probabilities(*shape_.model, slab.raw(segment.first_row + row), both.data());
    std::memcpy(to + row * row_bytes, both.data(), row_bytes);
  }
}

void ReplyWriter::AddTopK(const Slab& slab, const Segment& segment, uint64_t first_row) {
  thread_local std::vector<uint32_t> scratch;
  if (scratch.size() < outputs_) scratch.resize(outputs_);
  for (uint32_t row = 0; row < segment.rows; ++row) {
    const size_t at = (first_row + row) * shape_.top_k;
    TopK(slab.raw(segment.first_row + row), outputs_, shape_.top_k, scratch.data(), top_outputs_.data() + at);
    const float* scores = slab.scores(segment.first_row + row);
    for (uint32_t i = 0; i < shape_.top_k; ++i) {
      const uint32_t output = top_outputs_[at + i];
      if (!std::isfinite(scores[output])) NoteNotFinite((first_row + row) * outputs_ + output);
      std::memcpy(top_scores_ + (at + i) * sizeof(float), scores + output, sizeof(float));
    }
  }
}

void ReplyWriter::AddBest(const Slab& slab, const Segment& segment, uint64_t first_row) {
  for (uint32_t row = 0; row < segment.rows; ++row) {
    const uint32_t* outputs = slab.best_outputs(segment.first_row + row);
    if (!labels_.empty()) labels_[first_row + row] = outputs[0];
    if (top_scores_ == nullptr) continue;
    const size_t at = (first_row + row) * shape_.top_k;
    const float* scores = slab.best_scores(segment.first_row + row);
    std::copy_n(outputs, shape_.top_k, top_outputs_.data() + at);
    std::memcpy(top_scores_ + at * sizeof(float), scores, shape_.top_k * sizeof(float));
    for (uint32_t i = 0; i < shape_.top_k; ++i) {
      if (!std::isfinite(scores[i])) NoteNotFinite((first_row + row) * outputs_ + outputs[i]);
    }
  }
}

absl::Status ReplyWriter::Check() const {
  const uint64_t position = not_finite_.load(std::memory_order_relaxed);
  if (position == kAllFinite) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("row ", position / outputs_, ", output ", position % outputs_,
                                            ": the score is beyond float32; its raw sum can be had with RAW"));
}

size_t ReplyWriter::TailBytes(uint64_t ignored_features, size_t times_bytes) const {
  size_t bytes = 0;
  for (const uint32_t label : labels_) bytes += StringBytes(shape_.model->labels()[label]);
  if (!top_outputs_.empty()) bytes += kMostHeader;
  for (const uint32_t output : top_outputs_) bytes += CodedOutputStream::VarintSize32(output);
  if (ignored_features > 0) bytes += kMostHeader;
  if (times_bytes > 0) bytes += kMostHeader + times_bytes;
  return bytes;
}

uint8_t* ReplyWriter::WriteTail(uint64_t ignored_features, const v1::StageTimes* times, size_t times_bytes,
                                uint8_t* at) const {
  for (const uint32_t label : labels_)
    at = WriteString(ScoreReply::kLabelsFieldNumber, shape_.model->labels()[label], at);
  if (!top_outputs_.empty()) {
    size_t bytes = 0;
    for (const uint32_t output : top_outputs_) bytes += CodedOutputStream::VarintSize32(output);
    at = CodedOutputStream::WriteVarint64ToArray(bytes,
                                                 WriteTag(ScoreReply::kTopOutputsFieldNumber, kLengthDelimited, at));
    for (const uint32_t output : top_outputs_) at = CodedOutputStream::WriteVarint32ToArray(output, at);
  }
  if (ignored_features > 0) at = WriteNumber(ScoreReply::kIgnoredFeaturesFieldNumber, ignored_features, at);
  if (times != nullptr) {
    at = WriteTag(ScoreReply::kStageTimesFieldNumber, kLengthDelimited, at);
    at = CodedOutputStream::WriteVarint64ToArray(times_bytes, at);
    times->SerializeToArray(at, static_cast<int>(times_bytes));
    at += times_bytes;
  }
  return at;
}

ReplySlices ReplyWriter::Finish(uint64_t ignored_features, const v1::StageTimes* times) {
  const size_t times_bytes = times == nullptr ? 0 : times->ByteSizeLong();
  const size_t tail_bytes = TailBytes(ignored_features, times_bytes);
  ReplySlices reply;
  reply.slices[reply.count++] = std::move(head_);
  if (tail_bytes > 0) {
    grpc_slice slice = grpc_slice_malloc_large(tail_bytes);
    uint8_t* const begin = GRPC_SLICE_START_PTR(slice);
    const uint8_t* end = WriteTail(ignored_features, times, times_bytes, begin);
    GRPC_SLICE_SET_LENGTH(slice, static_cast<size_t>(end - begin));
    reply.slices[reply.count++] = grpc::Slice(slice, grpc::Slice::STEAL_REF);
  }
  Reset();
  return reply;
}

void ReplyWriter::Reset() {
  constexpr size_t kMostKept = 1 << 16;
  head_ = grpc::Slice();
  if (labels_.capacity() > kMostKept) std::vector<uint32_t>().swap(labels_);
  if (top_outputs_.capacity() > kMostKept) std::vector<uint32_t>().swap(top_outputs_);
}

}  // namespace widelane
