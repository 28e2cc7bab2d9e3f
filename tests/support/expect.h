// Expectations the tests share.

#ifndef WIDELANE_TESTS_SUPPORT_EXPECT_H_
#define WIDELANE_TESTS_SUPPORT_EXPECT_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/rpc.h"

namespace widelane::test {

// Sanitizers make everything slower: tests that are large for their own sake do less then.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline constexpr double kTolerance = 1e-6;

template <typename Numbers>
void ExpectNear(const Numbers& actual, const std::vector<double>& expected, double tolerance = kTolerance) {
  ASSERT_EQ(static_cast<size_t>(actual.size()), expected.size());
  size_t i = 0;
  for (const auto number : actual) {
    EXPECT_NEAR(number, expected[i], tolerance) << "number " << i;
    ++i;
  }
}

inline void ExpectOk(const grpc::Status& status) {
  EXPECT_TRUE(status.ok()) << "code " << status.error_code() << ": " << status.error_message();
}

// `code`, and a message with each of `parts`.
inline void ExpectError(const grpc::Status& status, grpc::StatusCode code, const std::vector<std::string>& parts = {}) {
  EXPECT_EQ(status.error_code(), code) << status.error_message();
  for (const std::string& part : parts) {
    EXPECT_NE(status.error_message().find(part), std::string::npos)
        << "no '" << part << "' in: " << status.error_message();
  }
}

// INVALID_ARGUMENT whose BadRequest names one field, which begins with `field`.
inline void ExpectBadField(const grpc::Status& status, const std::string& field,
                           const std::vector<std::string>& parts = {}) {
  ExpectError(status, grpc::StatusCode::INVALID_ARGUMENT, parts);
  const std::vector<std::string> fields = BadFields(status);
  ASSERT_EQ(fields.size(), 1u) << status.error_message();
  EXPECT_EQ(fields[0].rfind(field, 0), 0u) << "the field is " << fields[0] << ": " << status.error_message();
}

// Long enough for whatever is to happen on a machine that is busy.
inline constexpr std::chrono::seconds kPatience{30};

// Whether `condition` becomes true within the time.
template <typename Condition>
bool Eventually(Condition condition, std::chrono::milliseconds timeout = kPatience) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_EXPECT_H_
