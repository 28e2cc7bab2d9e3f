// The widelane-server process. Exit codes: 0 stopped as asked, 1 it could not start, 2 wrong usage.

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/config/command_line.h"
#include "server/observe/log.h"
#include "server/server.h"

namespace {

constexpr int kCouldNotStart = 1;
constexpr int kWrongUsage = 2;

// Blocked in every thread, since threads inherit it, and taken by sigtimedwait alone.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// Shuts down at the first signal, and hurries at the next.
void RunUntilStopped(widelane::Server& server, const sigset_t& signals) {
  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info("got {}", signal == SIGTERM ? "SIGTERM" : "SIGINT");
  std::atomic<bool> stopped{false};
  std::thread stopper([&] {
    server.Shutdown();
    stopped = true;
  });
  constexpr timespec kTick{0, 20'000'000};
  while (!stopped) {
    if (sigtimedwait(&signals, nullptr, &kTick) > 0) {
      spdlog::info("got another signal, hurrying");
      server.HurryShutdown();
    }
  }
  stopper.join();
}

}  // namespace

int main(int argc, char** argv) {
  using widelane::CommandLine;
  const CommandLine command_line =
      widelane::ParseCommandLine(std::vector<std::string>(argv + 1, argv + argc),
                                 [](const char* name) -> const char* { return std::getenv(name); });
  if (command_line.action == CommandLine::Action::kPrint) {
    std::fputs(command_line.text.c_str(), stdout);
    return 0;
  }
  if (command_line.action == CommandLine::Action::kRefuse) {
    for (const std::string& problem : command_line.problems)
      std::fprintf(stderr, "widelane-server: %s\n", problem.c_str());
    std::fputs("widelane-server: --help lists all options\n", stderr);
    return kWrongUsage;
  }
  const sigset_t signals = BlockStopSignals();
  widelane::StartLogging(command_line.config.log);
  auto server = widelane::Server::Start(command_line.config);
  if (!server.ok()) {
    spdlog::error("cannot start: {}", std::string(server.status().message()));
    return kCouldNotStart;
  }
  RunUntilStopped(**server, signals);
  return 0;
}
