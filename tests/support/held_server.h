// A server whose only device does one batch at a time, when the test lets it. The one thread that takes calls does not
// wait for it, and batches that wait stay open.

#ifndef WIDELANE_TESTS_SUPPORT_HELD_SERVER_H_
#define WIDELANE_TESTS_SUPPORT_HELD_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_device.h"
#include "tests/support/pending_calls.h"
#include "tests/support/test_server.h"

namespace widelane::test {

class HeldServer {
 public:
  explicit HeldServer(const TestServer::Models& models, const TestServer::Configure& configure = {},
                      Clock* clock = nullptr);
  ~HeldServer();
  HeldServer(const HeldServer&) = delete;
  HeldServer& operator=(const HeldServer&) = delete;

  // From here on batches wait, and the device has begun with the row of one call, which is `calls`' next.
  void Hold(PendingCalls& calls, const v1::ScoreRequest& one_row);
  // Lets the batch that runs end, and waits until another has begun.
  bool FinishBatch();

  TestServer* operator->() { return server_.get(); }
  FakeDeviceControl& device() { return *device_; }
  v1::Scoring::Stub& stub() { return server_->stub(); }
  // Begun since the models were loaded.
  uint64_t batches() const { return device_->batches() - loaded_batches_; }
  uint64_t rows() const { return device_->rows() - loaded_rows_; }
  bool WaitForBatches(uint64_t batches) const;

  // -1: there is no such metric.
  double Metric(const std::string& name, const std::vector<std::string>& labels = {}) const;
  double InFlight() const { return Metric("widelane_requests_in_flight"); }
  // Until there are so many, each of them in a batch or in line.
  bool WaitForInFlight(double requests) const;
  // Calls and messages that ended with this code.
  double Ended(const std::string& code) const { return Metric("widelane_requests_total", {"code=\"" + code + "\""}); }

 private:
  const std::shared_ptr<FakeDeviceControl> device_ = std::make_shared<FakeDeviceControl>();
  std::unique_ptr<TestServer> server_;
  uint64_t loaded_batches_ = 0;
  uint64_t loaded_rows_ = 0;
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_HELD_SERVER_H_
