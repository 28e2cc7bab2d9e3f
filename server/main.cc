// The widelane-server process. Exit codes: 0 stopped as asked, 1 it could not start or not stop in time, 2 wrong usage.

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "server/config/command_line.h"
#include "server/observe/log.h"
#include "server/server.h"

namespace {

constexpr int kCouldNotStart = 1;
constexpr int kCouldNotStop = 1;
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

using Clock = std::chrono::steady_clock;
using StartedServer = absl::StatusOr<std::unique_ptr<widelane::Server>>;

// Turns signals into a stop that ends: in order if it can be had, and else by leaving what hangs behind.
class Stopper {
 public:
  Stopper(const widelane::ServerConfig& config, const sigset_t& signals) : drain_(config.drain), signals_(signals) {}

  // Waits until `done` says so; true when a signal has come by then. Does not come back from a stop that hangs.
  template <typename T>
  bool Wait(const std::future<T>& done, widelane::Server* server) {
    constexpr timespec kTick{0, 20'000'000};
    while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      if (const int signal = sigtimedwait(&signals_, nullptr, &kTick); signal > 0) OnSignal(signal, server);
      if (Clock::now() >= deadline_) GiveUp();
    }
    return signals_seen_ > 0;
  }
  // Waits for the first signal, unless it has come.
  void WaitForSignal() {
    int signal = 0;
    if (signals_seen_ > 0 || sigwait(&signals_, &signal) != 0) return;
    OnSignal(signal, nullptr);
  }
  // The server has started, and stops from now on: it may take its time.
  void BeginDrain(widelane::Server& server) {
    if (signals_seen_ > 1) server.HurryShutdown();
    if (signals_seen_ == 1) deadline_ = Clock::now() + drain_.delay + drain_.timeout + kGrace;
  }

 private:
  static constexpr std::chrono::seconds kGrace{5};
  static constexpr std::chrono::seconds kHurriedGrace{3};

  void OnSignal(int signal, widelane::Server* server) {
    ++signals_seen_;
    spdlog::info("got {}{}", signal == SIGTERM ? "SIGTERM" : "SIGINT", signals_seen_ > 1 ? " again, hurrying" : "");
    if (signals_seen_ == 1) {
      deadline_ = Clock::now() + kGrace;
    } else {
      deadline_ = std::min(deadline_, Clock::now() + kHurriedGrace);
    }
    if (signals_seen_ > 1 && server != nullptr) server->HurryShutdown();
  }

  [[noreturn]] static void GiveUp() {
    spdlog::critical("could not stop in time; leaving what hangs behind");
    spdlog::default_logger()->flush();
    _exit(kCouldNotStop);
  }

  const widelane::DrainConfig drain_;
  const sigset_t signals_;
  int signals_seen_ = 0;
  Clock::time_point deadline_ = Clock::time_point::max();
};

int Run(const widelane::ServerConfig& config, const sigset_t& signals) {
  Stopper stopper(config, signals);
  std::future<StartedServer> starting =
      std::async(std::launch::async, [&config] { return widelane::Server::Start(config); });
  const bool stop_already = stopper.Wait(starting, nullptr);
  StartedServer server = starting.get();
  if (!server.ok()) {
    spdlog::error("cannot start: {}", std::string(server.status().message()));
    return kCouldNotStart;
  }
  if (!stop_already) stopper.WaitForSignal();
  stopper.BeginDrain(**server);
  const std::future<void> stopping = std::async(std::launch::async, [&server] { (*server)->Shutdown(); });
  stopper.Wait(stopping, server->get());
  return 0;
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
  return Run(command_line.config, signals);
}
