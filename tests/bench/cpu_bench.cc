// What the CPU backend reaches on this machine: exact scores against a plain float loop on one core, wide models, and
// the thread pool.
//
//   cpu_bench [THREADS] [FEATURES...]
//
// Medians. The figures of a line are measured in turns, so that a busy machine disturbs all of them alike.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cpu/cpu_device.h"
#include "float_loop.h"
#include "spin.h"
#include "thread_pool.h"
#include "widelane/engine/model.h"
#include "widelane/engine/usable_cores.h"

namespace widelane {
namespace {

using Random = std::mt19937_64;

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "cpu_bench: %s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T Must(absl::StatusOr<T> result) {
  Require(result.status());
  return *std::move(result);
}

// Rows of equal length, all values 1, with room for their scores.
struct Rows {
  Rows(uint64_t features, uint32_t rows, uint32_t length, bool zipf) : scores(rows) {
    Random random(features + rows);
    for (uint32_t r = 0; r <= rows; ++r) begin.push_back(r * length);
    for (uint64_t i = 0; i < uint64_t{rows} * length; ++i) {
      const double u = static_cast<double>(random() >> 11) * 0x1p-53;
      const auto count = static_cast<double>(features);
      // Zipf's ranks by the inverse of the continuous distribution, scattered over the features.
      const double at = zipf ? std::exp(u * std::log(count)) - 1 : u * count;
      uint64_t feature = std::min(static_cast<uint64_t>(at), features - 1);
      if (zipf) feature = feature * 2654435761U % features;
      indices32.push_back(static_cast<uint32_t>(feature));
    }
    if (features <= 0xFFFF) indices16.assign(indices32.begin(), indices32.end());
    view.rows = rows;
    view.entries = begin.back();
    view.longest_row = length;
    view.row_begin = begin.data();
    if (features <= 0xFFFF) {
      view.indices16 = indices16.data();
    } else {
      view.indices32 = indices32.data();
    }
    view.scores = scores.data();
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  std::vector<uint32_t> begin;
  std::vector<uint16_t> indices16;
  std::vector<uint32_t> indices32;
  std::vector<float> scores;
  BatchView view;
};

std::shared_ptr<const Model> RandomModel(uint64_t features, uint32_t outputs, Link link) {
  ModelParts parts;
  parts.features = features;
  parts.outputs = outputs;
  parts.link = link;
  parts.weights = Must(ModelParts::AllocateWeights(features, outputs, WeightType::kFloat32));
  auto* weights = reinterpret_cast<float*>(parts.weights.data());
  uint64_t state = 1;
  for (uint64_t i = 0; i < features * outputs; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    weights[i] = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-33F;
  }
  return Must(Model::Create(std::move(parts)));
}

// Median nanoseconds of each of `bodies`, called in turns with the number of the round.
std::vector<double> Medians(int rounds, const std::vector<std::function<void(int)>>& bodies) {
  std::vector<std::vector<double>> times(bodies.size());
  for (int round = -2; round < rounds; ++round) {
    for (size_t i = 0; i < bodies.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      bodies[i](std::max(round, 0));
      const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
      if (round >= 0) times[i].push_back(time.count());
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& series : times) {
    std::nth_element(series.begin(), series.begin() + rounds / 2, series.end());
    medians.push_back(series[static_cast<size_t>(rounds) / 2]);
  }
  return medians;
}

// A model on the CPU, with a lane that uses the pool and one that does not.
class Scorer {
 public:
  Scorer(std::shared_ptr<const Model> model, const std::shared_ptr<ThreadPool>& pool)
      : model_(std::move(model)),
        device_(Must(MakeCpuDevice({}, pool))),
        resident_(Must(device_->Load(*model_))),
        pool_lane_(Must(device_->MakeLane())),
        inline_lane_(Must(MakeInlineLane(*device_))) {}

  const Model& model() const { return *model_; }
  void Inline(const BatchView& view) { Score(*inline_lane_, view); }
  void Pooled(const BatchView& view) { Score(*pool_lane_, view); }

 private:
  void Score(Lane& lane, const BatchView& view) {
    StageTimes stages;
    Require(
        lane.Score({.model = model_.get(), .resident = resident_.get(), .batch = &view, .rows = view.rows}, stages));
  }

  std::shared_ptr<const Model> model_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<ResidentModel> resident_;
  std::unique_ptr<Lane> pool_lane_;
  std::unique_ptr<Lane> inline_lane_;
};

void OneCore(uint64_t features, Link link, bool zipf) {
  const auto alone = std::make_shared<ThreadPool>(0, std::chrono::microseconds(0));
  Scorer scorer(RandomModel(features, 1, link), alone);
  const auto* weights = reinterpret_cast<const float*>(scorer.model().weights());
  constexpr uint32_t kLength = 40;
  // Together more than the second-level cache, so that no set is at hand from its last turn.
  constexpr int kSets = 4;
  const uint32_t rows = features <= 0xFFFF ? 20000 : 50000;
  std::vector<std::unique_ptr<Rows>> sets;
  for (int i = 0; i < kSets; ++i) sets.push_back(std::make_unique<Rows>(features, rows + i, kLength, zipf));
  const std::vector<double> medians =
      Medians(features <= 0xFFFF ? 101 : 15,
              {[&](int round) { scorer.Inline(sets[round % kSets]->view); },
               [&](int round) { bench::FloatLoop(weights, link == Link::kSigmoid, sets[round % kSets]->view); }});
  const double entries = rows * kLength;
  std::printf("one_core %11llu %-8s %-9s %10.3f %10.3f %8.2f\n", static_cast<unsigned long long>(features),
              zipf ? "zipf" : "uniform", LinkName(link), medians[0] / entries, medians[1] / entries,
              medians[1] / medians[0]);
}

void Wide(uint32_t outputs, Link link, uint32_t best) {
  const auto alone = std::make_shared<ThreadPool>(0, std::chrono::microseconds(0));
  constexpr uint32_t kRows = 200;
  constexpr uint32_t kLength = 40;
  constexpr uint64_t kFeatures = 54000;
  Scorer scorer(RandomModel(kFeatures, outputs, link), alone);
  Rows rows(kFeatures, kRows, kLength, true);
  std::vector<float> scores(uint64_t{kRows} * std::max(outputs, best));
  std::vector<uint32_t> outputs_of_best(uint64_t{kRows} * best);
  rows.view.scores = best == 0 ? scores.data() : nullptr;
  rows.view.best = best;
  rows.view.best_outputs = best == 0 ? nullptr : outputs_of_best.data();
  rows.view.best_scores = best == 0 ? nullptr : scores.data();
  const double time = Medians(11, {[&](int) { scorer.Inline(rows.view); }})[0];
  std::printf("wide %6u %-11s best %3u %10.1f us a row %8.4f ns an entry and output\n", outputs, LinkName(link), best,
              time / kRows / 1000, time / kRows / kLength / outputs);
}

void Pool(size_t threads, uint32_t row_count) {
  const std::chrono::microseconds spin(threads > 1 ? 50 : 0);
  Scorer scorer(RandomModel(54000, 1, Link::kSigmoid), std::make_shared<ThreadPool>(threads - 1, spin));
  Rows rows(54000, row_count, 40, true);
  const std::vector<double> medians =
      Medians(row_count > 100000 ? 101 : 1001, {[&](int) { scorer.Inline(rows.view); }});
  const std::vector<double> pooled = Medians(row_count > 100000 ? 101 : 1001, {[&](int) { scorer.Pooled(rows.view); }});
  std::printf("pool %8u rows %4zu threads %10.1f us %10.1f us alone\n", row_count, threads, pooled[0] / 1000,
              medians[0] / 1000);
}

void Run(size_t threads, const std::vector<uint64_t>& features) {
  std::printf("         %11s %-8s %-9s %10s %10s %8s   ns an entry, 40 a row\n", "features", "draw", "link", "exact",
              "float", "ratio");
  for (const uint64_t count : features) {
    for (const bool zipf : {false, true}) {
      for (const Link link : {Link::kIdentity, Link::kSigmoid}) OneCore(count, link, zipf);
    }
  }
  for (const uint32_t outputs : {3U, 30U, 1000U}) {
    Wide(outputs, Link::kSigmoid, 0);
    Wide(outputs, Link::kSoftmax, 0);
    if (outputs > 10) Wide(outputs, Link::kIdentity, 10);
    if (outputs > 10) Wide(outputs, Link::kSoftmax, 10);
  }
  for (const uint32_t rows : {10U, 100U, 1000U, 10000U, 200000U}) Pool(threads, rows);
}

}  // namespace
}  // namespace widelane

int main(int argc, char** argv) {
  const size_t threads = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : widelane::UsableCores();
  std::vector<uint64_t> features;
  for (int i = 2; i < argc; ++i) features.push_back(std::strtoull(argv[i], nullptr, 10));
  if (features.empty()) features = {54000, 16000000, 100000000};
  if (threads == 0 || std::count(features.begin(), features.end(), 0U) > 0) {
    std::fprintf(stderr, "usage: cpu_bench [THREADS] [FEATURES...]\n");
    return 2;
  }
  widelane::Run(threads, features);
  return 0;
}
