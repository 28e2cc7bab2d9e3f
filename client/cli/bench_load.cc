#include "client/cli/bench_load.h"

#include <grpcpp/support/channel_arguments.h>
#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/bench_stream.h"
#include "client/cli/bench_unary.h"
#include "client/cli/bench_worker.h"
#include "client/cpp/src/credentials.h"
#include "widelane/engine/usable_cores.h"

namespace widelane::cli {
namespace {

using Channels = std::vector<std::shared_ptr<grpc::Channel>>;
using Workers = std::vector<std::unique_ptr<LoadWorker>>;

constexpr std::chrono::seconds kConnectTime{3};
// What calls that are in flight when the time is over get to end.
constexpr std::chrono::seconds kGrace{10};

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::shared_ptr<grpc::Channel> LoadChannel(const LoadOptions& options) {
  grpc::ChannelArguments arguments;
  // Channels to one address would share a connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  return client::MakeChannel(options.address, options.tls, arguments);
}

absl::StatusOr<Channels> Connect(const LoadOptions& options) {
  Channels channels;
  for (size_t c = 0; c < options.connections; ++c) channels.push_back(LoadChannel(options));
  const auto deadline = std::chrono::system_clock::now() + kConnectTime;
  for (const auto& channel : channels) {
    if (!channel->WaitForConnected(deadline)) {
      return absl::UnavailableError(
          absl::StrCat("cannot connect to ", options.address, " within ", kConnectTime.count(), " s"));
    }
  }
  return channels;
}

// Part `part` of `count` things over `parts`.
size_t PartOf(size_t count, size_t part, size_t parts) { return count * (part + 1) / parts - count * part / parts; }

Workers MakeWorkers(LoadPlan& plan, const Channels& channels) {
  const LoadOptions& options = plan.options;
  Workers workers;
  for (size_t w = 0; w < options.threads; ++w) {
    LoadShare share;
    share.slots = PartOf(options.concurrency, w, options.threads);
    share.streams = PartOf(options.streams, w, options.threads);
    share.rate = options.rate / static_cast<double>(options.threads);
    share.seed = options.seed + w;
    for (size_t c = w; c < channels.size(); c += options.threads) share.channels.push_back(channels[c]);
    if (options.stream) {
      workers.push_back(std::make_unique<StreamWorker>(plan, std::move(share)));
    } else {
      workers.push_back(std::make_unique<UnaryWorker>(plan, std::move(share)));
    }
  }
  return workers;
}

// Threads of the workers, waited for.
class Crew {
 public:
  explicit Crew(Workers& workers) : left_(workers.size()) {
    for (const auto& worker : workers) {
      threads_.emplace_back([this, &worker] {
        worker->Run();
        const std::lock_guard lock(mutex_);
        --left_;
        done_.notify_all();
      });
    }
  }
  ~Crew() {
    for (std::thread& thread : threads_) thread.join();
  }
  // Whether all are done at `time` at the latest.
  bool WaitUntil(LoadTime time) {
    std::unique_lock lock(mutex_);
    return done_.wait_until(lock, time, [this] { return left_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  size_t left_;
  std::vector<std::thread> threads_;
};

uint64_t CallsOf(const Workers& workers) {
  uint64_t calls = 0;
  for (const auto& worker : workers) calls += worker->meter().calls();
  return calls;
}

void RunWorkers(Workers& workers, const LoadPlan& plan, const std::function<void(double, uint64_t)>& tell) {
  using Seconds = std::chrono::duration<double>;
  const LoadTime start = std::chrono::steady_clock::now();
  const double all = Seconds(plan.window.end - start).count();
  Crew crew(workers);
  for (LoadTime tick = start; !crew.WaitUntil(tick); tick += std::chrono::seconds(1)) {
    tell(Seconds(tick - start).count() / all, CallsOf(workers));
    if (tick < plan.window.end + kGrace) continue;
    for (const auto& worker : workers) worker->Cancel();
    return;
  }
}

}  // namespace

absl::StatusOr<LoadOptions> FillIn(LoadOptions options) {
  constexpr size_t kMostThreads = 8;
  constexpr size_t kCoresOfThread = 4;
  const size_t most = options.stream && options.streams > 0 ? options.streams : options.concurrency;
  if (options.threads == 0) {
    const size_t wanted = std::clamp<size_t>(UsableCores() / kCoresOfThread, 1, kMostThreads);
    options.threads = std::min({wanted, most, options.connections > 0 ? options.connections : wanted});
  }
  if (options.connections == 0) options.connections = options.threads;
  if (options.streams == 0) options.streams = options.connections;
  const auto fewer = [](const char* what, size_t count, const char* than, size_t least) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", count, " are fewer than the ", least, " ", than));
  };
  if (options.connections < options.threads) {
    return fewer("connections", options.connections, "threads", options.threads);
  }
  if (options.stream && options.streams < options.connections) {
    return fewer("streams", options.streams, "connections", options.connections);
  }
  const size_t least = options.stream ? options.streams : options.connections;
  if (options.concurrency < least) {
    return fewer("concurrency", options.concurrency, options.stream ? "streams" : "connections", least);
  }
  return options;
}

absl::StatusOr<LoadResult> RunLoad(const LoadOptions& filled_in, const std::vector<grpc::Slice>& requests,
                                   uint64_t rows, const std::function<void(double, uint64_t)>& tell) {
  const absl::StatusOr<Channels> channels = Connect(filled_in);
  if (!channels.ok()) return channels.status();
  const double cpu = CpuSeconds();
  const LoadTime begin = std::chrono::steady_clock::now() + filled_in.warm_up;
  const LoadWindow window{begin, begin + filled_in.duration, filled_in.rate > 0};
  LoadPlan plan{filled_in, requests, rows, window, std::vector<std::atomic<uint64_t>>(requests.size())};
  Workers workers = MakeWorkers(plan, *channels);
  RunWorkers(workers, plan, tell);
  const bool early = std::chrono::steady_clock::now() < window.end;
  LoadResult result{std::make_unique<LoadMeter>(window), CpuSeconds() - cpu};
  for (const auto& worker : workers) {
    result.total->Merge(worker->meter());
    for (uint64_t i = 0; i < worker->late_dropped(); ++i) {
      result.total->Failed(window.end, grpc::StatusCode::CANCELLED, "planned, and not sent before the end");
    }
  }
  // An open loop is over with its last planned call.
  if (filled_in.stream && filled_in.rate == 0 && early && !result.total->first_error().empty()) {
    return absl::UnavailableError(
        absl::StrCat("the server ended all streams before the time was over: ", result.total->first_error()));
  }
  return result;
}

}  // namespace widelane::cli
