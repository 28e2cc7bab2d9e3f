// How the process logs: lines of text, or JSON objects, on standard error.

#ifndef WIDELANE_SERVER_OBSERVE_LOG_H_
#define WIDELANE_SERVER_OBSERVE_LOG_H_

#include <string>

#include "server/config/config.h"

namespace widelane {

// Sets up the process's default logger, and sends gRPC's own messages there. Once, before other threads start.
void StartLogging(const LogConfig& config);

// From which level on lines are written, in the words of --log-level. Any thread, at any time.
std::string LogLevel();
// False for a word that is none of them.
bool SetLogLevel(const std::string& level);

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_LOG_H_
