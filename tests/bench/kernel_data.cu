#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "kernel_data.h"
#include "numeric.h"

namespace widelane::cuda {
namespace {

// A hash of a weight's place.
__host__ __device__ uint32_t Mix(uint64_t place) {
  place = (place + 0x9E3779B97F4A7C15ULL) * 0xBF58476D1CE4E5B9ULL;
  place = (place ^ place >> 27) * 0x94D049BB133111EBULL;
  return static_cast<uint32_t>(place >> 32);
}

// The stored bits of a weight: any sign and mantissa, exponents of seven values, below 1 in magnitude, or below 2^100
// where terms may not be split. With ties only -1/2 and 1/2.
__host__ __device__ uint32_t WeightBits(const ModelShape& shape, uint64_t place) {
  const uint32_t mixed = Mix(place);
  const uint32_t exponent = mixed >> 8 & 7;  // 0 to 7
  switch (shape.type) {
    case WeightType::kFloat32: {
      const uint32_t top = shape.split ? 119 : 219;
      if (shape.ties) return (mixed & 0x80000000u) | 126u << 23;
      return (mixed & 0x80000000u) | (top + exponent) << 23 | (mixed * 0x9E3779B1u) >> 9;
    }
    case WeightType::kFloat16:
      if (shape.ties) return (mixed >> 16 & 0x8000u) | 14u << 10;
      return (mixed >> 16 & 0x8000u) | (7 + exponent) << 10 | (mixed >> 20 & 0x3FFu);
    case WeightType::kBfloat16: {
      const uint32_t top = shape.split ? 119 : 219;
      if (shape.ties) return (mixed >> 16 & 0x8000u) | 126u << 7;
      return (mixed >> 16 & 0x8000u) | (top + exponent) << 7 | (mixed >> 20 & 0x7Fu);
    }
    case WeightType::kInt8:
      break;
  }
  return shape.ties ? (mixed & 1u) : mixed & 0xFFu;
}

__host__ __device__ uint32_t WeightSize(WeightType type) {
  return type == WeightType::kFloat32 ? 4 : type == WeightType::kInt8 ? 1 : 2;
}

__global__ void FillWeights(ModelShape shape, uint64_t count, std::byte* to) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const bool zero = i / shape.outputs == shape.features;
    const uint32_t bits = zero ? 0 : WeightBits(shape, i);
    if (WeightSize(shape.type) == 4) reinterpret_cast<uint32_t*>(to)[i] = bits;
    if (WeightSize(shape.type) == 2) reinterpret_cast<uint16_t*>(to)[i] = static_cast<uint16_t>(bits);
    if (WeightSize(shape.type) == 1) reinterpret_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(bits);
  }
}

template <typename T>
T* After(const DeviceArray<T>& array, size_t elements) {
  return array.data() == nullptr ? nullptr : array.data() + elements;
}

// With `slack` elements before it.
template <typename T>
std::vector<T> Shifted(std::vector<T> from, uint32_t slack) {
  if (!from.empty()) from.insert(from.begin(), slack, T{});
  return from;
}

}  // namespace

void Check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}

MadeModel::MadeModel(const ModelShape& shape) : shape_(shape) {
  const uint64_t count = (uint64_t{shape.features} + 1) * shape.outputs;
  weights_ = DeviceArray<std::byte>(count * WeightSize(shape.type));
  FillWeights<<<2048, 256>>>(shape, count, weights_.data());
  Check(cudaDeviceSynchronize(), "FillWeights");
  for (uint32_t k = 0; k < shape.outputs; ++k) {
    bias_.push_back(shape.ties ? (k % 5 == 0 ? -0.0 : 0.0) : 0.01 * (Mix(k) % 200) - 1);
    const double scale = shape.ties && k % 2 == 0 ? -1.0 : 0.001F * static_cast<float>(1 + Mix(k) % 100);
    scale_.push_back(shape.type == WeightType::kInt8 ? scale : 1.0);
  }
  device_bias_ = DeviceArray<double>(bias_);
  device_scale_ = DeviceArray<double>(scale_);
}

double MadeModel::max_weight() const {
  if (shape_.type == WeightType::kInt8) return 128;
  return shape_.split || shape_.type == WeightType::kFloat16 ? 1.0 : 0x1p100;
}

