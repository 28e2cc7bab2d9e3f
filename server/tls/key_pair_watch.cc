#include "server/tls/key_pair_watch.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/observe/metric_family.h"

namespace widelane {

namespace {

// By the world's clock, as those who look at certificates go by it.
std::chrono::sys_seconds Today() { return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()); }

std::string UtcText(std::chrono::sys_seconds time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixSeconds(time.time_since_epoch().count()),
                          absl::UTCTimeZone());
}

void LogPair(const char* what, const KeyPair& pair) {
  spdlog::info("{} the TLS certificate with serial number {}, valid until {}{}", what, pair.serial,
               UtcText(pair.not_after), pair.client_ca.empty() ? "" : "; clients need one as well");
}

}  // namespace

absl::StatusOr<std::unique_ptr<KeyPairWatch>> KeyPairWatch::Start(const TlsConfig& config, Clock& clock) {
  absl::StatusOr<KeyPair> pair = ReadKeyPair(config);
  if (!pair.ok()) return pair.status();
  LogPair("serving", *pair);
  if (pair->not_before > Today()) {
    spdlog::warn("the TLS certificate is not valid before {}: clients will refuse it", UtcText(pair->not_before));
  }
  return std::unique_ptr<KeyPairWatch>(new KeyPairWatch(config, *std::move(pair), clock));
}

KeyPairWatch::KeyPairWatch(const TlsConfig& config, KeyPair pair, Clock& clock)
    : config_(config), clock_(clock), pair_(std::make_shared<const KeyPair>(std::move(pair))) {
  TellExpiry();
  thread_ = std::thread([this] { Run(); });
}

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

// One that is not valid yet has time: the one before is better until then.
absl::StatusOr<KeyPair> KeyPairWatch::ReadNext() const {
  absl::StatusOr<KeyPair> next = ReadKeyPair(config_);
  if (!next.ok() || next->not_before <= Today() || next->SameFiles(*pair())) return next;
  return absl::FailedPreconditionError(
      absl::StrCat("the one in ", config_.certificate, " is not valid before ", UtcText(next->not_before)));
}

void KeyPairWatch::TellExpiry() {
  const auto served = pair();
  if (told_expiry_ || served->not_after >= Today()) return;
  spdlog::warn("the TLS certificate has expired at {}: clients will refuse it", UtcText(served->not_after));
  told_expiry_ = true;
}

// By content: a link that is swapped may lead to a file of the same size and age.
void KeyPairWatch::Reload() {
  TellExpiry();
  absl::StatusOr<KeyPair> read = ReadNext();
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
  {
    const std::lock_guard lock(mutex_);
    pair_ = std::move(next);
  }
  told_expiry_ = false;
  TellExpiry();
}

std::vector<prometheus::MetricFamily> KeyPairWatch::Collect() {
  using prometheus::MetricType;
  prometheus::MetricFamily not_after =
      MakeFamily("widelane_tls_certificate_not_after_timestamp_seconds",
                 "When the certificate expires that new connections get, in Unix time.", MetricType::Gauge);
  prometheus::MetricFamily failures = MakeFamily(
      "widelane_tls_reload_failures_total",
      "Times the files of the TLS certificate could not be served, and the one before was kept.", MetricType::Counter);
  const std::lock_guard lock(mutex_);
  not_after.metric.emplace_back().gauge.value = static_cast<double>(pair_->not_after.time_since_epoch().count());
  failures.metric.emplace_back().counter.value = static_cast<double>(failures_);
  return {std::move(not_after), std::move(failures)};
}

}  // namespace widelane
