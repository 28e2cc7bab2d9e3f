// What a fuzz target asserts. Unlike assert it is there in every build.

#ifndef WIDELANE_TESTS_FUZZ_CHECK_H_
#define WIDELANE_TESTS_FUZZ_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define FUZZ_CHECK(condition)                                                            \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

#endif  // WIDELANE_TESTS_FUZZ_CHECK_H_
