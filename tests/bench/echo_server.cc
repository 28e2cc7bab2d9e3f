// A gRPC server that does nothing: the least that a front end made with this gRPC can cost. Score is answered with
// ready bytes, a ScoreReply of 4 bytes a row for as many rows as the command line says; the request is not looked at,
// or with
// --read each of its bytes once. No deadlines, no cancelled calls, no checks.
//
//   echo_server --address 127.0.0.1:0 --rows 1000

#include <grpcpp/server_builder.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "widelane/engine/usable_cores.h"
#include "widelane/v1/scoring.grpc.pb.h"

namespace widelane {
namespace {

struct Options {
  std::string address = "127.0.0.1:8600";
  uint64_t rows = 1;
  size_t completion_queues = 0;  // 0: one for every two usable cores
  size_t threads_per_queue = 1;
  size_t posted_calls = 128;  // of each queue
  bool read = false;
};

// All methods without generated code around them, so that gRPC makes no threads of its own.
using Raw = v1::Scoring::WithRawMethod_Score<v1::Scoring::WithGenericMethod_ScoreStream<
    v1::Scoring::WithGenericMethod_ListModels<v1::Scoring::WithGenericMethod_GetModel<v1::Scoring::Service>>>>;

// What is sent back.
grpc::Slice AnswerTo(uint64_t rows) {
  constexpr float kScore = 0.5F;
  v1::ScoreReply reply;
  reply.set_rows(rows);
  reply.set_outputs(1);
  for (uint64_t r = 0; r < rows; ++r) reply.add_scores(kScore);
  return grpc::Slice(reply.SerializeAsString());
}

// Goes over every byte.
void Read(const grpc::ByteBuffer& message) {
  static std::atomic<uint64_t> seen{0};
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return;
  uint64_t sum = 0;
  for (const grpc::Slice& slice : slices) {
    for (const uint8_t byte : slice) sum += byte;
  }
  seen.store(sum, std::memory_order_relaxed);
}

struct Shared {
  Raw& service;
  grpc::ServerCompletionQueue& queue;
  const grpc::Slice& answer;
  const bool read;
};

// Waits for a call, answers it, and waits again.
class UnaryCall {
 public:
  enum class Event : uint8_t { kRequested, kFinished };
  struct Tag {
    UnaryCall* call;
    Event event;
  };

  explicit UnaryCall(const Shared& shared) : shared_(shared) { Post(); }

  void OnEvent(Event event, bool ok) {
    if (event == Event::kFinished) return Post();
    if (!ok) return;  // the server stops
    if (shared_.read) Read(rpc_->request);
    rpc_->writer.Finish(grpc::ByteBuffer(&shared_.answer, 1), grpc::Status::OK, &finished_);
  }

 private:
  struct Rpc {
    Rpc() : writer(&context) {}
    grpc::ServerContext context;
    grpc::ByteBuffer request;
    grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer;
  };

  void Post() {
    rpc_.emplace();
    shared_.service.RequestScore(&rpc_->context, &rpc_->request, &rpc_->writer, &shared_.queue, &shared_.queue,
                                 &requested_);
  }

  const Shared shared_;
  Tag requested_{this, Event::kRequested};
  Tag finished_{this, Event::kFinished};
  std::optional<Rpc> rpc_;
};

void Serve(grpc::ServerCompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
    const auto* known = static_cast<const UnaryCall::Tag*>(tag);
    known->call->OnEvent(known->event, ok);
  }
}

// As the server's own (server/front/front_end.cc), but for the limit of messages.
void AddArguments(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  constexpr std::pair<const char*, int> kArguments[] = {
      {GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024},
      {GRPC_ARG_ALLOW_REUSEPORT, 0},
      {GRPC_ARG_KEEPALIVE_TIME_MS, 60'000},
      {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000},
      {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
      {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
      {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000},
      {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20},
  };
  for (const auto& [name, value] : kArguments) builder.AddChannelArgument(name, value);
}

// The address with the port that was bound.
std::string BoundAddress(const std::string& address, int port) {
  if (address.rfind("unix:", 0) == 0) return address;
  return address.substr(0, address.rfind(':') + 1) + std::to_string(port);
}

int Run(const Options& options) {
  const grpc::Slice answer = AnswerTo(options.rows);
  Raw service;
  grpc::AsyncGenericService others;  // which the methods that are not answered need to be registered
  grpc::ServerBuilder builder;
  AddArguments(builder);
  int port = 0;
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  builder.RegisterAsyncGenericService(&others);
  const size_t queues =
      options.completion_queues > 0 ? options.completion_queues : std::max<size_t>(1, UsableCores() / 2);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> completion_queues;
  for (size_t q = 0; q < queues; ++q) completion_queues.push_back(builder.AddCompletionQueue());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port <= 0) {
    std::fprintf(stderr, "echo_server: cannot listen on %s\n", options.address.c_str());
    return 1;
  }
  std::vector<std::unique_ptr<UnaryCall>> calls;
  for (const auto& queue : completion_queues) {
    const Shared shared{service, *queue, answer, options.read};
    for (size_t i = 0; i < options.posted_calls; ++i) calls.push_back(std::make_unique<UnaryCall>(shared));
    for (size_t t = 0; t < options.threads_per_queue; ++t) std::thread([&queue] { Serve(*queue); }).detach();
  }
  std::printf("serving gRPC on %s\n", BoundAddress(options.address, port).c_str());
  std::fflush(stdout);
  // A signal ends it, whatever its calls are doing.
  server->Wait();
  return 0;
}

}  // namespace
}  // namespace widelane

int main(int argc, char** argv) {
  widelane::Options options;
  CLI::App app("Answers Score with ready bytes.", "echo_server");
  app.add_option("-a,--address", options.address, "HOST:PORT or unix:PATH")->capture_default_str();
  app.add_option("--rows", options.rows, "Rows that replies are for")->capture_default_str();
  app.add_option("--completion-queues", options.completion_queues, "0: one for every two cores")->capture_default_str();
  app.add_option("--threads-per-queue", options.threads_per_queue, "Threads of each")->capture_default_str();
  app.add_option("--posted-calls", options.posted_calls, "Calls that wait on each queue")->capture_default_str();
  app.add_flag("--read", options.read, "Read every byte of requests");
  CLI11_PARSE(app, argc, argv);
  return widelane::Run(options);
}
