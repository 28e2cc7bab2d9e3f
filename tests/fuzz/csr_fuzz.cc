// CheckShape, CheckContexts, ContextSums and PackRows over hostile CSR arrays of every type, in one piece and in many:
// both give the same.
//
// The input: a byte of flags, a byte of types for each array, two bytes for the declared width, then the arrays, each
// with its length in bytes (two bytes) in front. Then the same for contexts, the last array that of the rows' contexts,
// and a seed for the sizes of pieces.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/in_pieces.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/packing.h"
#include "widelane/engine/csr.h"
#include "widelane/engine/errors.h"

namespace {

using widelane::CsrView;
using widelane::ElementType;
using widelane::RowContexts;
using widelane::TypedArray;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  size_t Short() {
    const size_t low = Byte();
    return low | static_cast<size_t>(Byte()) << 8;
  }
  // In memory of its own, so that the address sanitizer sees its ends; not aligned.
  std::vector<std::byte> Bytes() {
    const size_t count = std::min(Short(), size_);
    std::vector<std::byte> bytes(count);
    if (count > 0) std::memcpy(bytes.data(), data_, count);
    data_ += count;
    size_ -= count;
    return bytes;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

TypedArray ArrayOf(uint8_t type, const std::vector<std::byte>& bytes) {
  const auto element = static_cast<ElementType>(type % 7);
  return {element, bytes.data(), bytes.size() / widelane::ElementSize(element)};
}

// Arrays of rows or contexts, and their memory.
struct Arrays {
  explicit Arrays(Input& input) {
    const uint8_t flags = input.Byte();
    const uint8_t types[] = {input.Byte(), input.Byte(), input.Byte(), input.Byte()};
    const uint64_t features = input.Short();
    for (std::vector<std::byte>& array : bytes) array = input.Bytes();
    if ((flags & 1) != 0) csr.indptr = ArrayOf(types[0], bytes[0]);
    if ((flags & 2) != 0) csr.row_lengths = ArrayOf(types[1], bytes[1]);
    csr.indices = ArrayOf(types[2], bytes[2]);
    if ((flags & 4) != 0) csr.values = ArrayOf(types[3], bytes[3]);
    if ((flags & 8) != 0) csr.features = features;
    has_contexts = (flags & 16) != 0;
  }
  std::vector<std::byte> bytes[4];
  CsrView csr;
  bool has_contexts;
};

// Everything the engine says of some rows.
struct Outcome {
  std::string error;
  uint64_t digest = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome Refused(const absl::Status& status) {
  FUZZ_CHECK(absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status));
  FUZZ_CHECK(widelane::ErrorField(status).has_value() || absl::IsResourceExhausted(status));
  return {status.ToString(), 0};
}

Outcome OutcomeOf(const CsrView& csr, const RowContexts* contexts) {
  const auto shape = widelane::CheckShape(csr, widelane::test::kFuzzLimits);
  if (!shape.ok()) return Refused(shape.status());
  if (contexts != nullptr) {
    const auto of_contexts = widelane::CheckContexts(*contexts, csr, widelane::test::kFuzzLimits);
    if (!of_contexts.ok()) return Refused(of_contexts.status());
  }
  return {"", widelane::test::PackIntoEveryModel(csr, *shape, contexts)};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const Arrays rows(input);
  std::optional<Arrays> shared;
  std::optional<RowContexts> contexts;
  std::vector<std::byte> of;
  if (rows.has_contexts) {
    shared.emplace(input);
    contexts = RowContexts{shared->csr, std::nullopt};
    const uint8_t type = input.Byte();
    of = input.Bytes();
    if (type != 0) contexts->of = ArrayOf(type, of);
  }
  const Outcome whole = OutcomeOf(rows.csr, contexts.has_value() ? &*contexts : nullptr);

  std::minstd_rand random(static_cast<unsigned>(input.Short()) + 1);
  const uint64_t most = 1 + random() % 30;
  const auto next_size = [&] { return uint64_t{1} + random() % most; };
  widelane::test::InPieces pieces;
  const CsrView cut = pieces.Cut(rows.csr, next_size);
  if (contexts.has_value()) {
    contexts->features = pieces.Cut(contexts->features, next_size);
    contexts->of = pieces.Cut(contexts->of, next_size);
  }
  FUZZ_CHECK(OutcomeOf(cut, contexts.has_value() ? &*contexts : nullptr) == whole);
  return 0;
}
