// A load of Score calls.

#ifndef WIDELANE_CLIENT_CLI_BENCH_UNARY_H_
#define WIDELANE_CLIENT_CLI_BENCH_UNARY_H_

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "client/cli/bench_worker.h"

namespace widelane::cli {

class UnaryWorker final : public LoadWorker {
 public:
  UnaryWorker(LoadPlan& plan, LoadShare share);

 protected:
  void Send(size_t slot) override;
  void OnEvent(void* tag, bool ok) override;
  void CancelAll() override;

 private:
  struct Call {
    size_t slot = 0;
    std::mutex mutex;  // Cancel comes at any time
    std::optional<grpc::ClientContext> context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    grpc::ByteBuffer reply;
    grpc::Status status;
  };

  std::vector<grpc::GenericStub> stubs_;
  std::deque<Call> calls_;
};

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_UNARY_H_
