// The table of all options: name, help, how the value is read and how the default is shown.

#ifndef WIDELANE_SERVER_CONFIG_OPTIONS_H_
#define WIDELANE_SERVER_CONFIG_OPTIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "server/config/config.h"

namespace widelane {

struct Option {
  std::string name;
  std::string help;
  bool repeatable = false;
  // Stores the value. Returns what is wrong with it ("must be ..."), or nothing.
  std::function<std::string(ServerConfig& config, const std::string& value)> read;
  // The value in `config`, as it would be written.
  std::function<std::string(const ServerConfig& config)> show;
};

const std::vector<Option>& Options();

// Problems that only show when all options are known.
std::vector<std::string> CheckTogether(const ServerConfig& config);

}  // namespace widelane

#endif  // WIDELANE_SERVER_CONFIG_OPTIONS_H_
