#include "server/config/options.h"

#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/config/address.h"
#include "server/models/repository.h"
#include "widelane/engine/route.h"

namespace widelane {

namespace {

constexpr uint64_t kMostMessageBytes = (uint64_t{1} << 31) - (1 << 20);  // protobuf's own limit, less what gRPC adds

constexpr char kAutomatic[] = "auto";

// A whole number somewhere in the config.
template <typename Get>
Option Number(const char* name, const char* help, uint64_t least, uint64_t most, Get get) {
  using T = std::decay_t<decltype(get(std::declval<ServerConfig&>()))>;
  Option option{name, help, false, nullptr, nullptr};
  option.read = [=](ServerConfig& config, const std::string& value) -> std::string {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(value, &number) || number < least || number > most) {
      return absl::StrCat("must be a whole number from ", least, " to ", most);
    }
    get(config) = static_cast<T>(number);
    return "";
  };
  option.show = [=](const ServerConfig& config) { return absl::StrCat(get(const_cast<ServerConfig&>(config))); };
  return option;
}

template <typename Get>
Option Milliseconds(const char* name, const char* help, Get get, uint64_t least = 0) {
  constexpr uint64_t kMost = 86'400'000;
  Option option{name, help, false, nullptr, nullptr};
  option.read = [=](ServerConfig& config, const std::string& value) -> std::string {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(value, &number) || number < least || number > kMost) {
      return absl::StrCat("must be a number of milliseconds from ", least, " to ", kMost);
    }
    get(config) = std::chrono::milliseconds(number);
    return "";
  };
  option.show = [=](const ServerConfig& config) {
    return absl::StrCat(get(const_cast<ServerConfig&>(config)).count());
  };
  return option;
}

template <typename T>
struct Choice {
  const char* name;
  T value;
};

template <typename Get, typename T, size_t kCount>
Option OneOf(const char* name, const char* help, Get get, const Choice<T> (&list)[kCount]) {
  const std::vector<Choice<T>> choices(list, list + kCount);
  Option option{name, help, false, nullptr, nullptr};
  option.read = [=](ServerConfig& config, const std::string& value) -> std::string {
    for (const Choice<T>& choice : choices) {
      if (value != choice.name) continue;
      get(config) = choice.value;
      return "";
    }
    return absl::StrCat("must be one of ", absl::StrJoin(choices, ", ", [](std::string* out, const Choice<T>& choice) {
                          absl::StrAppend(out, choice.name);
                        }));
  };
  option.show = [=](const ServerConfig& config) -> std::string {
    for (const Choice<T>& choice : choices) {
      if (get(const_cast<ServerConfig&>(config)) == choice.value) return choice.name;
    }
    return "";
  };
  return option;
}

template <typename Get>
Option Address(const char* name, const char* help, bool may_be_empty, Get get) {
  Option option{name, help, false, nullptr, nullptr};
  option.read = [=](ServerConfig& config, const std::string& value) -> std::string {
    if (!(may_be_empty && value.empty()) && !ParseHostPort(value).has_value()) {
      return "must be HOST:PORT, with brackets around an IPv6 address";
    }
    get(config) = value;
    return "";
  };
  option.show = [=](const ServerConfig& config) { return get(const_cast<ServerConfig&>(config)); };
  return option;
}

Option GrpcAddress() {
  Option option{"grpc-address",
                "Where gRPC listens: HOST:PORT (port 0: any) or unix:/PATH, several separated by commas", false,
                nullptr, nullptr};
  option.read = [](ServerConfig& config, const std::string& value) -> std::string {
    for (const std::string& address : SplitAddresses(value)) {
      if (ParseHostPort(address).has_value() || ParseUnixPath(address).has_value()) continue;
      return "must be HOST:PORT, with brackets around an IPv6 address, or unix:/PATH of at most 107 bytes";
    }
    config.front.grpc_address = value;
    return "";
  };
  option.show = [](const ServerConfig& config) { return config.front.grpc_address; };
  return option;
}

template <typename Get>
Option File(const char* name, const char* help, Get get) {
  Option option{name, help, false, nullptr, nullptr};
  option.read = [=](ServerConfig& config, const std::string& value) -> std::string {
    get(config) = value;
    return "";
  };
  option.show = [=](const ServerConfig& config) { return get(const_cast<ServerConfig&>(config)); };
  return option;
}

