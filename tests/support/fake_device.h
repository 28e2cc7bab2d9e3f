// A device that computes the right numbers, and does what a test tells it: take its time, fail, wait until told.

#ifndef WIDELANE_TESTS_SUPPORT_FAKE_DEVICE_H_
#define WIDELANE_TESTS_SUPPORT_FAKE_DEVICE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "engine/src/backend.h"

namespace widelane::test {

// What all lanes of a fake device obey; any thread may turn it at any time.
class FakeDeviceControl {
 public:
  // Every batch from now on takes this long.
  void set_delay(std::chrono::milliseconds delay) { delay_ms_ = delay.count(); }
  // Every batch from now on ends with this; OK to stop failing.
  void set_failure(absl::Status failure);
  // Load answers with this from now on.
  void set_load_failure(absl::Status failure);
  // Batches (and Load, if so wished) wait from Block until Unblock.
  void Block();
  void BlockLoads();
  void Unblock();
  // That many batches go on although they are blocked.
  void LetThrough(uint64_t batches);
  // Waits until `batches` have begun in all; false when the time is over first.
  bool WaitForBatches(uint64_t batches, std::chrono::milliseconds timeout) const;

  uint64_t batches() const { return batches_; }
  uint64_t rows() const { return rows_; }

 private:
  friend class FakeLane;
  friend class FakeDevice;
  // What a lane does when it starts a batch, and before it scores it.
  void CountBatch(uint32_t rows);
  absl::Status Obey();
  absl::Status BeginLoad();

  std::atomic<int64_t> delay_ms_{0};
  std::atomic<uint64_t> batches_{0};
  std::atomic<uint64_t> rows_{0};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool blocked_ = false;
  uint64_t let_through_ = 0;
  bool loads_blocked_ = false;
  absl::Status failure_;
  absl::Status load_failure_;
};

// What a fake GPU says that it moved for each row.
inline constexpr uint64_t kFakeRowBytesIn = 8;
inline constexpr uint64_t kFakeRowBytesOut = 4;

class FakeDevice : public Device {
 public:
  FakeDevice(DeviceInfo info, size_t lanes, std::shared_ptr<FakeDeviceControl> control)
      : info_(std::move(info)), lanes_(lanes), control_(std::move(control)) {}

  // One that passes for the CPU, or for GPU number `index`.
  static std::unique_ptr<Device> Cpu(std::shared_ptr<FakeDeviceControl> control);
  static std::unique_ptr<Device> Gpu(int index, std::shared_ptr<FakeDeviceControl> control, size_t lanes = 2);

  const DeviceInfo& info() const override { return info_; }
  size_t lanes() const override { return lanes_; }
  absl::StatusOr<std::unique_ptr<Lane>> MakeLane() override;
  absl::StatusOr<std::unique_ptr<ResidentModel>> Load(const Model& model) override;
  DeviceWeights weights() const override { return {0, loads_}; }

 private:
  const DeviceInfo info_;
  const size_t lanes_;
  const std::shared_ptr<FakeDeviceControl> control_;
  std::atomic<uint64_t> loads_{0};
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_FAKE_DEVICE_H_
