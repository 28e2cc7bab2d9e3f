// Owned host memory for arrays of gigabytes: aligned to 64 bytes, not zeroed, asking for huge pages when large.

#ifndef WIDELANE_ENGINE_ALIGNED_BUFFER_H_
#define WIDELANE_ENGINE_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace widelane {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;

  // Empty (data() is null) when the memory cannot be had.
  static AlignedBuffer Allocate(size_t bytes);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };

  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_ALIGNED_BUFFER_H_