Option UnixMode() {
  constexpr uint32_t kMost = 0777;
  Option option{"unix-mode", "Who may connect to unix: sockets, as file permissions in octal digits", false, nullptr,
                nullptr};
  option.read = [](ServerConfig& config, const std::string& value) -> std::string {
    uint32_t mode = 0;
    const bool digits = !value.empty() && value.size() <= 4 && value.find_first_not_of("01234567") == std::string::npos;
    for (const char digit : value) mode = 8 * mode + static_cast<uint32_t>(digit - '0');
    if (!digits || mode > kMost) return "must be octal digits up to 777";
    config.front.unix_mode = mode;
    return "";
  };
  option.show = [](const ServerConfig& config) { return absl::StrFormat("%04o", config.front.unix_mode); };
  return option;
}

Option MaxQueueDelay() {
  constexpr uint64_t kMost = 10'000'000;
  Option option{"max-queue-delay-us", "How long a batch that waits for a device stays open for more requests", false,
                nullptr, nullptr};
  option.read = [](ServerConfig& config, const std::string& value) -> std::string {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(value, &number) || number > kMost) {
      return absl::StrCat("must be a number of microseconds from 0 to ", kMost);
    }
    config.batching.max_delay = std::chrono::microseconds(number);
    return "";
  };
  option.show = [](const ServerConfig& config) { return absl::StrCat(config.batching.max_delay.count()); };
  return option;
}

Option Devices() {
  Option option{"devices",
                "What scores: auto (the CPU and all GPUs, whichever is done first), cpu, gpu (all GPUs), or a list of "
                "GPUs such as 0,2",
                false, nullptr, nullptr};
  option.read = [](ServerConfig& config, const std::string& value) -> std::string {
    const auto selection = ParseDevices(value);
    if (!selection.ok()) return std::string(selection.status().message());
    config.engine.devices = *selection;
    return "";
  };
  option.show = [](const ServerConfig& config) -> std::string {
    switch (config.engine.devices.kind) {
      case DeviceSelection::Kind::kAuto:
        return "auto";
      case DeviceSelection::Kind::kCpu:
        return "cpu";
      case DeviceSelection::Kind::kGpu:
        return "gpu";
      case DeviceSelection::Kind::kList:
        break;
    }
    return absl::StrJoin(config.engine.devices.gpus, ",");
  };
  return option;
}

Option RouteOption() {
  Option option{"route",
                "Where batches go: auto (where they will be done first, by measured costs), inline, pool, mapped, "
                "copied or all_gpus",
                false, nullptr, nullptr};
  option.read = [](ServerConfig& config, const std::string& value) -> std::string {
    const auto route = ParseRoute(value);
    if (!route.ok()) return absl::StrCat("must be one of ", absl::StrJoin(kRouteNames, ", "));
    config.engine.route = *route;
    return "";
  };
  option.show = [](const ServerConfig& config) { return kRouteNames[static_cast<size_t>(config.engine.route)]; };
  return option;
}

Option SpinMicroseconds() {
  Option option{
      "spin-microseconds",
      "How long an idle scoring thread looks for work before it sleeps; auto: 50 with at least 4 cores and no CPU "
      "quota, else 0",
      false, nullptr, nullptr};
  option.read = [](ServerConfig& config, const std::string& value) -> std::string {
    size_t number = 0;
    if (value == kAutomatic) {
      config.engine.spin_microseconds.reset();
    } else if (absl::SimpleAtoi(value, &number) && number <= EngineLimits::kMaxSpinMicroseconds) {
      config.engine.spin_microseconds = number;
    } else {
      return absl::StrCat("must be ", kAutomatic, " or a whole number from 0 to ", EngineLimits::kMaxSpinMicroseconds);
    }
    return "";
  };
  option.show = [](const ServerConfig& config) -> std::string {
    const std::optional<size_t>& spin = config.engine.spin_microseconds;
    return spin.has_value() ? absl::StrCat(*spin) : kAutomatic;
  };
  return option;
}

Option Repository() {
  Option option{"model-repository", "Folder with DIR/MODEL/VERSION/model.safetensors", false, nullptr, nullptr};
  option.read = [](ServerConfig& config, const std::string& value) -> std::string {
    config.models.repository = value;
    return "";
  };
  option.show = [](const ServerConfig& config) { return config.models.repository; };
  return option;
}

