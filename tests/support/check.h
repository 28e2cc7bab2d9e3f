// What tests need before they can test anything: it is there, or the program stops and says what is missing.

#ifndef WIDELANE_TESTS_SUPPORT_CHECK_H_
#define WIDELANE_TESTS_SUPPORT_CHECK_H_

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace widelane::test {

inline void Require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "test set-up failed: %s\n", what.c_str());
  std::abort();
}

inline void Require(const absl::Status& status) { Require(status.ok(), status.ToString()); }

template <typename T>
T Must(absl::StatusOr<T> result) {
  Require(result.status());
  return *std::move(result);
}

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_CHECK_H_
