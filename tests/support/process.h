// Programs run beside the test: started without a shell, watched line by line, and gone when the object goes.

#ifndef WIDELANE_TESTS_SUPPORT_PROCESS_H_
#define WIDELANE_TESTS_SUPPORT_PROCESS_H_

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace widelane::test {

// A program that was built beside the test's own.
std::string BuiltProgram(const std::string& name);
// A file of the build's lib folder.
std::string BuiltLibrary(const std::string& name);
// Where a program of the system is; empty if it is not installed.
std::string FindProgram(const std::string& name);

class Process {
 public:
  using Environment = std::map<std::string, std::string>;

  // Starts `arguments[0]` with the test's own environment and these variables on top.
  explicit Process(std::vector<std::string> arguments, const Environment& environment = {});
  ~Process();  // SIGKILL, if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Waits for a line (of stdout or stderr) with `part` and returns what follows `part` on it. Absent when the program
  // ends or the time is over first.
  std::optional<std::string> WaitForLine(const std::string& part, std::chrono::milliseconds timeout);
  // Exit code, or 128 + signal. Absent when the time is over first.
  std::optional<int> WaitForExit(std::chrono::milliseconds timeout);
  void Signal(int signal) const;
  int pid() const { return pid_; }

  // What it has written so far.
  std::string out() const;
  std::string err() const;
  std::string all() const { return out() + err(); }
  // From start to exit.
  std::chrono::milliseconds run_time() const;

 private:
  void Read(int fd, std::string& into);
  void Reap();

  int pid_ = -1;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point end_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string out_;
  std::string err_;
  std::optional<int> exit_code_;
  std::thread out_reader_;
  std::thread err_reader_;
  std::thread reaper_;
};

struct Finished {
  int exit_code = -1;  // -1: did not end in time
  std::string out;
  std::string err;
  std::chrono::milliseconds time{0};
};
Finished RunProgram(std::vector<std::string> arguments, const Process::Environment& environment = {},
                    std::chrono::milliseconds timeout = std::chrono::seconds(120));

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_PROCESS_H_
