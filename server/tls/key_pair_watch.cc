#include "server/tls/key_pair_watch.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "absl/time/time.h"

namespace widelane {

namespace {

prometheus::MetricFamily Family(const char* name, const char* help, prometheus::MetricType type) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  family.metric.emplace_back();
  return family;
}

void LogPair(const char* what, const KeyPair& pair) {
  const std::string until =
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromChrono(pair.not_after), absl::UTCTimeZone());
  spdlog::info("{} the TLS certificate with serial number {}, valid until {}{}", what, pair.serial, until,
               pair.client_ca.empty() ? "" : "; clients need one as well");
  if (pair.not_after < std::chrono::system_clock::now()) {
    spdlog::warn("the TLS certificate has expired at {}: clients will refuse it", until);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<KeyPairWatch>> KeyPairWatch::Start(const TlsConfig& config, Clock& clock) {
  absl::StatusOr<KeyPair> pair = ReadKeyPair(config);
  if (!pair.ok()) return pair.status();
  LogPair("serving", *pair);
  return std::unique_ptr<KeyPairWatch>(new KeyPairWatch(config, *std::move(pair), clock));
}

KeyPairWatch::KeyPairWatch(const TlsConfig& config, KeyPair pair, Clock& clock)
    : config_(config),
      clock_(clock),
      pair_(std::make_shared<const KeyPair>(std::move(pair))),
      thread_([this] { Run(); }) {}

KeyPairWatch::~KeyPairWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::shared_ptr<const KeyPair> KeyPairWatch::pair() const {
  const std::lock_guard lock(mutex_);
  return pair_;
}

void KeyPairWatch::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Clock::TimePoint next = clock_.Now() + config_.reload;
    while (!stopping_ && clock_.Now() < next) clock_.Wait(lock, changed_, next);
    if (stopping_) return;
    lock.unlock();
    Reload();
    lock.lock();
  }
}

// By content: a link that is swapped may lead to a file of the same size and age.
void KeyPairWatch::Reload() {
  absl::StatusOr<KeyPair> read = ReadKeyPair(config_);
  const std::string problem(read.status().message());
  if (!read.ok() && problem != told_) spdlog::warn("the TLS certificate before is kept: {}", problem);
  told_ = problem;
  if (!read.ok()) {
    const std::lock_guard lock(mutex_);
    ++failures_;
    return;
  }
  if (read->SameFiles(*pair())) return;
  LogPair("from now on new connections get", *read);
  auto next = std::make_shared<const KeyPair>(*std::move(read));
  const std::lock_guard lock(mutex_);
  pair_ = std::move(next);
}

std::vector<prometheus::MetricFamily> KeyPairWatch::Collect() {
  using prometheus::MetricType;
  prometheus::MetricFamily not_after =
      Family("widelane_tls_certificate_not_after_timestamp_seconds",
             "When the certificate expires that new connections get, in Unix time.", MetricType::Gauge);
  prometheus::MetricFamily failures = Family(
      "widelane_tls_reload_failures_total",
      "Times the files of the TLS certificate could not be served, and the one before was kept.", MetricType::Counter);
  const std::lock_guard lock(mutex_);
  const std::chrono::duration<double> seconds = pair_->not_after.time_since_epoch();
  not_after.metric.front().gauge.value = seconds.count();
  failures.metric.front().counter.value = static_cast<double>(failures_);
  return {std::move(not_after), std::move(failures)};
}

}  // namespace widelane
