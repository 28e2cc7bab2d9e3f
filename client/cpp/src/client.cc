#include "widelane/client/client.h"

#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/connection.h"
#include "src/convert.h"
#include "src/status.h"
#include "src/stream.h"
#include "widelane/v1/scoring.grpc.pb.h"

namespace widelane::client {
namespace {

using std::chrono::milliseconds;

// Health messages have one field each, as these do, so their wire form is the same; gRPC ships no stub of its own for
// them.
using HealthStub = grpc::TemplatedGenericStub<google::protobuf::StringValue, google::protobuf::Int32Value>;
constexpr int kServing = 1;
constexpr milliseconds kReadyPoll{100};

absl::Status CheckOptions(const std::string& address, const ClientOptions& options) {
  constexpr size_t kMostBytes = std::numeric_limits<int>::max();
  if (address.empty()) return absl::InvalidArgumentError("the address of the server is empty");
  if (options.max_request_bytes == 0 || options.max_request_bytes > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_request_bytes is ", options.max_request_bytes, "; it can be 1 to ", kMostBytes));
  }
  if (options.max_reply_bytes == 0 || options.max_reply_bytes > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_reply_bytes is ", options.max_reply_bytes, "; it can be 1 to ", kMostBytes));
  }
  if (options.max_attempts < 1 || options.max_attempts > 5) {
    return absl::InvalidArgumentError(absl::StrCat("max_attempts is ", options.max_attempts, "; it can be 1 to 5"));
  }
  if (options.tls.has_value() && options.tls->certificate.empty() != options.tls->private_key.empty()) {
    return absl::InvalidArgumentError("tls has a certificate without its private key, or the other way round");
  }
  if (options.deadline <= milliseconds::zero()) {
    return absl::InvalidArgumentError(
        absl::StrCat("deadline is ", options.deadline.count(), " ms; it must be above 0"));
  }
  return absl::OkStatus();
}

// A call of ScoreAsync and all that must live as long as it.
struct PendingScore {
  grpc::ClientContext context;
  v1::ScoreRequest request;
  v1::ScoreReply reply;
  std::function<void(absl::StatusOr<ScoreReply>)> done;
};

}  // namespace

class Client::Impl {
 public:
  Impl(const std::string& address, const ClientOptions& options)
      : connection_(std::make_shared<Connection>(address, options)), health_stub_(connection_->channel()) {}

  ~Impl() {
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [this] { return running_ == 0; });
  }

  // Fills `message`, checks its size and gives the call its deadline.
  absl::Status Prepare(const ScoreRequest& request, v1::ScoreRequest& message, grpc::ClientContext& context) {
    const Connection::Time deadline = Connection::DeadlineIn(connection_->TimeFor(request));
    context.set_deadline(deadline);
    if (absl::Status status = ToMessage(request, message); !status.ok()) return status;
    return connection_->CheckSize(request, message.ByteSizeLong(), deadline);
  }

  absl::StatusOr<ScoreReply> Finish(const grpc::Status& status, const v1::ScoreReply& reply) const {
    if (status.ok()) return FromMessage(reply);
    return connection_->Explain(FromGrpc(status));
  }

  absl::StatusOr<ScoreReply> Score(const ScoreRequest& request) {
    v1::ScoreRequest message;
    grpc::ClientContext context;
    if (absl::Status status = Prepare(request, message, context); !status.ok()) return status;
    v1::ScoreReply reply;
    return Finish(connection_->score_stub().Score(&context, message, &reply), reply);
  }

  void ScoreAsync(const ScoreRequest& request, std::function<void(absl::StatusOr<ScoreReply>)> done) {
    auto call = std::make_unique<PendingScore>();
    if (absl::Status status = Prepare(request, call->request, call->context); !status.ok()) return done(status);
    call->done = std::move(done);
    AddRunning(1);
    PendingScore* raw = call.release();
    connection_->score_stub().async()->Score(&raw->context, &raw->request, &raw->reply,
                                             [this, raw](const grpc::Status& status) {
                                               std::unique_ptr<PendingScore> owner(raw);
                                               owner->done(Finish(status, owner->reply));
                                               // The context holds the channel. Were it the last to do so, gRPC would
                                               // join the thread that this is.
                                               owner.reset();
                                               AddRunning(-1);
                                             });
  }

