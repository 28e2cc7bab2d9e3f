// Writes a ScoreReply: arrays go from the slab straight into the bytes that are sent.

#ifndef WIDELANE_SERVER_FRONT_REPLY_WRITER_H_
#define WIDELANE_SERVER_FRONT_REPLY_WRITER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/support/slice.h"
#include "widelane/engine/model.h"
#include "widelane/engine/slab.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane {

// What a reply looks like; known before anything is scored.
struct ReplyShape {
  const Model* model = nullptr;
  absl::string_view version;
  uint64_t rows = 0;
  uint8_t outputs = 0;  // kReply...
  uint32_t top_k = 0;
  uint64_t longest_label = 0;  // bytes
};

// FAILED_PRECONDITION for labels or probabilities the model does not have, INVALID_ARGUMENT for a top_k it cannot give.
absl::Status CheckReplyShape(const ReplyShape& shape);
// The kind of batch for a reply that shows no more of a row than its label and its best outputs: how many of these the
// engine is to pick, rounded up so that different requests share batches. 0: the engine must give all outputs. `shape`
// has been checked.
uint32_t BestWanted(const ReplyShape& shape);
// What the engine must compute of all outputs (kWantScores, kWantRaw).
uint8_t EngineWants(const Model& model, uint8_t outputs);
// Bytes the reply will have, a little more at most.
uint64_t ReplyBytes(const ReplyShape& shape);

// The bytes of a ScoreReply.
struct ReplySlices {
  std::array<grpc::Slice, 2> slices;
  size_t count = 0;

  size_t size() const;
};

class ReplyWriter {
 public:
  // Makes room. `shape` has been checked, and its reply is below 2 GiB; model and version outlive the reply.
  void Start(const ReplyShape& shape);
  // Writes the results of a segment whose first row is `first_row`, of a batch that has all outputs or as many of the
  // best as BestWanted says. Different segments may be written at once.
  void Add(const Slab& slab, const Segment& segment, uint64_t first_row);
  // After all rows: OUT_OF_RANGE naming row and output if a score is not finite.
  absl::Status Check() const;
  // The reply; `times` may be null. Ends the writer until the next Start.
  ReplySlices Finish(uint64_t ignored_features, const v1::StageTimes* times);
  // Gives memory back after an error.
  void Reset();

 private:
  static constexpr uint64_t kAllFinite = ~uint64_t{0};

  template <typename T>
  uint8_t* WriteArrayHeader(int field, uint64_t count, uint8_t* at, uint8_t*& array);
  void AddScores(const Slab& slab, const Segment& segment, uint64_t first_row);
  void AddProbabilities(const Slab& slab, const Segment& segment, uint64_t first_row);
  void AddTopK(const Slab& slab, const Segment& segment, uint64_t first_row);
  void AddBest(const Slab& slab, const Segment& segment, uint64_t first_row);
  void NoteNotFinite(uint64_t position);
  size_t TailBytes(uint64_t ignored_features, size_t times_bytes) const;
  uint8_t* WriteTail(uint64_t ignored_features, const v1::StageTimes* times, size_t times_bytes, uint8_t* at) const;

  ReplyShape shape_;
  uint32_t outputs_ = 0;        // of the model
  uint32_t probabilities_ = 0;  // a row
  grpc::Slice head_;            // all fields of known size, and where their arrays lie in it
  uint8_t* scores_ = nullptr;
  uint8_t* raw_ = nullptr;
  uint8_t* probability_array_ = nullptr;
  uint8_t* top_scores_ = nullptr;
  std::vector<uint32_t> labels_;                  // [rows]
  std::vector<uint32_t> top_outputs_;             // [rows][top_k]
  std::atomic<uint64_t> not_finite_{kAllFinite};  // row * outputs + output of the first score beyond float32
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_REPLY_WRITER_H_
