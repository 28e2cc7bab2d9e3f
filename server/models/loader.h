// Loads the models of a registry one after the other, on a thread of its own.

#ifndef WIDELANE_SERVER_MODELS_LOADER_H_
#define WIDELANE_SERVER_MODELS_LOADER_H_

#include <atomic>
#include <chrono>
#include <thread>

#include "server/models/registry.h"
#include "server/observe/metrics.h"
#include "server/observe/state.h"
#include "widelane/engine/engine.h"

namespace widelane {

class Loader {
 public:
  // Starts at once. All outlive the loader; it alone changes the models' states.
  Loader(Registry& registry, Engine& engine, Metrics& metrics, ServerState& state);
  ~Loader();  // Stop, and waits
  // Leaves the models that are not being loaded yet. Any thread.
  void Stop() { stop_ = true; }

 private:
  void Run();
  void LoadOne(ServedModel& model);
  void LogLoaded(const ServedModel& model, std::chrono::nanoseconds time) const;

  Registry& registry_;
  Engine& engine_;
  Metrics& metrics_;
  ServerState& state_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_MODELS_LOADER_H_
