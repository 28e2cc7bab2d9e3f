// Follows the files of a TLS key pair, so that a certificate is renewed without a restart.

#ifndef WIDELANE_SERVER_TLS_KEY_PAIR_WATCH_H_
#define WIDELANE_SERVER_TLS_KEY_PAIR_WATCH_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/batching/clock.h"
#include "server/config/config.h"
#include "server/observe/metric_source.h"
#include "server/tls/key_pair.h"

namespace widelane {

class KeyPairWatch : public MetricSource {
 public:
  // Reads the files, and from then on again and again. Files that cannot be served leave the pair before them in
  // place, with a warning when the reason is a new one. The clock outlives the object. Errors: those of ReadKeyPair.
  static absl::StatusOr<std::unique_ptr<KeyPairWatch>> Start(const TlsConfig& config, Clock& clock);
  ~KeyPairWatch() override;

  // What new connections get; another object after each renewal. Any thread.
  std::shared_ptr<const KeyPair> pair() const;

  std::vector<prometheus::MetricFamily> Collect() override;

 private:
  KeyPairWatch(const TlsConfig& config, KeyPair pair, Clock& clock);

  void Run();
  void Reload();
  absl::StatusOr<KeyPair> ReadNext() const;
  void TellExpiry();

  const TlsConfig config_;
  Clock& clock_;
  // The thread's own.
  std::string told_;          // what the log has last said is wrong
  bool told_expiry_ = false;  // of the pair that is served

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const KeyPair> pair_;
  uint64_t failures_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_TLS_KEY_PAIR_WATCH_H_
