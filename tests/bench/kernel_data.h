// Made models and batches for kernel_bench, and what the numeric contract says of them, computed on the host.

#ifndef WIDELANE_TESTS_BENCH_KERNEL_DATA_H_
#define WIDELANE_TESTS_BENCH_KERNEL_DATA_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda/kernels.h"

namespace widelane::cuda {

// Ends the program, saying where, unless `code` is success.
void Check(cudaError_t code, const char* what);

// An array on the device. Copies share it.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(size_t size) : size_(size) {
    void* data = nullptr;
    Check(cudaMalloc(&data, (size + 16) * sizeof(T)), "cudaMalloc");
    data_ = std::shared_ptr<T>(static_cast<T*>(data), [](T* p) { cudaFree(p); });
  }
  explicit DeviceArray(const std::vector<T>& from) : DeviceArray(from.size()) {
    Check(cudaMemcpy(data(), from.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "copy in");
  }
  T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::vector<T> ToHost() const {
    std::vector<T> host(size_);
    Check(cudaMemcpy(host.data(), data(), size_ * sizeof(T), cudaMemcpyDeviceToHost), "copy out");
    return host;
  }

 private:
  size_t size_ = 0;
  std::shared_ptr<T> data_;
};

// Weights are a function of their place, so that the host needs none of them in memory.
struct ModelShape {
  uint32_t features = 1;
  uint32_t outputs = 1;
  WeightType type = WeightType::kFloat32;
  Link link = Link::kIdentity;
  bool split = true;  // false: weights so large that numeric::MaySplit refuses
  bool ties = false;  // biases and weights of few values, so that outputs tie
};

class MadeModel {
 public:
  explicit MadeModel(const ModelShape& shape);

  const ModelShape& shape() const { return shape_; }
  double max_weight() const;
  float Weight(uint32_t feature, uint32_t output) const;  // as stored; features(): the zero feature
  double bias(uint32_t output) const { return bias_[output]; }
  double scale(uint32_t output) const { return scale_[output]; }
  // Sets the arguments that describe the model; with `first` and `count` only those features of it.
  void Describe(ScoreArguments& arguments) const;
  // A model of features [first, first + count) of this one.
  std::vector<std::byte> Part(uint32_t first, uint32_t count) const;

 private:
  ModelShape shape_;
  std::vector<double> bias_;
  std::vector<double> scale_;
  DeviceArray<std::byte> weights_;
  DeviceArray<double> device_bias_;
  DeviceArray<double> device_scale_;
};

enum class ValueKind : uint8_t { kOnes, kFloat16, kFloat32 };
enum class RowLayout : uint8_t { kLengths8, kLengths16, kRowBegin, kUniform };

// A batch in host memory.
struct HostBatch {
  ValueKind kind = ValueKind::kOnes;
  std::vector<uint32_t> row_begin = {0};
  std::vector<uint32_t> indices;
  std::vector<uint16_t> values16;
  std::vector<float> values32;
  std::vector<float> row_max;
  std::vector<int64_t> context_sums;  // empty: rows have no contexts
  std::vector<uint16_t> context_line;

  uint32_t rows() const { return static_cast<uint32_t>(row_begin.size() - 1); }
  float Value(uint32_t entry) const;
  // Fills values and row_max for the rows there are.
  void MakeValues(ValueKind values, std::mt19937_64& random);
  // Fills the contexts, `lines` of them for a model of this shape, for the rows there are.
  void MakeContexts(uint32_t lines, const ModelShape& model, std::mt19937_64& random);
  // What a row's context adds to an output's sum.
  int64_t ContextSum(uint32_t row, uint32_t output, uint32_t outputs) const;
};

// The same on the device, `slack` elements into its arrays.
class DeviceBatch {
 public:
  DeviceBatch(const HostBatch& batch, bool narrow, RowLayout layout, uint32_t slack);
  // Sets the arguments that describe rows [first_row, first_row + rows).
  void Describe(uint32_t first_row, uint32_t rows, ScoreArguments& arguments) const;
  size_t bytes() const { return bytes_; }

 private:
  template <typename T>
  DeviceArray<T> Keep(const std::vector<T>& from) {
    bytes_ += from.size() * sizeof(T);
    return DeviceArray<T>(from);
  }

  uint32_t slack_;
  RowLayout layout_;
  std::vector<uint32_t> host_row_begin_;
  size_t bytes_ = 0;
  DeviceArray<uint32_t> row_begin_;
  DeviceArray<uint32_t> group_begin_;
  DeviceArray<uint8_t> lengths8_;
  DeviceArray<uint16_t> lengths16_;
  DeviceArray<uint16_t> indices16_;
  DeviceArray<uint32_t> indices32_;
  DeviceArray<uint16_t> values16_;
  DeviceArray<float> values32_;
  DeviceArray<float> row_max_;
  DeviceArray<int64_t> context_sums_;
  DeviceArray<uint16_t> context_line_;
};

// The long rows of a call, on the device.
struct LongRows {
  PieceCount cut;
  DeviceArray<Piece> pieces;
  DeviceArray<uint32_t> rows;

  LongRows(const HostBatch& batch, uint32_t outputs, uint32_t first_row, uint32_t rows);
  void Describe(ScoreArguments& arguments) const;
};

// Results of one row by the contract.
struct RowResult {
  std::vector<double> raw;
  std::vector<float> scores;
  std::vector<uint32_t> best_outputs;
  std::vector<float> best_scores;
};
RowResult Reference(const MadeModel& model, const HostBatch& batch, uint32_t row, uint32_t best);

// Draws features by a power law of exponent 1, or each as often, from doubles: float draws have too few values.
class FeatureDraw {
 public:
  FeatureDraw(uint32_t features, bool zipf) : features_(features), zipf_(zipf) {}
  uint32_t operator()(std::mt19937_64& random) const;

 private:
  uint32_t features_;
  bool zipf_;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_TESTS_BENCH_KERNEL_DATA_H_
