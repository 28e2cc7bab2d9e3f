// Lines with fields.

#ifndef WIDELANE_SERVER_OBSERVE_LOG_FIELDS_H_
#define WIDELANE_SERVER_OBSERVE_LOG_FIELDS_H_

#include <spdlog/formatter.h>

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace widelane {

// What makes a line of "text", or a JSON object.
std::unique_ptr<spdlog::formatter> MakeLogFormatter(const std::string& format);

// In JSON each field is a key of its own, in text " key=value" behind the message, strings in quotes. Any thread.
void LogWithFields(spdlog::level::level_enum level, const std::string& message, const nlohmann::ordered_json& fields);

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_LOG_FIELDS_H_
