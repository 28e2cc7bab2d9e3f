#include "cpu/cpu_features.h"

#include "absl/strings/str_cat.h"

namespace widelane::cpu {

namespace {

#if defined(WIDELANE_X86)
bool HasAvx2() { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }
bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}
constexpr RowKernels kAvx2 = {avx2::ScoreRows, "avx2"};
constexpr RowKernels kAvx512 = {avx512::ScoreRows, "avx512"};
#else
bool HasAvx2() { return false; }
bool HasAvx512() { return false; }
constexpr RowKernels kAvx2 = {nullptr, "avx2"};
constexpr RowKernels kAvx512 = {nullptr, "avx512"};
#endif
constexpr RowKernels kPlain = {plain::ScoreRows, "plain"};

absl::Status Missing(const RowKernels& kernels) {
  return absl::FailedPreconditionError(absl::StrCat("instruction set: this processor has no ", kernels.name));
}

}  // namespace

absl::StatusOr<RowKernels> ChooseRowKernels(InstructionSet set) {
  switch (set) {
    case InstructionSet::kPlain:
      return kPlain;
    case InstructionSet::kAvx2:
      if (!HasAvx2()) return Missing(kAvx2);
      return kAvx2;
    case InstructionSet::kAvx512:
      if (!HasAvx512()) return Missing(kAvx512);
      return kAvx512;
    case InstructionSet::kBest:
      break;
  }
  if (HasAvx512()) return kAvx512;
  if (HasAvx2()) return kAvx2;
  return kPlain;
}

}  // namespace widelane::cpu
