// Messages in blocks, as networks deliver them, and what must hold of a request that was read from them.

#ifndef WIDELANE_TESTS_FUZZ_CODEC_BLOCKS_H_
#define WIDELANE_TESTS_FUZZ_CODEC_BLOCKS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "google/protobuf/io/zero_copy_stream.h"
#include "server/front/score_codec.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/packing.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane::test {

// Each block is an allocation of its own, so that the address sanitizer sees a view past its end.
class Blocks : public google::protobuf::io::ZeroCopyInputStream {
 public:
  Blocks(const uint8_t* data, size_t size, uint32_t seed) {
    for (size_t begin = 0; begin < size;) {
      // Most are small, some empty, a few as large as can be.
      seed = seed * 1664525 + 1013904223;
      const size_t most = (seed >> 30) == 0 ? size : 1 + ((seed >> 20) & 31);
      const size_t length = std::min<size_t>((seed >> 8) % (most + 1), size - begin);
      blocks_.emplace_back(data + begin, data + begin + length);
      begin += length;
    }
  }

  bool Next(const void** data, int* size) override {
    if (next_ == blocks_.size()) return false;
    const std::vector<uint8_t>& block = blocks_[next_++];
    *data = block.data() + offset_;
    *size = static_cast<int>(block.size() - offset_);
    count_ += *size;
    offset_ = 0;
    return true;
  }
  void BackUp(int /*count*/) override {}  // only of what nobody reads any more
  bool Skip(int count) override {
    for (auto left = static_cast<size_t>(count); left > 0;) {
      if (next_ == blocks_.size()) return false;
      const size_t step = std::min(left, blocks_[next_].size() - offset_);
      left -= step;
      offset_ += step;
      count_ += static_cast<int64_t>(step);
      if (offset_ < blocks_[next_].size()) continue;
      ++next_;
      offset_ = 0;
    }
    return true;
  }
  int64_t ByteCount() const override { return count_; }

 private:
  std::vector<std::vector<uint8_t>> blocks_;
  size_t next_ = 0;
  size_t offset_ = 0;  // in that block
  int64_t count_ = 0;
};

inline LimitsConfig FuzzCodecLimits() {
  LimitsConfig limits;
  limits.max_request_rows = 256;
  limits.max_request_entries = 1024;
  return limits;
}

inline void CheckArray(const v1::Array& parsed, const TypedArray& array) {
  const size_t bytes = array.count * ElementSize(array.type);
  FUZZ_CHECK(bytes == parsed.data().size());
  for (size_t i = 0; i < array.pieces.size(); ++i) {
    const size_t begin = array.pieces[i].begin;
    const size_t end = i + 1 < array.pieces.size() ? array.pieces[i + 1].begin : bytes;
    FUZZ_CHECK(begin < end && end <= bytes);
    FUZZ_CHECK(parsed.data().compare(begin, end - begin, reinterpret_cast<const char*>(array.pieces[i].data),
                                     end - begin) == 0);
  }
  if (array.pieces.empty() && bytes > 0) {
    FUZZ_CHECK(parsed.data().compare(0, bytes, reinterpret_cast<const char*>(array.data), bytes) == 0);
  }
}

inline void CheckRows(const v1::Rows& parsed, const CsrView& csr) {
  FUZZ_CHECK(csr.features.value_or(0) == parsed.features());
  if (parsed.has_indices()) {
    CheckArray(parsed.indices(), csr.indices);
  } else {
    FUZZ_CHECK(csr.indices.count == static_cast<size_t>(parsed.plain_indices_size()));
  }
  if (parsed.has_values()) CheckArray(parsed.values(), *csr.values);
  if (parsed.has_row_lengths()) CheckArray(parsed.row_lengths(), *csr.row_lengths);
  if (parsed.has_indptr()) CheckArray(parsed.indptr(), *csr.indptr);
}

// `request` is what the codec made of a message that protobuf's own parser reads as `parsed`.
inline void CheckRequest(const v1::ScoreRequest& parsed, const ScoreRequestView& request) {
  FUZZ_CHECK(request.model == parsed.model());
  FUZZ_CHECK(request.version == parsed.version());
  FUZZ_CHECK(request.top_k == parsed.top_k());
  FUZZ_CHECK(request.stage_times == parsed.stage_times());
  CheckRows(parsed.rows(), request.csr);
  FUZZ_CHECK(request.contexts.has_value() == parsed.has_contexts());
  if (!request.contexts.has_value()) return;
  CheckRows(parsed.contexts(), request.contexts->features);
  if (parsed.has_context_of()) CheckArray(parsed.context_of(), *request.contexts->of);
}

// What the engine makes of it.
inline void UseRequest(const ScoreRequestView& request) {
  const auto shape = CheckShape(request.csr, kFuzzLimits);
  if (!shape.ok()) return;
  PackIntoEveryModel(request.csr, *shape);
  if (request.contexts.has_value()) (void)CheckContexts(*request.contexts, request.csr, kFuzzLimits);
}

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_FUZZ_CODEC_BLOCKS_H_
