// CheckShape and PackRows over hostile CSR arrays of every type.
//
// The input: a byte of flags, a byte of types for each array, two bytes for the declared width, then the arrays, each
// with its length in bytes (two bytes) in front.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "tests/fuzz/check.h"
#include "tests/fuzz/packing.h"
#include "widelane/engine/csr.h"
#include "widelane/engine/errors.h"

namespace {

using widelane::CsrView;
using widelane::ElementType;
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const uint8_t flags = input.Byte();
  const uint8_t types[] = {input.Byte(), input.Byte(), input.Byte(), input.Byte()};
  const uint64_t features = input.Short();
  const std::vector<std::byte> indptr = input.Bytes();
  const std::vector<std::byte> row_lengths = input.Bytes();
  const std::vector<std::byte> indices = input.Bytes();
  const std::vector<std::byte> values = input.Bytes();

  CsrView csr;
  if ((flags & 1) != 0) csr.indptr = ArrayOf(types[0], indptr);
  if ((flags & 2) != 0) csr.row_lengths = ArrayOf(types[1], row_lengths);
  csr.indices = ArrayOf(types[2], indices);
  if ((flags & 4) != 0) csr.values = ArrayOf(types[3], values);
  if ((flags & 8) != 0) csr.features = features;

  const auto shape = widelane::CheckShape(csr, widelane::test::kFuzzLimits);
  if (!shape.ok()) {
    FUZZ_CHECK(absl::IsInvalidArgument(shape.status()) || absl::IsResourceExhausted(shape.status()));
    FUZZ_CHECK(widelane::ErrorField(shape.status()).has_value() || absl::IsResourceExhausted(shape.status()));
    return 0;
  }
  widelane::test::PackIntoEveryModel(csr, *shape);
  return 0;
}
