// The stages a batch goes through, with one word each everywhere.

#ifndef WIDELANE_ENGINE_STAGES_H_
#define WIDELANE_ENGINE_STAGES_H_

#include <array>
#include <chrono>
#include <cstddef>

namespace widelane {

enum class Stage { kQueue, kPack, kLaunch, kTransferIn, kCompute, kTransferOut, kReply };
inline constexpr size_t kStages = 7;
inline constexpr std::array<const char*, kStages> kStageNames = {"queue",   "pack",         "launch", "transfer_in",
                                                                 "compute", "transfer_out", "reply"};

// Time spent in each stage. Where several devices work on one batch, the longest.
struct StageTimes {
  std::array<std::chrono::nanoseconds, kStages> time{};

  std::chrono::nanoseconds& operator[](Stage stage) { return time[static_cast<size_t>(stage)]; }
  const std::chrono::nanoseconds& operator[](Stage stage) const { return time[static_cast<size_t>(stage)]; }
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_STAGES_H_
