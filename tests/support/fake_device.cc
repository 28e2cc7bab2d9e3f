#include "tests/support/fake_device.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "engine/src/numeric.h"
#include "widelane/engine/outputs.h"

namespace widelane::test {
namespace {

double WeightAt(const Model& model, size_t position) {
  const std::byte* at = model.weights() + position * WeightSize(model.weight_type());
  switch (model.weight_type()) {
    case WeightType::kFloat32:
      return *reinterpret_cast<const float*>(at);
    case WeightType::kFloat16:
      return numeric::FromFloat16(*reinterpret_cast<const uint16_t*>(at));
    case WeightType::kBfloat16:
      return numeric::FromBfloat16(*reinterpret_cast<const uint16_t*>(at));
    case WeightType::kInt8:
      return *reinterpret_cast<const int8_t*>(at);
  }
  return 0;
}

void RawOf(const Model& model, const BatchView& batch, uint32_t row, std::vector<double>& raw) {
  const float row_max = batch.row_max != nullptr ? batch.row_max[row] : 1.0f;
  const numeric::Grid grid = numeric::GridFor(model.max_weight(), row_max);
  for (uint32_t k = 0; k < model.outputs(); ++k) {
    int64_t steps = 0;
    if (batch.context_line != nullptr) {
      steps = batch.context_sums[size_t{batch.context_line[row]} * model.outputs() + k];
    }
    for (uint32_t j = batch.row_begin[row]; j < batch.row_begin[row + 1]; ++j) {
      const size_t index = batch.indices16 != nullptr ? batch.indices16[j] : batch.indices32[j];
      const double value = batch.values32 != nullptr   ? batch.values32[j]
                           : batch.values16 != nullptr ? numeric::FromFloat16(batch.values16[j])
                                                       : 1.0;
      steps += numeric::Term(WeightAt(model, index * model.outputs() + k), value * grid.inverse_step);
    }
    raw[k] = numeric::RawSum(steps, grid.step, model.scale()[k], model.bias()[k]);
  }
}

void LinkOf(const Model& model, const std::vector<double>& raw, float* scores) {
  const Link link = model.link();
  if (numeric::IsPointwise(link)) {
    std::transform(raw.begin(), raw.end(), scores,
                   [link](double x) { return static_cast<float>(numeric::PointwiseLink(link, x)); });
    return;
  }
  const double max = *std::max_element(raw.begin(), raw.end());
  int64_t sum = 0;
  for (const double x : raw) sum += numeric::ShareSteps(numeric::Share(link, x, max));
  std::transform(raw.begin(), raw.end(), scores,
                 [&](double x) { return static_cast<float>(numeric::Normalised(numeric::Share(link, x, max), sum)); });
}

}  // namespace

class FakeLane : public Lane {
 public:
  explicit FakeLane(std::shared_ptr<FakeDeviceControl> control) : control_(std::move(control)) {}

  absl::Status Start(const LaneWork& work) override {
    work_ = work;
    started_ = std::chrono::steady_clock::now();
    control_->CountBatch(work.rows);
    return absl::OkStatus();
  }

  CopiedBytes copied(size_t /*gpu*/) const override {
    return {work_.rows * kFakeRowBytesIn, work_.rows * kFakeRowBytesOut};
  }

