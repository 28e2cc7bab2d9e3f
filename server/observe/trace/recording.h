// Memory for the records of one timeline: blocks of one allocation, of which each thread fills its own. So adding a
// record is a copy into memory that no other thread writes.

#ifndef WIDELANE_SERVER_OBSERVE_TRACE_RECORDING_H_
#define WIDELANE_SERVER_OBSERVE_TRACE_RECORDING_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "server/observe/stripes.h"
#include "server/observe/trace/records.h"

namespace widelane {

class Recording {
 public:
  static constexpr size_t kBlockBytes = size_t{16} << 10;

  // Room for `bytes` of records, at least a block. Null without memory.
  static std::unique_ptr<Recording> Create(size_t bytes);

  // Any thread, several at once. A record for which there is no room is dropped and counted.
  template <typename Record>
  void Add(Record record) {
    static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) % 8 == 0);
    static_assert(sizeof(Record) <= kBlockBytes - sizeof(Block));
    record.head = {Record::kKind, sizeof(Record)};
    if (std::byte* const at = Reserve(sizeof(Record))) std::memcpy(at, &record, sizeof(Record));
  }

  // The rest when nobody adds any more, and whoever did is known to be through.
  uint64_t dropped() const { return dropped_.Sum(); }
  // Calls `visit`, which takes every kind of record, with each of them; those of a thread in the order of their adding.
  template <typename Visitor>
  void ForEach(const Visitor& visit) const;

  // Of the recording itself; requests and batches with lesser numbers began before it.
  TracePoint start;
  TracePoint end;
  std::chrono::system_clock::time_point started_at;
  uint64_t first_request = 0;
  uint64_t first_batch = 0;
  uint64_t last_request = 0;
  uint64_t last_batch = 0;

 private:
  struct Block {
    uint64_t used;  // bytes behind this
  };

  Recording(std::unique_ptr<std::byte[]> memory, size_t blocks);
  // Null when all blocks are taken and the thread's own is full.
  std::byte* Reserve(size_t bytes);
  Block* TakeBlock();
  Block* BlockAt(size_t index) const { return reinterpret_cast<Block*>(memory_.get() + index * kBlockBytes); }
  template <typename Record, typename Visitor>
  static void Visit(const std::byte* at, const Visitor& visit);

  const uint64_t id_;  // no two have the same in the life of the process
  const std::unique_ptr<std::byte[]> memory_;
  const size_t blocks_;
  std::atomic<size_t> taken_{0};
  Striped<uint64_t> dropped_;
};

template <typename Record, typename Visitor>
void Recording::Visit(const std::byte* at, const Visitor& visit) {
  Record record;
  std::memcpy(&record, at, sizeof(record));
  visit(record);
}

template <typename Visitor>
void Recording::ForEach(const Visitor& visit) const {
  for (size_t i = 0; i < taken_.load(); ++i) {
    const Block* const block = BlockAt(i);
    const auto* at = reinterpret_cast<const std::byte*>(block + 1);
    const std::byte* const block_end = at + block->used;
    RecordHead head{};
    for (; at < block_end; at += head.bytes) {
      std::memcpy(&head, at, sizeof(head));
      switch (head.kind) {
        case RecordKind::kRequest:
          Visit<RequestRecord>(at, visit);
          break;
        case RecordKind::kSegment:
          Visit<SegmentRecord>(at, visit);
          break;
        case RecordKind::kBatch:
          Visit<BatchRecord>(at, visit);
          break;
        case RecordKind::kPiece:
          Visit<TracePieceRecord>(at, visit);
          break;
        case RecordKind::kSpan:
          Visit<SpanRecord>(at, visit);
          break;
        case RecordKind::kCounters:
          Visit<CountersRecord>(at, visit);
          break;
      }
    }
  }
}

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_TRACE_RECORDING_H_