Option ModelFiles() {
  Option option{"model", "A model file to serve, NAME=FILE, as version 1; may be given several times", true, nullptr,
                nullptr};
  option.read = [](ServerConfig& config, const std::string& value) -> std::string {
    const size_t equals = value.find('=');
    if (equals == std::string::npos || equals + 1 == value.size()) return "must be NAME=FILE";
    const std::string name = value.substr(0, equals);
    if (!IsModelName(name)) return "must have a name of up to 128 of A-Z a-z 0-9 . _ - that does not begin with a dot";
    config.models.models.push_back({name, value.substr(equals + 1)});
    return "";
  };
  option.show = [](const ServerConfig&) { return std::string(); };
  return option;
}

std::vector<Option> MakeOptions() {
  constexpr uint64_t kMost64 = std::numeric_limits<int64_t>::max();
  constexpr uint64_t kMost32 = std::numeric_limits<int32_t>::max();
  constexpr uint64_t kMostThreads = 4096;
  constexpr uint64_t kMostStreamRequests = 65536;
  static constexpr Choice<bool> kBools[] = {{"true", true}, {"false", false}};
  static constexpr Choice<bool> kVersions[] = {{"latest", false}, {"all", true}};
  static constexpr Choice<InstructionSet> kSets[] = {{"best", InstructionSet::kBest},
                                                     {"plain", InstructionSet::kPlain},
                                                     {"avx2", InstructionSet::kAvx2},
                                                     {"avx512", InstructionSet::kAvx512}};
  static constexpr Choice<SumKernel> kKernels[] = {{"exact", SumKernel::kExact}, {"cusparse", SumKernel::kCusparse}};
  static const Choice<std::string> kLevels[] = {
      {"trace", "trace"}, {"debug", "debug"}, {"info", "info"}, {"warning", "warning"}, {"error", "error"}};
  static const Choice<std::string> kFormats[] = {{"text", "text"}, {"json", "json"}};
  using C = ServerConfig;
  using Ms = std::chrono::milliseconds;
  return {
      Repository(),
      ModelFiles(),
      OneOf(
          "model-versions", "Versions of the repository to serve: latest or all",
          [](C& c) -> bool& { return c.models.all_versions; }, kVersions),
      Devices(),
      GrpcAddress(),
      UnixMode(),
      Address("http-address", "HOST:PORT of /metrics, /healthz, /readyz, /trace and /log; empty: none", true,
              [](C& c) -> std::string& { return c.front.http_address; }),
      File("tls-certificate",
           "PEM file of the certificate that gRPC's HOST:PORT shows, with those up to its root; empty: plain text",
           [](C& c) -> std::string& { return c.tls.certificate; }),
      File("tls-private-key", "PEM file of its private key, not encrypted",
           [](C& c) -> std::string& { return c.tls.private_key; }),
      File("tls-client-ca", "PEM file of who vouches for clients, which then need a certificate; empty: they need none",
           [](C& c) -> std::string& { return c.tls.client_ca; }),
      Number("completion-queues", "gRPC completion queues; 0: one for every four cores", 0, kMostThreads,
             [](C& c) -> size_t& { return c.front.completion_queues; }),
      Number("threads-per-queue", "Threads of each completion queue", 1, kMostThreads,
             [](C& c) -> size_t& { return c.front.threads_per_queue; }),
      OneOf(
          "reflection", "gRPC reflection: true or false", [](C& c) -> bool& { return c.front.reflection; }, kBools),
      Number("connection-calls", "Most calls of one connection at once", 1, kMost32,
             [](C& c) -> size_t& { return c.front.connection_calls; }),
      Number("grpc-memory-bytes", "Memory for messages that are arriving; beyond it gRPC drops calls", 16 << 20,
             kMost64, [](C& c) -> uint64_t& { return c.front.grpc_memory_bytes; }),
      Number("stream-requests", "Most unanswered requests of a stream; while there are as many, no more are read", 1,
             kMostStreamRequests, [](C& c) -> uint64_t& { return c.front.stream_requests; }),
      Milliseconds(
          "stream-stall-ms", "A stream whose client takes no reply for so long is ended",
          [](C& c) -> Ms& { return c.front.stream_stall; }, 1),
      Milliseconds(
          "keepalive-ms", "A connection without traffic for so long is asked for a sign of life",
          [](C& c) -> Ms& { return c.front.keepalive; }, 1000),
      Milliseconds(
          "keepalive-timeout-ms", "A connection that gives none for so long is closed",
          [](C& c) -> Ms& { return c.front.keepalive_timeout; }, 1),
      Milliseconds("min-ping-interval-ms", "Clients that ping more often, with or without calls, are sent away",
                   [](C& c) -> Ms& { return c.front.min_ping_interval; }),
      Milliseconds("max-connection-age-ms",
                   "Clients are asked to connect anew after so long, so that new servers get a share; 0: never",
                   [](C& c) -> Ms& { return c.front.max_connection_age; }),
      Milliseconds(
          "max-connection-age-grace-ms", "Calls on such a connection get so long, and streams never live longer",
          [](C& c) -> Ms& { return c.front.max_connection_age_grace; }, 1),
      Number("max-message-bytes", "Largest message taken", 1024, kMostMessageBytes,
             [](C& c) -> uint64_t& { return c.limits.max_message_bytes; }),
      Number("max-request-rows", "Most rows of a request", 1, kMost32,
             [](C& c) -> uint64_t& { return c.limits.max_request_rows; }),
      Number("max-request-entries", "Most entries of a request", 1, kMost32,
             [](C& c) -> uint64_t& { return c.limits.max_request_entries; }),
      Number("max-reply-bytes", "Largest reply made", 1024, kMostMessageBytes,
             [](C& c) -> uint64_t& { return c.limits.max_reply_bytes; }),
      Number("max-queued-requests", "Most requests in the server at once", 1, kMost64,
             [](C& c) -> uint64_t& { return c.limits.max_queued_requests; }),
      Number("max-queued-rows", "Most rows of requests in the server at once", 1, kMost64,
             [](C& c) -> uint64_t& { return c.limits.max_queued_rows; }),
      Number("max-queued-bytes", "Most bytes of requests in the server at once", 1024, kMost64,
             [](C& c) -> uint64_t& { return c.limits.max_queued_bytes; }),
      Number("max-queued-reply-bytes", "Most bytes of their replies", 1024, kMost64,
             [](C& c) -> uint64_t& { return c.limits.max_queued_reply_bytes; }),
      Number("slabs", "Batches that may be filling, waiting or running at once", 1, EngineLimits::kMaxSlabs,
             [](C& c) -> size_t& { return c.engine.slabs; }),
      Number("slab-rows", "Rows a batch may hold", 1, EngineLimits::kMaxSlabSize,
             [](C& c) -> uint32_t& { return c.engine.slab.rows; }),
      Number("slab-entries", "Entries a batch may hold; also the longest row", 1, EngineLimits::kMaxSlabSize,
             [](C& c) -> uint32_t& { return c.engine.slab.entries; }),
      Number("slab-results", "Rows times outputs a batch may hold; also the most outputs of a model", 1,
             EngineLimits::kMaxSlabSize, [](C& c) -> uint32_t& { return c.engine.slab.results; }),
      Number("slab-context-sums", "Sums of contexts, times outputs, a batch may hold", 1, EngineLimits::kMaxSlabSize,
             [](C& c) -> uint32_t& { return c.engine.slab.context_sums; }),
      MaxQueueDelay(),
      Number("max-batch-rows", "Rows that are sent together; 0: as many as a batch may hold", 0,
             EngineLimits::kMaxSlabSize, [](C& c) -> uint32_t& { return c.batching.max_rows; }),
      Number("max-batch-entries", "Entries that are sent together; 0: the same; a longer row goes alone", 0,
             EngineLimits::kMaxSlabSize, [](C& c) -> uint32_t& { return c.batching.max_entries; }),
      Number("lanes", "Streams of each GPU", 1, EngineLimits::kMaxLanes,
             [](C& c) -> size_t& { return c.engine.lanes; }),
      Number("cpu-threads", "Threads that score on the CPU; 0: as many as the process may use", 0,
             EngineLimits::kMaxCpuThreads, [](C& c) -> size_t& { return c.engine.cpu_threads; }),
      OneOf(
          "instruction-set", "CPU kernels: best, plain, avx2 or avx512",
          [](C& c) -> InstructionSet& { return c.engine.instruction_set; }, kSets),
      RouteOption(),
      OneOf(
          "kernel", "What sums rows on GPUs: exact, or cusparse, for comparison only: its scores have other bits",
          [](C& c) -> SumKernel& { return c.engine.kernel; }, kKernels),
      Number("lane-bytes", "Memory of each stream of a GPU for entries; larger batches go through it in pieces",
             EngineLimits::kMinLaneBytes, kMost64, [](C& c) -> size_t& { return c.engine.lane_bytes; }),
      Number("gpu-memory-bytes", "Memory of each GPU that models may take; 0: all that is free, less a reserve", 0,
             kMost64, [](C& c) -> uint64_t& { return c.engine.gpu_memory; }),
      SpinMicroseconds(),
      Milliseconds("drain-delay-ms", "At a stop, NOT_SERVING is shown this long before the port closes",
                   [](C& c) -> Ms& { return c.drain.delay; }),
      Milliseconds("drain-timeout-ms", "At a stop, requests in flight get this long",
                   [](C& c) -> Ms& { return c.drain.timeout; }),
      OneOf(
          "log-level", "trace, debug, info, warning or error", [](C& c) -> std::string& { return c.log.level; },
          kLevels),
      OneOf(
          "log-format", "text or json (one object a line)", [](C& c) -> std::string& { return c.log.format; },
          kFormats),
      OneOf(
          "metrics", "Metrics, at /metrics: true or false; without them no call and no batch is counted",
          [](C& c) -> bool& { return c.metrics.on; }, kBools),
      OneOf(
          "triton-metrics", "Triton's nv_inference_* metrics as well: true or false",
          [](C& c) -> bool& { return c.metrics.triton; }, kBools),
      Milliseconds("slow-request-ms", "A request that takes so long gets a line in the log with its stages; 0: none",
                   [](C& c) -> Ms& { return c.log.slow_request; }),
  };
}

