// A first-in, first-out queue of fixed size.

#ifndef WIDELANE_ENGINE_SRC_RING_H_
#define WIDELANE_ENGINE_SRC_RING_H_

#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

namespace widelane {

// Not for several threads at once.
template <typename T>
class Ring {
 public:
  explicit Ring(size_t capacity) : items_(capacity) {}

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  // There is room: whoever sized the ring counted all there can be.
  void Push(T item) {
    if (size_ == items_.size()) std::abort();
    items_[(head_ + size_) % items_.size()] = std::move(item);
    ++size_;
  }

  // Not empty.
  T Pop() {
    T item = std::move(items_[head_]);
    head_ = (head_ + 1) % items_.size();
    --size_;
    return item;
  }

 private:
  std::vector<T> items_;
  size_t head_ = 0;
  size_t size_ = 0;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_RING_H_
