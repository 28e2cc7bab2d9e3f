// Runs programs for the tests of commands.

#ifndef WIDELANE_TESTS_CLIENT_RUN_PROGRAM_H_
#define WIDELANE_TESTS_CLIENT_RUN_PROGRAM_H_

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace widelane {

struct Result {
  int exit_status;  // -1: it ended otherwise
  std::string out;
  std::string err;
};

inline std::string Slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// `line` is a line of the shell; `folder` takes what it writes.
inline Result RunProgram(const std::string& line, const std::string& folder) {
  const int status = std::system((line + " >" + folder + "/out 2>" + folder + "/err").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Slurp(folder + "/out"), Slurp(folder + "/err")};
}

}  // namespace widelane

#endif  // WIDELANE_TESTS_CLIENT_RUN_PROGRAM_H_