float MadeModel::Weight(uint32_t feature, uint32_t output) const {
  if (feature == shape_.features) return 0;
  const uint32_t bits = WeightBits(shape_, uint64_t{feature} * shape_.outputs + output);
  switch (shape_.type) {
    case WeightType::kFloat32:
      return numeric::FloatFromBits(bits);
    case WeightType::kFloat16:
      return numeric::FromFloat16(static_cast<uint16_t>(bits));
    case WeightType::kBfloat16:
      return numeric::FromBfloat16(static_cast<uint16_t>(bits));
    case WeightType::kInt8:
      break;
  }
  return static_cast<float>(static_cast<int8_t>(bits));
}

void MadeModel::Describe(ScoreArguments& arguments) const {
  arguments.weights = weights_.data();
  arguments.bias = device_bias_.data();
  arguments.scale = device_scale_.data();
  arguments.max_weight = max_weight();
  arguments.features = shape_.features;
  arguments.outputs = shape_.outputs;
  arguments.weight_type = shape_.type;
  arguments.link = shape_.link;
}

std::vector<std::byte> MadeModel::Part(uint32_t first, uint32_t count) const {
  const size_t feature_bytes = size_t{shape_.outputs} * WeightSize(shape_.type);
  std::vector<std::byte> part((size_t{count} + 1) * feature_bytes);
  Check(cudaMemcpy(part.data(), weights_.data() + first * feature_bytes, count * feature_bytes, cudaMemcpyDeviceToHost),
        "copy of a part");
  return part;
}

float HostBatch::Value(uint32_t entry) const {
  if (kind == ValueKind::kFloat16) return numeric::FromFloat16(values16[entry]);
  return kind == ValueKind::kFloat32 ? values32[entry] : 1.0F;
}

void HostBatch::MakeValues(ValueKind values, std::mt19937_64& random) {
  kind = values;
  if (values == ValueKind::kOnes) return;
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto bits = static_cast<uint32_t>(random());
    // Positive and negative, from 2^-10 to 2^5.
    if (values == ValueKind::kFloat16) {
      values16.push_back(static_cast<uint16_t>((bits & 0x83FFu) | (5 + (bits >> 16) % 16) << 10));
    } else {
      values32.push_back(numeric::FloatFromBits((bits & 0x807FFFFFu) | (117 + (random() % 16)) << 23));
    }
  }
  for (uint32_t r = 0; r < rows(); ++r) {
    float max = 0;
    for (uint32_t e = row_begin[r]; e < row_begin[r + 1]; ++e) max = std::max(max, std::fabs(Value(e)));
    row_max.push_back(max);
  }
}

// Of any size that sums may have, or so that outputs tie.
void HostBatch::MakeContexts(uint32_t lines, const ModelShape& model, std::mt19937_64& random) {
  for (uint64_t i = 0; i < uint64_t{lines} * model.outputs; ++i) {
    const auto any = static_cast<int64_t>(random());
    const auto few = static_cast<int64_t>(random() % 5) - 2;
    context_sums.push_back(model.ties ? few * (int64_t{1} << 37) : any >> (2 + random() % 40));
  }
  for (uint32_t r = 0; r < rows(); ++r) context_line.push_back(static_cast<uint16_t>(random() % lines));
}

int64_t HostBatch::ContextSum(uint32_t row, uint32_t output, uint32_t outputs) const {
  return context_sums.empty() ? 0 : context_sums[size_t{context_line[row]} * outputs + output];
}

DeviceBatch::DeviceBatch(const HostBatch& batch, bool narrow, RowLayout layout, uint32_t slack)
    : slack_(slack), layout_(layout), host_row_begin_(batch.row_begin) {
  if (layout == RowLayout::kRowBegin) {
    row_begin_ = Keep(batch.row_begin);
  } else if (layout != RowLayout::kUniform) {
    std::vector<uint32_t> groups;
    std::vector<uint8_t> lengths8;
    std::vector<uint16_t> lengths16;
    for (uint32_t r = 0; r < batch.rows(); ++r) {
      if (r % kGroupRows == 0) groups.push_back(batch.row_begin[r]);
      lengths8.push_back(static_cast<uint8_t>(batch.row_begin[r + 1] - batch.row_begin[r]));
      lengths16.push_back(static_cast<uint16_t>(batch.row_begin[r + 1] - batch.row_begin[r]));
    }
    group_begin_ = Keep(groups);
    if (layout == RowLayout::kLengths8) {
      lengths8_ = Keep(lengths8);
    } else {
      lengths16_ = Keep(lengths16);
    }
  }
  if (narrow) {
    indices16_ = Keep(Shifted(std::vector<uint16_t>(batch.indices.begin(), batch.indices.end()), slack));
  } else {
    indices32_ = Keep(Shifted(batch.indices, slack));
  }
  if (batch.kind == ValueKind::kFloat16) values16_ = Keep(Shifted(batch.values16, slack));
  if (batch.kind == ValueKind::kFloat32) values32_ = Keep(Shifted(batch.values32, slack));
  if (batch.kind != ValueKind::kOnes) row_max_ = Keep(batch.row_max);
  if (batch.context_sums.empty()) return;
  context_sums_ = Keep(batch.context_sums);
  context_line_ = Keep(batch.context_line);
}

