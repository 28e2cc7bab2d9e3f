// What batches of a model cost on each route: from measured times to predictions.

#ifndef WIDELANE_ENGINE_SRC_COSTS_H_
#define WIDELANE_ENGINE_SRC_COSTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "widelane/engine/engine.h"
#include "widelane/engine/route.h"

namespace widelane {

// One measured batch.
struct CostSample {
  uint64_t rows = 0;
  uint64_t entries = 0;
  double ns = 0;
};

// Predicts times from samples of one route. A line (fixed + rows x row + entries x entry) gives the shape; but a bus is
// slower for few bytes, and a pool is not yet full with few rows, so the samples' deviation from the line is kept by
// size (entries + rows, on a logarithmic scale) and applied again.
class CostCurve {
 public:
  // At least one sample, each with rows > 0 and ns > 0.
  static CostCurve Fit(const std::vector<CostSample>& samples);
  // A line and nothing else.
  static CostCurve Line(const Cost& line);

  double Predict(uint64_t rows, uint64_t entries) const;
  const Cost& line() const { return line_; }

 private:
  Cost line_;
  std::array<float, 40> deviation_{};  // by log2(entries + rows), 1 where the line holds
};

// The costs of one model: a curve for each route, device and kind of batch. Not every one is there.
class CostTable {
 public:
  // `best` stands for all kinds with best > 0. A later curve for the same place replaces an earlier one.
  void Set(Route route, size_t device, const BatchKind& kind, const CostCurve& curve);
  // After the last Set and before the first of the functions below.
  void Finish();

  // Null when the route is not to be had. A kind that was not measured is answered with the nearest that was.
  const CostCurve* Find(Route route, size_t device, const BatchKind& kind) const;
  // The least any batch of this kind takes on a GPU.
  double LeastOnGpus(const BatchKind& kind) const { return found_[IndexOf(kind)].least_on_gpus_ns; }
  // Every line, in the order of Set.
  std::vector<RouteCost> Lines() const;

 private:
  struct Line {
    Route route;
    size_t device;
    BatchKind kind;
    CostCurve curve;
  };
  // What Find answers for one kind.
  struct Found {
    std::array<std::vector<const CostCurve*>, kRoutes> by_device;
    double least_on_gpus_ns = 0;
  };
  static constexpr size_t kKinds = 2 * kValuesNames.size();

  static size_t IndexOf(const BatchKind& kind) {
    return 2 * static_cast<size_t>(kind.values) + (kind.best > 0 ? 1 : 0);
  }
  const CostCurve* Nearest(Route route, size_t device, const BatchKind& kind) const;

  std::vector<Line> lines_;
  std::array<Found, kKinds> found_;  // points into lines_
};

// For engines that do not measure: about what one core and one GPU of the day take.
std::unique_ptr<CostTable> RoughCosts(const Model& model, size_t devices, size_t cpu_threads, bool sharded);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_COSTS_H_
