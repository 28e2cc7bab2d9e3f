#include "widelane/engine/aligned_buffer.h"

#include <sys/mman.h>

namespace widelane {

namespace {
constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
}  // namespace

AlignedBuffer AlignedBuffer::Allocate(size_t bytes) {
  AlignedBuffer buffer;
  const size_t alignment = bytes >= 4 * kHugePage ? kHugePage : kAlignment;
  if (bytes > SIZE_MAX - alignment) return buffer;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  buffer.data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded)));
  if (buffer.data_ == nullptr) return buffer;
  // Advice only: without huge pages the weights are slower to reach, not wrong.
  if (alignment == kHugePage) madvise(buffer.data_.get(), rounded, MADV_HUGEPAGE);
  buffer.size_ = bytes;
  return buffer;
}

}  // namespace widelane
