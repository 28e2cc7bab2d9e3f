#include "server/observe/trace/recording.h"

#include <algorithm>
#include <new>
#include <utility>

namespace widelane {

namespace {

std::atomic<uint64_t> last_id{0};

}  // namespace

std::unique_ptr<Recording> Recording::Create(size_t bytes) {
  const size_t blocks = std::max<size_t>(1, bytes / kBlockBytes);
  // Not initialised: what is not written takes no memory.
  std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[blocks * kBlockBytes]);
  if (memory == nullptr) return nullptr;
  return std::unique_ptr<Recording>(new Recording(std::move(memory), blocks));
}

Recording::Recording(std::unique_ptr<std::byte[]> memory, size_t blocks)
    : id_(last_id.fetch_add(1) + 1), memory_(std::move(memory)), blocks_(blocks) {}

std::byte* Recording::Reserve(size_t bytes) {
  // A block of another recording is not looked at: its memory may be gone.
  struct Own {
    uint64_t recording = 0;
    Block* block = nullptr;
  };
  thread_local Own own;
  if (own.recording != id_) own = {id_, TakeBlock()};
  if (own.block != nullptr && own.block->used + bytes > kBlockBytes - sizeof(Block)) own.block = TakeBlock();
  if (own.block == nullptr) {
    dropped_.Add(1);
    return nullptr;
  }
  std::byte* const at = reinterpret_cast<std::byte*>(own.block + 1) + own.block->used;
  own.block->used += bytes;
  return at;
}

Recording::Block* Recording::TakeBlock() {
  size_t index = taken_.load(std::memory_order_relaxed);
  do {
    if (index >= blocks_) return nullptr;
  } while (!taken_.compare_exchange_weak(index, index + 1, std::memory_order_relaxed));
  return new (BlockAt(index)) Block{0};
}

}  // namespace widelane
