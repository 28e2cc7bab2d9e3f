// Makes a ServerConfig from the command line, WIDELANE_* variables and a TOML file, in this order of precedence.

#ifndef WIDELANE_SERVER_CONFIG_COMMAND_LINE_H_
#define WIDELANE_SERVER_CONFIG_COMMAND_LINE_H_

#include <functional>
#include <string>
#include <vector>

#include "server/config/config.h"

namespace widelane {

// Value of an environment variable, or null.
using Environment = std::function<const char*(const char* name)>;

struct CommandLine {
  enum class Action { kRun, kPrint, kRefuse };
  Action action = Action::kRun;
  ServerConfig config;                // for kRun; complete and checked
  std::string text;                   // for kPrint: help or version
  std::vector<std::string> problems;  // for kRefuse: all of them, one sentence each
};

// `arguments` without the program's name.
CommandLine ParseCommandLine(const std::vector<std::string>& arguments, const Environment& environment);

// What an option is called and what it does if it is not given, for documents and their tests.
struct OptionFacts {
  std::string name;           // without dashes: "grpc-address"
  std::string variable;       // "WIDELANE_GRPC_ADDRESS"
  std::string default_value;  // as it would be written
  std::string help;
};
std::vector<OptionFacts> ListOptions();

}  // namespace widelane

#endif  // WIDELANE_SERVER_CONFIG_COMMAND_LINE_H_