  absl::Status Finish(StageTimes& stages) override {
    const auto begin = std::chrono::steady_clock::now();
    if (absl::Status status = control_->Obey(); !status.ok()) return status;
    const Model& model = *work_.model;
    const BatchView& batch = *work_.batch;
    std::vector<double> raw(model.outputs());
    std::vector<float> scores(model.outputs());
    std::vector<uint32_t> scratch(model.outputs());
    for (uint32_t row = work_.first_row; row < work_.first_row + work_.rows; ++row) {
      RawOf(model, batch, row, raw);
      LinkOf(model, raw, scores.data());
      const size_t at = static_cast<size_t>(row) * model.outputs();
      if (batch.raw != nullptr) std::copy(raw.begin(), raw.end(), batch.raw + at);
      if (batch.scores != nullptr) std::copy(scores.begin(), scores.end(), batch.scores + at);
      if (batch.best == 0) continue;
      uint32_t* const best = batch.best_outputs + static_cast<size_t>(row) * batch.best;
      TopK(raw.data(), model.outputs(), batch.best, scratch.data(), best);
      for (uint32_t k = 0; k < batch.best; ++k) {
        batch.best_scores[static_cast<size_t>(row) * batch.best + k] = scores[best[k]];
      }
    }
    const auto end = std::chrono::steady_clock::now();
    stages[Stage::kCompute] += end - begin;
    if (work_.record != nullptr) {
      work_.record->Add({Stage::kTransferIn, 0, started_, begin});
      work_.record->Add({Stage::kCompute, 0, begin, end});
    }
    return absl::OkStatus();
  }

 private:
  LaneWork work_;
  std::chrono::steady_clock::time_point started_;  // until Finish it "copies"
  const std::shared_ptr<FakeDeviceControl> control_;
};

void FakeDeviceControl::set_failure(absl::Status failure) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
}

void FakeDeviceControl::set_load_failure(absl::Status failure) {
  const std::lock_guard lock(mutex_);
  load_failure_ = std::move(failure);
}

void FakeDeviceControl::Block() {
  const std::lock_guard lock(mutex_);
  blocked_ = true;
}

void FakeDeviceControl::BlockLoads() {
  const std::lock_guard lock(mutex_);
  loads_blocked_ = true;
}

void FakeDeviceControl::LetThrough(uint64_t batches) {
  const std::lock_guard lock(mutex_);
  let_through_ += batches;
  changed_.notify_all();
}

void FakeDeviceControl::Unblock() {
  const std::lock_guard lock(mutex_);
  blocked_ = false;
  let_through_ = 0;
  loads_blocked_ = false;
  changed_.notify_all();
}

bool FakeDeviceControl::WaitForBatches(uint64_t batches, std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return batches_ >= batches; });
}

void FakeDeviceControl::CountBatch(uint32_t rows) {
  const std::lock_guard lock(mutex_);
  ++batches_;
  rows_ += rows;
  changed_.notify_all();
}

absl::Status FakeDeviceControl::Obey() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !blocked_ || let_through_ > 0; });
  if (blocked_) --let_through_;
  absl::Status status = failure_;
  lock.unlock();
  if (const int64_t delay = delay_ms_; delay > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay));
  return status;
}

absl::Status FakeDeviceControl::BeginLoad() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !loads_blocked_; });
  return load_failure_;
}

std::unique_ptr<Device> FakeDevice::Cpu(std::shared_ptr<FakeDeviceControl> control) {
  DeviceInfo info;
  info.id = "cpu";
  info.name = "fake CPU";
  return std::make_unique<FakeDevice>(std::move(info), 1, std::move(control));
}

std::unique_ptr<Device> FakeDevice::Gpu(int index, std::shared_ptr<FakeDeviceControl> control, size_t lanes) {
  const std::string number = std::to_string(index);
  DeviceInfo info;
  info.id = "GPU-fake-" + number;
  info.name = "fake GPU";
  info.index = index;
  info.pci_address = "0000:0" + number + ":00.0";
  info.memory_bytes = 1 << 30;
  return std::make_unique<FakeDevice>(std::move(info), lanes, std::move(control));
}

absl::StatusOr<std::unique_ptr<Lane>> FakeDevice::MakeLane() { return std::make_unique<FakeLane>(control_); }

absl::StatusOr<std::unique_ptr<ResidentModel>> FakeDevice::Load(const Model& /*model*/) {
  if (absl::Status status = control_->BeginLoad(); !status.ok()) return status;
  ++loads_;
  return std::make_unique<ResidentModel>();
}

}  // namespace widelane::test