  absl::StatusOr<std::vector<ModelInfo>> ListModels() {
    grpc::ClientContext context;
    context.set_deadline(Connection::DeadlineIn(connection_->options().deadline));
    v1::ListModelsReply reply;
    const grpc::Status status = connection_->stub().ListModels(&context, {}, &reply);
    if (!status.ok()) return connection_->Explain(FromGrpc(status));
    std::vector<ModelInfo> models;
    models.reserve(reply.models_size());
    for (const v1::ModelInfo& model : reply.models()) models.push_back(FromMessage(model));
    return models;
  }

  absl::StatusOr<ModelInfo> GetModel(const std::string& model, const std::string& version) {
    v1::ModelInfo reply;
    const grpc::Status status = Connection::GetModel(connection_->stub(), model, version,
                                                     Connection::DeadlineIn(connection_->options().deadline), reply);
    if (!status.ok()) return connection_->Explain(FromGrpc(status));
    return FromMessage(reply);
  }

  absl::StatusOr<bool> IsServing(const std::string& service, milliseconds deadline) {
    grpc::ClientContext context;
    context.set_deadline(Connection::DeadlineIn(deadline));
    google::protobuf::StringValue request;
    request.set_value(service);
    google::protobuf::Int32Value reply;
    std::promise<grpc::Status> result;
    health_stub_.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &reply,
                           [&result](grpc::Status status) { result.set_value(std::move(status)); });
    const grpc::Status status = result.get_future().get();
    if (!status.ok()) return connection_->Explain(FromGrpc(status));
    return reply.value() == kServing;
  }

  absl::Status WaitUntilReady(milliseconds timeout) {
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (true) {
      const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
      const absl::StatusOr<bool> serving = IsServing("", std::max(left, milliseconds{1}));
      if (serving.ok() && *serving) return absl::OkStatus();
      if (std::chrono::steady_clock::now() + kReadyPoll >= end) {
        return absl::DeadlineExceededError(
            absl::StrCat(connection_->address(), " is not ready after ", timeout.count(),
                         " ms: ", serving.ok() ? "it says NOT_SERVING" : std::string(serving.status().message())));
      }
      std::this_thread::sleep_for(kReadyPoll);
    }
  }

  const std::shared_ptr<Connection>& connection() const { return connection_; }

 private:
  void AddRunning(int count) {
    // Noticed under the lock: once it is free the client may be gone.
    const std::lock_guard<std::mutex> lock(mutex_);
    running_ += count;
    if (running_ == 0) idle_.notify_all();
  }

  const std::shared_ptr<Connection> connection_;
  HealthStub health_stub_;
  std::mutex mutex_;
  std::condition_variable idle_;
  int running_ = 0;  // asynchronous calls; guarded by mutex_
};

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address, const ClientOptions& options) {
  if (absl::Status status = CheckOptions(address, options); !status.ok()) return status;
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(address, options)));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<ScoreReply> Client::Score(const ScoreRequest& request) { return impl_->Score(request); }

void Client::ScoreAsync(const ScoreRequest& request, std::function<void(absl::StatusOr<ScoreReply>)> done) {
  impl_->ScoreAsync(request, std::move(done));
}

std::unique_ptr<ScoreStream> Client::OpenStream(const StreamOptions& options) {
  return std::unique_ptr<ScoreStream>(
      new ScoreStream(std::make_unique<ScoreStream::Impl>(impl_->connection(), options)));
}

absl::StatusOr<std::vector<ModelInfo>> Client::ListModels() { return impl_->ListModels(); }

absl::StatusOr<ModelInfo> Client::GetModel(const std::string& model, const std::string& version) {
  return impl_->GetModel(model, version);
}

absl::StatusOr<bool> Client::IsServing(const std::string& service) {
  return impl_->IsServing(service, impl_->connection()->options().deadline);
}

absl::Status Client::WaitUntilReady(std::chrono::milliseconds timeout) { return impl_->WaitUntilReady(timeout); }

}  // namespace widelane::client
