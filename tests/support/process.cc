#include "tests/support/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "tests/support/check.h"

namespace widelane::test {
namespace {

std::filesystem::path OwnFolder() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }

std::vector<std::string> Merged(const Process::Environment& environment) {
  std::vector<std::string> merged;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string name(*variable, std::strcspn(*variable, "="));
    if (environment.count(name) == 0) merged.emplace_back(*variable);
  }
  for (const auto& [name, value] : environment) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Pipe {
  std::array<int, 2> ends{};
  // No other program that starts at this moment may inherit them.
  Pipe() { Require(::pipe2(ends.data(), O_CLOEXEC) == 0, "a pipe"); }
};

}  // namespace

std::string BuiltProgram(const std::string& name) { return (OwnFolder() / name).string(); }

std::string BuiltLibrary(const std::string& name) { return (OwnFolder().parent_path() / "lib" / name).string(); }

std::string FindProgram(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = folder + "/" + name;
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

Process::Process(std::vector<std::string> arguments, const Environment& environment) {
  const Pipe out;
  const Pipe err;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], 2);
  std::vector<std::string> variables = Merged(environment);
  start_ = std::chrono::steady_clock::now();
  const int error = ::posix_spawn(&pid_, arguments[0].c_str(), &actions, nullptr, Pointers(arguments).data(),
                                  Pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  Require(error == 0, arguments[0] + " can be started");
  ::close(out.ends[1]);
  ::close(err.ends[1]);
  out_reader_ = std::thread([this, fd = out.ends[0]] { Read(fd, out_); });
  err_reader_ = std::thread([this, fd = err.ends[0]] { Read(fd, err_); });
  reaper_ = std::thread([this] { Reap(); });
}

Process::~Process() {
  Signal(SIGKILL);
  reaper_.join();
}

void Process::Read(int fd, std::string& into) {
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    const std::lock_guard lock(mutex_);
    into.append(buffer.data(), static_cast<size_t>(count));
    changed_.notify_all();
  }
  ::close(fd);
}

void Process::Reap() {
  // WNOWAIT: the number stays taken until the exit code is set, so that Signal never meets another process.
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  end_ = std::chrono::steady_clock::now();
  out_reader_.join();
  err_reader_.join();
  const std::lock_guard lock(mutex_);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  changed_.notify_all();
}

std::optional<std::string> Process::WaitForLine(const std::string& part, std::chrono::milliseconds timeout) {
  const auto find = [&](const std::string& text) -> std::optional<std::string> {
    const size_t at = text.find(part);
    if (at == std::string::npos) return std::nullopt;
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) return std::nullopt;
    return text.substr(at + part.size(), end - at - part.size());
  };
  std::unique_lock lock(mutex_);
  std::optional<std::string> rest;
  changed_.wait_for(lock, timeout, [&] {
    rest = find(out_);
    if (!rest) rest = find(err_);
    return rest || exit_code_;
  });
  return rest;
}

std::optional<int> Process::WaitForExit(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return exit_code_.has_value(); });
  return exit_code_;
}

void Process::Signal(int signal) const {
  const std::lock_guard lock(mutex_);
  if (!exit_code_) ::kill(pid_, signal);
}

std::string Process::out() const {
  const std::lock_guard lock(mutex_);
  return out_;
}

std::string Process::err() const {
  const std::lock_guard lock(mutex_);
  return err_;
}

std::chrono::milliseconds Process::run_time() const {
  const std::lock_guard lock(mutex_);
  const auto end = exit_code_ ? end_ : std::chrono::steady_clock::now();
  return std::chrono::duration_cast<std::chrono::milliseconds>(end - start_);
}

Finished RunProgram(std::vector<std::string> arguments, const Process::Environment& environment,
                    std::chrono::milliseconds timeout) {
  Process process(std::move(arguments), environment);
  const std::optional<int> code = process.WaitForExit(timeout);
  return {code.value_or(-1), process.out(), process.err(), process.run_time()};
}

}  // namespace widelane::test