// With names there may be several sockets at one port; server/README.md says why that is one too many.
void CheckTlsAddresses(const FrontConfig& config, std::vector<std::string>& problems) {
  bool any = false;
  for (const std::string& address : SplitAddresses(config.grpc_address)) {
    const std::optional<HostPort> port = ParseHostPort(address);
    if (!port.has_value()) continue;
    any = true;
    if (IsNumeric(port->host)) continue;
    problems.push_back(
        absl::StrCat("--grpc-address ", address, ": with --tls-certificate the host must be an IP address"));
  }
  if (any) return;
  problems.emplace_back("--tls-certificate: --grpc-address has no HOST:PORT, and unix: sockets are plain text");
}

void CheckTls(const ServerConfig& config, std::vector<std::string>& problems) {
  const TlsConfig& tls = config.tls;
  if (tls.certificate.empty() != tls.private_key.empty()) {
    problems.emplace_back(tls.certificate.empty() ? "--tls-private-key needs --tls-certificate"
                                                  : "--tls-certificate needs --tls-private-key");
  } else if (!tls.client_ca.empty() && !tls.enabled()) {
    problems.emplace_back("--tls-client-ca needs --tls-certificate and --tls-private-key");
  }
  if (tls.enabled()) CheckTlsAddresses(config.front, problems);
}

}  // namespace

