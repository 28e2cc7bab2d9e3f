// Times as people and JSON get them.

#ifndef WIDELANE_CLIENT_CLI_MICROSECONDS_H_
#define WIDELANE_CLIENT_CLI_MICROSECONDS_H_

#include <chrono>

namespace widelane::cli {

inline double Microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_MICROSECONDS_H_
