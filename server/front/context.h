// What the RPCs work with.

#ifndef WIDELANE_SERVER_FRONT_CONTEXT_H_
#define WIDELANE_SERVER_FRONT_CONTEXT_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "server/batching/batcher.h"
#include "server/batching/clock.h"
#include "server/config/config.h"
#include "server/models/registry.h"
#include "server/observe/metrics.h"
#include "server/observe/request_log.h"
#include "server/observe/trace/tracer.h"

namespace widelane {

// Bounds what is in the server at once. Any thread.
class Admission {
 public:
  explicit Admission(const LimitsConfig& limits) : limits_(limits) {}

  // Takes a request in, or RESOURCE_EXHAUSTED.
  absl::Status Enter();
  uint64_t requests() const { return requests_.load(std::memory_order_relaxed); }
  void Leave() { requests_.fetch_sub(1, std::memory_order_relaxed); }
  // Takes bytes of a request, or RESOURCE_EXHAUSTED.
  absl::Status TakeBytes(uint64_t bytes);
  void GiveBytes(uint64_t bytes) { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  // The same for its rows, once they are known.
  absl::Status TakeRows(uint64_t rows);
  void GiveRows(uint64_t rows) { rows_.fetch_sub(rows, std::memory_order_relaxed); }
  // The same for a reply.
  absl::Status TakeReplyBytes(uint64_t bytes);
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t rows() const { return rows_.load(std::memory_order_relaxed); }
  uint64_t reply_bytes() const { return reply_bytes_.load(std::memory_order_relaxed); }
  void GiveReplyBytes(uint64_t bytes) { reply_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  const LimitsConfig& limits_;
  std::atomic<uint64_t> requests_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> rows_{0};
  std::atomic<uint64_t> reply_bytes_{0};
};

struct FrontContext {
  FrontContext(const ServerConfig& server_config, Metrics& server_metrics, const Registry& server_registry,
               Clock& server_clock, Tracer& server_tracer)
      : config(server_config),
        metrics(server_metrics),
        registry(server_registry),
        clock(server_clock),
        tracer(server_tracer),
        admission(server_config.limits),
        request_log(server_config.log.slow_request, server_metrics) {}

  const ServerConfig& config;
  Metrics& metrics;
  const Registry& registry;
  Clock& clock;
  Tracer& tracer;
  Admission admission;
  RequestLog request_log;
  // Set once the engine stands, the engine first, and before any model is available.
  std::atomic<Engine*> engine{nullptr};
  std::atomic<Batcher*> batcher{nullptr};
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_CONTEXT_H_