const std::vector<Option>& Options() {
  static const std::vector<Option> options = MakeOptions();
  return options;
}

std::vector<std::string> CheckTogether(const ServerConfig& config) {
  std::vector<std::string> problems;
  if (config.models.repository.empty() && config.models.models.empty()) {
    problems.emplace_back("there is nothing to serve: give --model-repository or --model");
  }
  if (config.limits.max_queued_bytes < config.limits.max_message_bytes) {
    problems.push_back(absl::StrCat("--max-queued-bytes ", config.limits.max_queued_bytes,
                                    " must not be less than --max-message-bytes ", config.limits.max_message_bytes));
  }
  if (config.limits.max_queued_reply_bytes < config.limits.max_reply_bytes) {
    problems.push_back(absl::StrCat("--max-queued-reply-bytes ", config.limits.max_queued_reply_bytes,
                                    " must not be less than --max-reply-bytes ", config.limits.max_reply_bytes));
  }
  if (config.front.grpc_memory_bytes < config.limits.max_message_bytes) {
    problems.push_back(absl::StrCat("--grpc-memory-bytes ", config.front.grpc_memory_bytes,
                                    " must not be less than --max-message-bytes ", config.limits.max_message_bytes));
  }
  if (config.limits.max_queued_rows < config.limits.max_request_rows) {
    problems.push_back(absl::StrCat("--max-queued-rows ", config.limits.max_queued_rows,
                                    " must not be less than --max-request-rows ", config.limits.max_request_rows));
  }
  if (config.metrics.triton && !config.metrics.on) {
    problems.emplace_back("--triton-metrics true needs --metrics true");
  }
  for (const std::string& address : SplitAddresses(config.front.grpc_address)) {
    const std::optional<HostPort> port = ParseHostPort(address);
    if (address != config.front.http_address || !port.has_value() || port->port == 0) continue;
    problems.push_back(absl::StrCat("--grpc-address and --http-address are both ", address));
  }
  CheckTls(config, problems);
  return problems;
}

}  // namespace widelane
