#include "client/cli/bench_requests.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "client/cli/bench_data.h"
#include "client/cli/narrow_float.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane::cli {
namespace {

constexpr uint64_t kMostRequests = 256;
constexpr uint64_t kLeastRequests = 2;
constexpr uint64_t kPoolBytes = uint64_t{128} << 20;
// Of all requests together, since made rows have 32-bit offsets.
constexpr uint64_t kMostEntries = std::numeric_limits<uint32_t>::max();

// Their indices fit 16 bits.
constexpr uint64_t kShortFeatures = uint64_t{1} << 16;

// Entries `begin` to `end` of each row from `first` on.
struct Part {
  uint64_t first;
  uint64_t rows;
  uint64_t begin;
  uint64_t end;
};

// Writes into `array`, without a gap, a count of elements that need not be known before.
template <typename T>
class Writer {
 public:
  Writer(v1::Array& array, v1::ElementType type) : data_(*array.mutable_data()) { array.set_type(type); }
  void Add(T element) { data_.append(reinterpret_cast<const char*>(&element), sizeof(T)); }

 private:
  std::string& data_;
};

class Encoder {
 public:
  Encoder(const RequestOptions& options, const MadeRows& made)
      : options_(options), profile_(options.profile), made_(made) {}

  // The request of rows `first` and following.
  std::string Encode(uint64_t first) const {
    v1::ScoreRequest request;
    request.set_model(options_.model);
    request.set_version(options_.version);
    SetPriority(request);
    if (profile_.best > 0) {
      request.add_outputs(v1::TOP_K);
      request.set_top_k(profile_.best);
    }
    constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
    PutRows({first, options_.rows, options_.context ? profile_.context : 0, kAll}, 1, *request.mutable_rows());
    if (options_.context) PutContexts(first, request);
    return request.SerializeAsString();
  }

 private:
  void SetPriority(v1::ScoreRequest& request) const {
    if (options_.priority == "high") request.set_priority(v1::HIGH);
    if (options_.priority == "normal") request.set_priority(v1::NORMAL);
    if (options_.priority == "low") request.set_priority(v1::LOW);
  }

  void PutContexts(uint64_t first, v1::ScoreRequest& request) const {
    const uint64_t shared = profile_.context_rows;
    const uint64_t first_context = first / shared;
    const uint64_t contexts = (first + options_.rows - 1) / shared - first_context + 1;
    PutRows({first, contexts, 0, profile_.context}, shared, *request.mutable_contexts());
    if (contexts == 1) return;
    Writer<uint16_t> of(*request.mutable_context_of(), v1::U16);
    for (uint64_t r = 0; r < options_.rows; ++r) of.Add(static_cast<uint16_t>((first + r) / shared - first_context));
  }

  // Every `step`-th row. A context begins before `first` if its rows do, but has the same entries in all of them.
  void PutRows(const Part& part, uint64_t step, v1::Rows& out) const {
    const auto row_of = [&](uint64_t i) { return i == 0 ? part.first : (part.first / step + i) * step; };
    const auto begin_of = [&](uint64_t row) { return std::min<uint64_t>(LengthOf(row), part.begin); };
    const auto end_of = [&](uint64_t row) { return std::min<uint64_t>(LengthOf(row), part.end); };
    const auto length_of = [&](uint64_t i) { return end_of(row_of(i)) - begin_of(row_of(i)); };
    uint64_t longest = 0;
    for (uint64_t i = 0; i < part.rows; ++i) longest = std::max(longest, length_of(i));
    if (longest <= std::numeric_limits<uint16_t>::max()) {
      Writer<uint16_t> lengths(*out.mutable_row_lengths(), v1::U16);
      for (uint64_t i = 0; i < part.rows; ++i) lengths.Add(static_cast<uint16_t>(length_of(i)));
    } else {
      Writer<uint32_t> lengths(*out.mutable_row_lengths(), v1::U32);
      for (uint64_t i = 0; i < part.rows; ++i) lengths.Add(static_cast<uint32_t>(length_of(i)));
    }
    for (uint64_t i = 0; i < part.rows; ++i) {
      const uint64_t start = made_.indptr[row_of(i)];
      PutEntries(start + begin_of(row_of(i)), start + end_of(row_of(i)), out);
    }
  }

  void PutEntries(uint64_t begin, uint64_t end, v1::Rows& out) const {
    if (profile_.features <= kShortFeatures) {
      Writer<uint16_t> indices(*out.mutable_indices(), v1::U16);
      for (uint64_t i = begin; i < end; ++i) indices.Add(static_cast<uint16_t>(made_.indices[i]));
    } else {
      Writer<uint32_t> indices(*out.mutable_indices(), v1::U32);
      for (uint64_t i = begin; i < end; ++i) indices.Add(made_.indices[i]);
    }
    if (profile_.values == Values::kFloat16) {
      Writer<uint16_t> values(*out.mutable_values(), v1::F16);
      for (uint64_t i = begin; i < end; ++i) values.Add(HalfOf(made_.values[i]));
    } else if (profile_.values == Values::kFloat32) {
      Writer<float> values(*out.mutable_values(), v1::F32);
      for (uint64_t i = begin; i < end; ++i) values.Add(made_.values[i]);
    }
  }

  static uint16_t HalfOf(float value) {
    uint16_t half = 0;
    StoreWeight(value, WeightType::kFloat16, reinterpret_cast<std::byte*>(&half));
    return half;
  }

  uint64_t LengthOf(uint64_t row) const { return made_.indptr[row + 1] - made_.indptr[row]; }

  const RequestOptions& options_;
  const BenchProfile& profile_;
  const MadeRows& made_;
};

uint64_t CountOf(const RequestOptions& options) {
  const uint64_t index_bytes = options.profile.features <= kShortFeatures ? sizeof(uint16_t) : sizeof(uint32_t);
  const uint64_t request_bytes = options.profile.EntriesOfRows(options.rows) * index_bytes + 1;
  return std::clamp(kPoolBytes / request_bytes, kLeastRequests, kMostRequests);
}

}  // namespace

absl::Status CheckRequests(const RequestOptions& options) {
  const BenchProfile& profile = options.profile;
  if (options.context && profile.context == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("context: rows of ", profile.name, " share no features; those of rank do"));
  }
  const uint64_t count = CountOf(options);
  if (const uint64_t entries = profile.EntriesOfRows(count * options.rows); entries > kMostEntries) {
    return absl::InvalidArgumentError(absl::StrCat("rows: ", count, " requests of ", options.rows, " rows have ",
                                                   entries, " entries, more than the ", kMostEntries, " there may be"));
  }
  return absl::OkStatus();
}

std::vector<grpc::Slice> EncodeRequests(const RequestOptions& options) {
  const uint64_t count = CountOf(options);
  const MadeRows made = MakeRows(options.profile, count * options.rows, options.seed);
  const Encoder encoder(options, made);
  std::vector<grpc::Slice> requests;
  for (uint64_t i = 0; i < count; ++i) requests.emplace_back(encoder.Encode(i * options.rows));
  return requests;
}

}  // namespace widelane::cli
