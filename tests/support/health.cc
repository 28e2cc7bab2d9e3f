#include "tests/support/health.h"

#include "tests/support/rpc.h"

namespace widelane::test {
namespace {

HealthRequest RequestFor(const std::string& service) {
  HealthRequest request;
  request.set_service(service);
  return request;
}

}  // namespace

Health CheckHealth(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  const RawResult result = CallRaw(channel, "/grpc.health.v1.Health/Check", RequestFor(service).SerializeAsString());
  HealthReply reply;
  reply.ParseFromString(result.reply);
  return {result.status.error_code(), reply.status()};
}

HealthWatch::HealthWatch(const std::shared_ptr<grpc::Channel>& channel, const std::string& service)
    : stream_(channel, "/grpc.health.v1.Health/Watch") {
  Require(stream_.Write(RequestFor(service)), "a health watch can be asked for");
}

bool HealthWatch::WaitFor(HealthReply::Status status, std::chrono::milliseconds timeout) {
  return ReadUntil([&] { return !shown_.empty() && shown_.back() == status; }, timeout);
}

bool HealthWatch::WaitForEnd(std::chrono::milliseconds timeout) {
  return ReadUntil([this] { return ended_; }, timeout);
}

template <typename Condition>
bool HealthWatch::ReadUntil(const Condition& condition, std::chrono::milliseconds timeout) {
  using Outcome = GenericStream<HealthRequest, HealthReply>::Outcome;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition() && !ended_) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= left.zero()) return false;
    HealthReply reply;
    const Outcome outcome = stream_.Read(reply, std::chrono::duration_cast<std::chrono::milliseconds>(left));
    if (outcome == Outcome::kMessage) shown_.push_back(reply.status());
    if (outcome == Outcome::kEnd) ended_ = true;
  }
  return condition();
}

}  // namespace widelane::test
