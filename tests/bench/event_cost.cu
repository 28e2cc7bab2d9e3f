// What it costs a batch that its device times are known: the same copies and kernels with the events that order them,
// and with those that a lane records (engine/src/cuda/cuda_lane.cc), which are timed, and one more of them, and are
// read at the end.
//
//   event_cost [TURNS]
//
// Both take turns. Prints medians and quartiles of the time of a batch, in microseconds, by the host's clock.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kTurns = 5000;
constexpr int kWarmUps = 200;
constexpr int kBlocks = 132;
constexpr int kThreads = 128;

void Check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "event_cost: %s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}

__global__ void Sum(const unsigned* from, unsigned count, unsigned* to) {
  unsigned sum = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) sum += from[i];
  atomicAdd(to, sum);
}

struct Events {
  explicit Events(bool timed) {
    const unsigned flags = cudaEventBlockingSync | (timed ? 0U : cudaEventDisableTiming);
    for (cudaEvent_t* event : {&started, &copied, &begun, &computed})
      Check(cudaEventCreateWithFlags(event, flags), "event");
  }
  cudaEvent_t started, copied, begun, computed;
};

class Batch {
 public:
  explicit Batch(size_t bytes) : bytes_(bytes) {
    Check(cudaMallocHost(&host_, bytes), "cudaMallocHost");
    Check(cudaMalloc(&device_, bytes + sizeof(unsigned)), "cudaMalloc");
    Check(cudaStreamCreateWithFlags(&copy_, cudaStreamNonBlocking), "stream");
    Check(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking), "stream");
  }
  ~Batch() {
    (void)cudaFreeHost(host_);
    (void)cudaFree(device_);
    (void)cudaStreamDestroy(copy_);
    (void)cudaStreamDestroy(compute_);
  }

  // Microseconds until its last event was seen, and its times read.
  double Run(bool timed) {
    const Events& events = timed ? timed_ : untimed_;
    auto* const numbers = static_cast<unsigned*>(device_);
    const auto count = static_cast<unsigned>(bytes_ / sizeof(unsigned));
    const auto start = std::chrono::steady_clock::now();
    if (timed) Check(cudaEventRecord(events.started, copy_), "record");
    Check(cudaMemcpyAsync(device_, host_, bytes_, cudaMemcpyHostToDevice, copy_), "copy");
    Check(cudaEventRecord(events.copied, copy_), "record");
    Check(cudaStreamWaitEvent(compute_, events.copied, 0), "wait");
    if (timed) Check(cudaEventRecord(events.begun, compute_), "record");
    Sum<<<kBlocks, kThreads, 0, compute_>>>(numbers, count, numbers + count);
    Check(cudaGetLastError(), "launch");
    Check(cudaEventRecord(events.computed, compute_), "record");
    cudaError_t code = cudaErrorNotReady;
    while (code == cudaErrorNotReady) code = cudaEventQuery(events.computed);
    Check(code, "query");
    (void)cudaGetLastError();
    if (timed) {
      float milliseconds = 0;
      Check(cudaEventElapsedTime(&milliseconds, events.started, events.copied), "time");
      Check(cudaEventElapsedTime(&milliseconds, events.begun, events.computed), "time");
    }
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  const size_t bytes_;
  const Events timed_{true}, untimed_{false};
  void* host_ = nullptr;
  void* device_ = nullptr;
  cudaStream_t copy_ = nullptr;
  cudaStream_t compute_ = nullptr;
};

double At(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void Measure(size_t bytes, int turns) {
  Batch batch(bytes);
  std::vector<double> without, with;
  for (int turn = 0; turn < kWarmUps + turns; ++turn) {
    const bool timed_first = turn % 2 == 0;
    const double first = batch.Run(timed_first);
    const double second = batch.Run(!timed_first);
    if (turn < kWarmUps) continue;
    with.push_back(timed_first ? first : second);
    without.push_back(timed_first ? second : first);
  }
  std::sort(with.begin(), with.end());
  std::sort(without.begin(), without.end());
  std::printf("%10zu %8.2f (%.2f to %.2f) %8.2f (%.2f to %.2f) %8.2f\n", bytes, At(without, 0.5), At(without, 0.25),
              At(without, 0.75), At(with, 0.5), At(with, 0.25), At(with, 0.75), At(with, 0.5) - At(without, 0.5));
}

}  // namespace

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::max(1, std::atoi(argv[1])) : kTurns;
  std::printf("%10s %s\n", "bytes", "us without times (quartiles), with them (quartiles), difference");
  for (const size_t bytes : {size_t{80'000}, size_t{1'600'000}, size_t{16'000'000}}) Measure(bytes, turns);
  return 0;
}
