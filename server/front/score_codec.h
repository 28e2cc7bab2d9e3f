// Reads requests from their bytes without copying: arrays stay where they came in, and views are made over them.
//
// The bytes come as a stream of blocks, as networks deliver them. Unknown fields are skipped; a field that comes twice
// is merged as protobuf does. All functions may be called from any thread.

#ifndef WIDELANE_SERVER_FRONT_SCORE_CODEC_H_
#define WIDELANE_SERVER_FRONT_SCORE_CODEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/io/coded_stream.h"
#include "server/batching/score_task.h"
#include "server/config/config.h"
#include "server/front/field_reader.h"
#include "widelane/engine/csr.h"

namespace widelane {

// What a reply is to hold, as a set.
enum : uint8_t {
  kReplyScores = 1,
  kReplyRaw = 2,
  kReplyLabels = 4,
  kReplyProbabilities = 8,
  kReplyTopK = 16,
};

// What the arrays of a Rows message need besides its bytes. Kept between requests for its memory.
struct RowsMemory {
  // Arrays that came as plain fields.
  std::vector<int64_t> indptr;
  std::vector<int64_t> indices;
  std::vector<float> values;
  // Where the others lie, if not in one place.
  std::vector<ArrayPiece> indptr_pieces;
  std::vector<ArrayPiece> row_lengths_pieces;
  std::vector<ArrayPiece> indices_pieces;
  std::vector<ArrayPiece> values_pieces;
};

// Its views point into the message, and into the memory at its end.
struct ScoreRequestView {
  ScoreRequestView() = default;
  ScoreRequestView(const ScoreRequestView&) = delete;
  ScoreRequestView& operator=(const ScoreRequestView&) = delete;

  // Gives memory back that only a large request needs.
  void Trim();

  absl::string_view model;
  absl::string_view version;
  CsrView csr;
  std::optional<RowContexts> contexts;
  uint8_t outputs = kReplyScores;
  uint32_t top_k = 0;
  bool stage_times = false;
  Priority priority = Priority::kNormal;

  RowsMemory rows_memory;
  RowsMemory contexts_memory;
  std::vector<uint32_t> context_of;
  std::vector<ArrayPiece> context_of_pieces;
  std::string model_text;  // a name that does not lie in one place
  std::string version_text;
};

struct StreamRequestView {
  uint64_t id = 0;
  uint32_t timeout_ms = 0;
  absl::Status error;  // what is wrong with it
  ScoreRequestView request;
};

// Up to this many elements of any list, or bytes of a name, are part of what any request costs; more are paid for.
inline constexpr size_t kFreeElements = 1024;

// Asked before that many bytes more than the message has are taken; an error ends the decoding.
using TakeMemory = absl::FunctionRef<absl::Status(uint64_t bytes)>;

// Fills `request` with views into the next `size` bytes of `in`, which it has; they must stay where they are as long as
// the views are used.
// Errors: INVALID_ARGUMENT naming the field; RESOURCE_EXHAUSTED naming the limit for more rows or entries, contexts
// included, than `limits` allow; what `take` says. After an error `request` is undefined but may be used again.
absl::Status DecodeScoreRequest(google::protobuf::io::CodedInputStream& in, int size, const LimitsConfig& limits,
                                TakeMemory take, ScoreRequestView& request);
// The same for a StreamRequest, of which the error becomes a part. If there is one before, the request is passed over.
void DecodeStreamRequest(google::protobuf::io::CodedInputStream& in, int size, const LimitsConfig& limits,
                         TakeMemory take, StreamRequestView& message);

// Walks a StreamRequests message.
class StreamRequestsReader {
 public:
  // The message is the next `size` bytes of `in`, which it has.
  StreamRequestsReader(google::protobuf::io::CodedInputStream& in, int size) : in_(in), scope_(in, size), fields_(in) {}

  // Goes to the next request. False when there is none, or where the bytes are not such a message: see broken().
  bool Next();
  bool broken() const { return fields_.broken(); }

  // Of the current request: where the field with it begins in `in`, how many bytes it has, and whether the message ends
  // with it.
  int begin() const { return begin_; }
  int size() const { return size_; }
  bool is_last() const { return in_.BytesUntilLimit() == size_; }
  // Calls `read`, once, with its bytes, of which it may leave some.
  void Read(absl::FunctionRef<void(google::protobuf::io::CodedInputStream& in, int size)> read);

 private:
  google::protobuf::io::CodedInputStream& in_;
  const MessageScope scope_;
  FieldReader fields_;
  int begin_ = 0;
  int size_ = 0;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_SCORE_CODEC_H_
