// The ways a batch can go, and what each costs.

#ifndef WIDELANE_ENGINE_ROUTE_H_
#define WIDELANE_ENGINE_ROUTE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace widelane {

enum class Route : uint8_t {
  kInline,   // on the calling thread
  kPool,     // on the CPU, by several threads
  kMapped,   // one GPU, which reads the slab in host memory
  kCopied,   // one GPU, which copies the slab first
  kAllGpus,  // cut over several GPUs, each of which copies its part
  kAuto,     // whichever of these is done first
};
inline constexpr size_t kRoutes = 5;  // without kAuto
// By Route.
inline constexpr std::array<const char*, kRoutes + 1> kRouteNames = {"inline", "pool",     "mapped",
                                                                     "copied", "all_gpus", "auto"};

// "inline" and so on; "cpu" is not a route but a device. Errors: INVALID_ARGUMENT listing the names.
absl::StatusOr<Route> ParseRoute(const std::string& text);

// Which arrays a batch has and which results it gives; batches of different kinds are measured apart.
enum class Values : uint8_t {
  kOnes,     // none, all values are 1
  kFloat16,  // each value is exactly a float16
  kFloat32,
};
inline constexpr std::array<const char*, 3> kValuesNames = {"ones", "float16", "float32"};

struct BatchKind {
  Values values = Values::kOnes;
  // 0: scores and raw sums of all outputs. Else only the outputs with the `best` largest raw sums, at most kMaxBest.
  uint32_t best = 0;
  // Whether rows have contexts. Costs are those of the kind without.
  bool contexts = false;

  friend bool operator==(const BatchKind&, const BatchKind&) = default;
};
// More than this are picked on the host from all raw sums.
inline constexpr uint32_t kMaxBest = 128;

// Time of a batch on a route with nothing else to do, in nanoseconds: fixed + rows x row + entries x entry.
struct Cost {
  double fixed_ns = 0;
  double row_ns = 0;
  double entry_ns = 0;

  double Of(uint64_t rows, uint64_t entries) const {
    return fixed_ns + row_ns * static_cast<double>(rows) + entry_ns * static_cast<double>(entries);
  }
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_ROUTE_H_
