#include "client/cli/bench_worker.h"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/hash/hash.h"
#include "client/cli/bench_schedule.h"
#include "client/cli/bench_wire.h"

namespace widelane::cli {
namespace {

// One in so many replies is compared with the first to the same request.
constexpr uint64_t kCompareEvery = 64;

uint64_t ChecksumOf(absl::string_view bytes) { return std::max<uint64_t>(1, absl::Hash<absl::string_view>{}(bytes)); }

}  // namespace

LoadWorker::LoadWorker(LoadPlan& plan, LoadShare share)
    : plan_(plan),
      share_(std::move(share)),
      slots_(share_.slots),
      meter_(plan.window),
      next_request_(share_.seed),
      live_(share_.slots) {}

void LoadWorker::Run() {
  Open();
  std::thread pacer;
  if (plan_.window.open) {
    // The last first, so that the first is taken first.
    for (size_t slot = slots_.size(); slot-- > 0;) free_.push_back(slot);
    pacer = std::thread([this] { Pace(); });
  } else {
    for (size_t slot = 0; slot < slots_.size(); ++slot) Prepare(slot, std::chrono::steady_clock::now());
    for (size_t slot = 0; slot < slots_.size(); ++slot) Send(slot);
  }
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) OnEvent(tag, ok);
  if (pacer.joinable()) pacer.join();
}

void LoadWorker::Pace() {
  // The system may wake sleepers 50 us late unless it is told otherwise.
  prctl(PR_SET_TIMERSLACK, 1);
  PoissonSchedule schedule(share_.rate, share_.seed, std::chrono::steady_clock::now());
  while (true) {
    const LoadTime planned = schedule.Next();
    if (planned >= plan_.window.end) break;
    std::this_thread::sleep_until(planned);
    size_t slot = 0;
    if (TakeSlot(planned, slot)) Send(slot);
  }
  std::unique_lock lock(mutex_);
  sending_ = false;
  CloseIfOver(lock);
}

// False when none is free: the call is late then.
bool LoadWorker::TakeSlot(LoadTime start, size_t& slot) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    if (live_ > 0) late_.push_back(start);
    return false;
  }
  slot = free_.back();
  free_.pop_back();
  Prepare(slot, start);
  return true;
}

void LoadWorker::Prepare(size_t slot, LoadTime start) {
  slots_[slot] = {start, next_request_++ % plan_.requests.size()};
}

void LoadWorker::Free(size_t slot) {
  const LoadTime now = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (!plan_.window.open && now >= plan_.window.end) sending_ = false;
  const bool again = plan_.window.open ? !late_.empty() : sending_;
  if (!again) {
    free_.push_back(slot);
    CloseIfOver(lock);
    return;
  }
  LoadTime start = now;
  if (plan_.window.open) {
    start = late_.front();
    late_.pop_front();
  }
  Prepare(slot, start);
  lock.unlock();
  Send(slot);
}

void LoadWorker::Retire(size_t first, size_t step) {
  std::unique_lock lock(mutex_);
  for (size_t slot = first; slot < slots_.size(); slot += step) --live_;
  std::erase_if(free_, [=](size_t slot) { return slot % step == first; });
  if (live_ == 0) {
    late_.clear();
    sending_ = false;
  }
  CloseIfOver(lock);
}

void LoadWorker::CloseIfOver(std::unique_lock<std::mutex>& lock) {
  if (sending_ || closed_ || !late_.empty() || free_.size() < live_) return;
  closed_ = true;
  lock.unlock();
  Close();
}

void LoadWorker::Cancel() {
  {
    const std::lock_guard lock(mutex_);
    late_dropped_ += late_.size();
    late_.clear();
  }
  CancelAll();
}

void LoadWorker::OnReply(size_t slot, absl::string_view reply) {
  if (Count(slot, RowsOfReply(reply), reply.size())) Compare(slot, reply);
}

void LoadWorker::OnReply(size_t slot, const grpc::ByteBuffer& reply) {
  std::optional<uint64_t> rows = RowsOfReply(TextOf(HeadOf(reply)));
  if (!rows.has_value()) rows = RowsOfReply(TextOf(WholeOf(reply)));
  if (Count(slot, rows, reply.Length())) Compare(slot, TextOf(WholeOf(reply)));
}

bool LoadWorker::Count(size_t slot, std::optional<uint64_t> rows, size_t bytes) {
  const LoadTime now = std::chrono::steady_clock::now();
  if (rows.value_or(0) != plan_.rows) {
    meter_.WrongRows(now, rows.value_or(0), plan_.rows);
    return false;
  }
  meter_.Answered(slots_[slot].start, now, RequestOf(slot).size(), bytes);
  return ++replies_ % kCompareEvery == 0 || plan_.checksums[slots_[slot].request].load(std::memory_order_relaxed) == 0;
}

void LoadWorker::Compare(size_t slot, absl::string_view reply) {
  uint64_t expected = 0;
  const uint64_t checksum = ChecksumOf(reply);
  if (plan_.checksums[slots_[slot].request].compare_exchange_strong(expected, checksum)) return;
  if (expected != checksum) meter_.Different(std::chrono::steady_clock::now());
}

void LoadWorker::OnFailure(int code, absl::string_view message) {
  meter_.Failed(std::chrono::steady_clock::now(), code, message);
}

}  // namespace widelane::cli