void DeviceBatch::Describe(uint32_t first_row, uint32_t rows, ScoreArguments& arguments) const {
  arguments.rows = rows;
  arguments.first_row = first_row;
  arguments.first_entry = host_row_begin_[first_row];
  arguments.entries = host_row_begin_[first_row + rows] - arguments.first_entry;
  arguments.uniform_length = layout_ == RowLayout::kUniform ? host_row_begin_[1] : 0;
  arguments.uniform_begin = 0;
  arguments.group_begin = group_begin_.data();
  arguments.lengths8 = lengths8_.data();
  arguments.lengths16 = lengths16_.data();
  arguments.row_begin = row_begin_.data();
  const size_t entry = size_t{slack_} + arguments.first_entry;
  arguments.indices16 = After(indices16_, entry);
  arguments.indices32 = After(indices32_, entry);
  arguments.values16 = After(values16_, entry);
  arguments.values32 = After(values32_, entry);
  arguments.row_max = row_max_.data();
  arguments.context_sums = context_sums_.data();
  arguments.context_line = context_line_.data();
}

LongRows::LongRows(const HostBatch& batch, uint32_t outputs, uint32_t first_row, uint32_t count) {
  std::vector<Piece> host_pieces(MaxPieces(batch.row_begin.back()));
  std::vector<uint32_t> host_rows(host_pieces.size());
  cut = CutLongRows(outputs, batch.row_begin.data(), first_row, count, batch.row_begin[first_row], host_pieces.data(),
                    host_rows.data());
  pieces = DeviceArray<Piece>(host_pieces);
  rows = DeviceArray<uint32_t>(host_rows);
}

void LongRows::Describe(ScoreArguments& arguments) const {
  arguments.cut = cut;
  arguments.pieces = pieces.data();
  arguments.long_rows = rows.data();
}

RowResult Reference(const MadeModel& model, const HostBatch& batch, uint32_t row, uint32_t best) {
  const uint32_t outputs = model.shape().outputs;
  const Link link = model.shape().link;
  const numeric::Grid grid =
      numeric::GridFor(model.max_weight(), batch.kind == ValueKind::kOnes ? 1.0F : batch.row_max[row]);
  std::vector<int64_t> sums(outputs);
  for (uint32_t e = batch.row_begin[row]; e < batch.row_begin[row + 1]; ++e) {
    const double scaled = static_cast<double>(batch.Value(e)) * grid.inverse_step;
    for (uint32_t k = 0; k < outputs; ++k) {
      sums[k] += numeric::Term(static_cast<double>(model.Weight(batch.indices[e], k)), scaled);
    }
  }
  RowResult result;
  for (uint32_t k = 0; k < outputs; ++k) {
    const int64_t whole = sums[k] + batch.ContextSum(row, k, outputs);
    result.raw.push_back(numeric::RawSum(whole, grid.step, model.scale(k), model.bias(k)));
  }
  const double max = *std::max_element(result.raw.begin(), result.raw.end());
  int64_t steps = 0;
  if (!numeric::IsPointwise(link)) {
    for (const double raw : result.raw) steps += numeric::ShareSteps(numeric::Share(link, raw, max));
  }
  for (const double raw : result.raw) {
    result.scores.push_back(static_cast<float>(numeric::IsPointwise(link)
                                                   ? numeric::PointwiseLink(link, raw)
                                                   : numeric::Normalised(numeric::Share(link, raw, max), steps)));
  }
  std::vector<uint32_t> order(outputs);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return result.raw[a] > result.raw[b]; });
  for (uint32_t i = 0; i < best; ++i) {
    result.best_outputs.push_back(order[i]);
    result.best_scores.push_back(result.scores[order[i]]);
  }
  return result;
}

uint32_t FeatureDraw::operator()(std::mt19937_64& random) const {
  if (!zipf_) return static_cast<uint32_t>(random() % features_);
  // The inverse of the distribution with density 1 / x from 1 to features + 1; ranks are then spread over the features.
  const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
  const auto rank = static_cast<uint64_t>(std::exp(uniform * std::log(features_ + 1.0)));
  return static_cast<uint32_t>(std::min<uint64_t>(rank - 1, features_ - 1) * 2654435761ULL % features_);
}

}  // namespace widelane::cuda
