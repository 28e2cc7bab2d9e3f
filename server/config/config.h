// Settings of the server, one struct per component. Each default is written here and nowhere else; the command line,
// the TOML file and the WIDELANE_* variables are made from the same table (options.cc), and the README's table is
// checked against it.

#ifndef WIDELANE_SERVER_CONFIG_CONFIG_H_
#define WIDELANE_SERVER_CONFIG_CONFIG_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/batching/batcher.h"
#include "server/observe/gpu_telemetry.h"
#include "widelane/engine/options.h"

namespace widelane {

struct FrontConfig {
  std::string grpc_address = "0.0.0.0:8600";  // host:port or unix:/path, several separated by commas
  uint32_t unix_mode = 0660;                  // of sockets
  std::string http_address = "0.0.0.0:8601";  // empty: no HTTP endpoint
  size_t completion_queues = 0;               // 0: one for every four usable cores, at least one
  size_t threads_per_queue = 2;
  bool reflection = true;
  size_t connection_calls = 1024;                  // at once, on one connection
  uint64_t grpc_memory_bytes = uint64_t{2} << 30;  // for messages that arrive; gRPC drops calls beyond it
  uint64_t stream_requests = 256;                  // of one stream at once; no more are read
  std::chrono::milliseconds stream_stall{10000};   // a client that takes no reply for so long loses its stream
  std::chrono::milliseconds keepalive{60000};      // an idle connection is asked for a sign of life
  std::chrono::milliseconds keepalive_timeout{20000};
  std::chrono::milliseconds min_ping_interval{10000};    // of clients
  std::chrono::milliseconds max_connection_age{300000};  // 0: any
  std::chrono::milliseconds max_connection_age_grace{600000};
};

// Of the gRPC port. Both files, or neither: plain text.
struct TlsConfig {
  std::string certificate;                   // PEM, the server's own first, then those up to its root
  std::string private_key;                   // PEM
  std::string client_ca;                     // PEM; whose clients are taken; empty: all, without a certificate
  std::chrono::milliseconds reload{10'000};  // the files are read this often

  bool enabled() const { return !certificate.empty(); }
};

struct LimitsConfig {
  uint64_t max_message_bytes = 64 << 20;
  uint64_t max_request_rows = 4 << 20;
  uint64_t max_request_entries = 16 << 20;
  uint64_t max_reply_bytes = 256 << 20;
  uint64_t max_queued_requests = 4096;                  // received and not yet answered
  uint64_t max_queued_rows = 16 << 20;                  // of them
  uint64_t max_queued_bytes = 512 << 20;                // of their messages
  uint64_t max_queued_reply_bytes = uint64_t{1} << 30;  // of their replies
};

struct ModelSource {
  std::string name;
  std::string file;
};

struct ModelsConfig {
  std::string repository;           // <repository>/<model>/<version>/model.safetensors; empty: none
  std::vector<ModelSource> models;  // --model NAME=FILE, served as version 1
  bool all_versions = false;        // of the repository; else the newest of each model
};

struct DrainConfig {
  std::chrono::milliseconds delay{500};      // NOT_SERVING is shown this long before the port closes
  std::chrono::milliseconds timeout{20000};  // then requests in flight get this long
};

struct LogConfig {
  std::string level = "info";                    // trace, debug, info, warning, error
  std::string format = "text";                   // text or json
  std::chrono::milliseconds slow_request{1000};  // requests that take so long get a line; 0: none
};

struct MetricsConfig {
  bool on = true;
  bool triton = false;  // Triton's names as well
};

struct ServerConfig {
  FrontConfig front;
  TlsConfig tls;
  LimitsConfig limits;
  ModelsConfig models;
  EngineOptions engine;
  BatchingOptions batching;
  DrainConfig drain;
  LogConfig log;
  MetricsConfig metrics;
  GpuTelemetryOptions telemetry;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_CONFIG_CONFIG_H_
