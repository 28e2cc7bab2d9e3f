#include "costs.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <utility>

namespace widelane {

namespace {

// log2, with a straight line between powers of two: smooth enough, and a few instructions.
double SizeOf(uint64_t rows, uint64_t entries) {
  const uint64_t work = rows + entries + 1;
  const int power = std::bit_width(work) - 1;
  return power + static_cast<double>(work) / static_cast<double>(uint64_t{1} << power) - 1;
}

// Least squares of relative errors with no negative factor, one factor after the other until they settle.
Cost FitLine(const std::vector<CostSample>& samples) {
  std::array<double, 3> factors{};
  const auto terms = [](const CostSample& sample) {
    return std::array<double, 3>{1.0, static_cast<double>(sample.rows), static_cast<double>(sample.entries)};
  };
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t f = 0; f < factors.size(); ++f) {
      double product = 0;
      double square = 0;
      for (const CostSample& sample : samples) {
        const std::array<double, 3> x = terms(sample);
        double rest = sample.ns;
        for (size_t other = 0; other < factors.size(); ++other) rest -= other == f ? 0 : factors[other] * x[other];
        product += rest * x[f] / (sample.ns * sample.ns);
        square += x[f] * x[f] / (sample.ns * sample.ns);
      }
      factors[f] = square > 0 ? std::max(0.0, product / square) : 0;
    }
  }
  return {factors[0], factors[1], factors[2]};
}

}  // namespace

CostCurve CostCurve::Line(const Cost& line) {
  CostCurve curve;
  curve.line_ = line;
  curve.deviation_.fill(1.0F);
  return curve;
}

CostCurve CostCurve::Fit(const std::vector<CostSample>& samples) {
  CostCurve curve = Line(FitLine(samples));
  // Samples of about the same size share a place; places between samples are interpolated, those outside take the
  // nearest.
  std::vector<std::pair<double, double>> points;  // size, deviation
  for (const CostSample& sample : samples) {
    const double line = curve.line_.Of(sample.rows, sample.entries);
    points.emplace_back(SizeOf(sample.rows, sample.entries), line > 0 ? sample.ns / line : 1.0);
  }
  std::sort(points.begin(), points.end());
  for (size_t size = 0; size < curve.deviation_.size(); ++size) {
    const auto at = static_cast<double>(size);
    const auto above =
        std::find_if(points.begin(), points.end(), [at](const auto& point) { return point.first >= at; });
    double deviation = 1;
    if (above == points.end()) {
      deviation = points.back().second;
    } else if (above == points.begin()) {
      deviation = above->second;
    } else {
      const auto& below = *(above - 1);
      const double share = (at - below.first) / std::max(1e-9, above->first - below.first);
      deviation = below.second + share * (above->second - below.second);
    }
    curve.deviation_[size] = static_cast<float>(deviation);
  }
  return curve;
}

double CostCurve::Predict(uint64_t rows, uint64_t entries) const {
  const double size = SizeOf(rows, entries);
  const size_t below = std::min(static_cast<size_t>(size), deviation_.size() - 2);
  const double share = std::min(1.0, size - static_cast<double>(below));
  const double deviation = deviation_[below] + share * (deviation_[below + 1] - deviation_[below]);
  return line_.Of(rows, entries) * deviation;
}

void CostTable::Set(Route route, size_t device, const BatchKind& kind, const CostCurve& curve) {
  for (Line& line : lines_) {
    if (line.route == route && line.device == device && line.kind == kind) {
      line.curve = curve;
      return;
    }
  }
  lines_.push_back({route, device, kind, curve});
}

void CostTable::Finish() {
  size_t devices = 0;
  for (const Line& line : lines_) devices = std::max(devices, line.device + 1);
  for (const Values values : {Values::kOnes, Values::kFloat16, Values::kFloat32}) {
    for (const uint32_t best : {0U, 1U}) {
      const BatchKind kind{values, best};
      Found& found = found_[IndexOf(kind)];
      found.least_on_gpus_ns = std::numeric_limits<double>::infinity();
      for (size_t route = 0; route < kRoutes; ++route) {
        found.by_device[route].assign(devices, nullptr);
        for (size_t device = 0; device < devices; ++device) {
          const CostCurve* curve = Nearest(static_cast<Route>(route), device, kind);
          found.by_device[route][device] = curve;
          const bool on_cpu = static_cast<Route>(route) == Route::kInline || static_cast<Route>(route) == Route::kPool;
          if (curve == nullptr || on_cpu) continue;
          found.least_on_gpus_ns = std::min(found.least_on_gpus_ns, curve->Predict(1, 0));
        }
      }
    }
  }
}

const CostCurve* CostTable::Find(Route route, size_t device, const BatchKind& kind) const {
  const std::vector<const CostCurve*>& of_route = found_[IndexOf(kind)].by_device[static_cast<size_t>(route)];
  return device < of_route.size() ? of_route[device] : nullptr;
}

const CostCurve* CostTable::Nearest(Route route, size_t device, const BatchKind& kind) const {
  const Line* nearest = nullptr;
  int nearest_distance = 0;
  for (const Line& line : lines_) {
    if (line.route != route || line.device != device) continue;
    const int distance = ((line.kind.best > 0) == (kind.best > 0) ? 0 : 4) +
                         std::abs(static_cast<int>(line.kind.values) - static_cast<int>(kind.values));
    if (nearest != nullptr && distance >= nearest_distance) continue;
    nearest = &line;
    nearest_distance = distance;
  }
  return nearest == nullptr ? nullptr : &nearest->curve;
}

std::vector<RouteCost> CostTable::Lines() const {
  std::vector<RouteCost> lines;
  lines.reserve(lines_.size());
  for (const Line& line : lines_) lines.push_back({line.route, line.device, line.kind, line.curve.line()});
  return lines;
}

std::unique_ptr<CostTable> RoughCosts(const Model& model, size_t devices, size_t cpu_threads, bool sharded) {
  const double outputs = model.outputs();
  const auto threads = static_cast<double>(cpu_threads);
  const Cost alone{.fixed_ns = 200, .row_ns = 10 * outputs, .entry_ns = 0.5 * outputs};
  const Cost pool{.fixed_ns = 6000, .row_ns = alone.row_ns / threads, .entry_ns = alone.entry_ns / threads};
  auto made = std::make_unique<CostTable>();
  CostTable& table = *made;
  table.Set(Route::kInline, 0, {}, CostCurve::Line(alone));
  table.Set(Route::kPool, 0, {}, CostCurve::Line(pool));
  const Cost mapped{.fixed_ns = 15000, .row_ns = 0.3 * outputs, .entry_ns = 0.1 + 0.001 * outputs};
  const Cost copied{.fixed_ns = 25000, .row_ns = 0.2 * outputs, .entry_ns = 0.05 + 0.001 * outputs};
  const size_t gpus = sharded ? std::min<size_t>(devices, 2) : devices;
  for (size_t device = 1; device < gpus; ++device) {
    table.Set(Route::kMapped, device, {}, CostCurve::Line(mapped));
    table.Set(Route::kCopied, device, {}, CostCurve::Line(copied));
  }
  table.Finish();
  return made;
}

}  // namespace widelane
