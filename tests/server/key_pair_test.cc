#include "server/tls/key_pair.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "server/tls/key_pair_watch.h"
#include "tests/support/captured_log.h"
#include "tests/support/certificates.h"
#include "tests/support/expect.h"
#include "tests/support/fake_clock.h"
#include "tests/support/models.h"

namespace widelane {
namespace {

class KeyPairTest : public ::testing::Test {
 protected:
  KeyPairTest() { Write(authority_.Issue(100)); }

  void Write(const test::MadePair& pair) {
    config_.certificate = files_.Write("tls.crt", pair.certificate);
    config_.private_key = files_.Write("tls.key", pair.private_key);
  }
  // INVALID_ARGUMENT with the file and `problem`.
  void ExpectRefused(const std::string& file, const std::string& problem) const {
    const absl::Status status = ReadKeyPair(config_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find(file), std::string::npos) << status;
    EXPECT_NE(status.message().find(problem), std::string::npos) << status;
  }

  const test::TempDir files_;
  const test::Authority authority_;
  TlsConfig config_;
};

TEST_F(KeyPairTest, ReadsWhatFits) {
  // The end of a certificate that has none (RFC 5280, 4.1.2.5).
  const std::chrono::sys_seconds not_after(std::chrono::seconds(253'402'300'799));
  const std::chrono::sys_seconds not_before(std::chrono::seconds(1'000'000'000));
  const test::MadePair made = authority_.Issue(0x1234, {not_before, not_after});
  Write({made.certificate + authority_.certificate(), made.private_key});
  config_.client_ca = files_.Write("ca.crt", authority_.certificate());
  const auto pair = ReadKeyPair(config_);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(pair->serial, "1234");
  EXPECT_EQ(pair->not_before, not_before);
  EXPECT_EQ(pair->not_after, not_after);
  EXPECT_EQ(pair->certificate, made.certificate + authority_.certificate());
  EXPECT_EQ(pair->private_key, made.private_key);
  EXPECT_EQ(pair->client_ca, authority_.certificate());
}

TEST_F(KeyPairTest, RefusesFilesThatCannotBeRead) {
  config_.certificate = "/nowhere/tls.crt";
  ExpectRefused("/nowhere/tls.crt", "No such file");
  config_.certificate = files_.path();
  ExpectRefused(files_.path(), "is no regular file");
  config_.certificate = files_.path() + "/fifo";
  ASSERT_EQ(mkfifo(config_.certificate.c_str(), 0600), 0);
  ExpectRefused("fifo", "is no regular file");
  config_.certificate = files_.Write("long", std::string((1 << 20) + 1, 'x'));
  ExpectRefused("long", "larger than");
}

TEST_F(KeyPairTest, RefusesWhatIsNotPem) {
  const test::MadePair good = authority_.Issue(1);
  Write({"nothing", good.private_key});
  ExpectRefused("tls.crt", "has no certificate in PEM form");
  Write({good.private_key, good.private_key});
  ExpectRefused("tls.crt", "has no certificate in PEM form");
  Write({good.certificate + good.certificate.substr(0, good.certificate.size() / 2), good.private_key});
  ExpectRefused("tls.crt", "damaged");
  Write({good.certificate, good.certificate});
  ExpectRefused("tls.key", "has no private key in PEM form");
  Write({std::string("\0\n", 2) + good.certificate, good.private_key});
  ExpectRefused("tls.crt", "zero byte");
  Write(good);
  config_.client_ca = files_.Write("ca.crt", std::string());
  ExpectRefused("ca.crt", "has no certificate in PEM form");
  files_.Write("ca.crt", authority_.certificate() + good.certificate.substr(0, good.certificate.size() / 2));
  ExpectRefused("ca.crt", "damaged");
}

TEST_F(KeyPairTest, RefusesAnEncryptedKeyWithoutAsking) {
  const test::MadePair good = authority_.Issue(1);
  Write({good.certificate, test::Encrypted(good.private_key)});
  ExpectRefused("tls.key", "is encrypted");
}

TEST_F(KeyPairTest, RefusesAKeyOfAnotherCertificate) {
  Write({authority_.Issue(1).certificate, authority_.Issue(2).private_key});
  ExpectRefused("tls.key", "does not fit the certificate");
}

class KeyPairWatchTest : public KeyPairTest {
 protected:
  void Pass() { clock_.Advance(config_.reload); }
  double Value(size_t family) {
    const prometheus::ClientMetric metric = watch_->Collect()[family].metric.front();
    return metric.gauge.value + metric.counter.value;
  }

  test::CapturedLog log_;
  test::FakeClock clock_;
  std::unique_ptr<KeyPairWatch> watch_ = *KeyPairWatch::Start(config_, clock_);
};

TEST_F(KeyPairWatchTest, GivesTheSamePairUntilTheFilesChange) {
  const auto first = watch_->pair();
  EXPECT_EQ(first->serial, "64");
  Write(authority_.Issue(0x65));
  EXPECT_EQ(watch_->pair(), first);
  EXPECT_TRUE(test::Eventually([&] {
    Pass();
    return watch_->pair() != first;
  }));
  EXPECT_EQ(watch_->pair()->serial, "65");
  EXPECT_EQ(log_.Count("from now on"), 1);
}

TEST_F(KeyPairWatchTest, KeepsThePairAndCountsEachFailure) {
  files_.Write("tls.key", authority_.Issue(2).private_key);
  EXPECT_TRUE(test::Eventually([&] {
    Pass();
    return Value(1) >= 3;
  }));
  EXPECT_EQ(watch_->pair()->serial, "64");
  EXPECT_EQ(log_.Count("does not fit"), 1);
}

TEST_F(KeyPairWatchTest, WarnsOfACertificateThatHasExpiredAndServesIt) {
  const auto until = test::SecondsFromNow(std::chrono::seconds(-5));
  Write(authority_.Issue(3, {.until = until}));
  watch_ = *KeyPairWatch::Start(config_, clock_);
  EXPECT_EQ(log_.Count("has expired"), 1);
  EXPECT_EQ(Value(0), static_cast<double>(until.time_since_epoch().count()));
}

TEST_F(KeyPairWatchTest, WarnsOnceWhenACertificateExpiresWhileItIsServed) {
  Write(authority_.Issue(3, {.until = test::SecondsFromNow(std::chrono::seconds(1))}));
  watch_ = *KeyPairWatch::Start(config_, clock_);
  EXPECT_TRUE(test::Eventually([&] {
    Pass();
    return log_.Count("has expired") > 0;
  }));
  // Looked at at least twice more.
  files_.Write("tls.key", std::string());
  EXPECT_TRUE(test::Eventually([&] {
    Pass();
    return Value(1) >= 2;
  }));
  EXPECT_EQ(log_.Count("has expired"), 1);
}

TEST_F(KeyPairWatchTest, LeavesOneThatIsNotValidYetUntilItIs) {
  Write(authority_.Issue(0x65, {.from = test::SecondsFromNow(std::chrono::hours(1))}));
  EXPECT_TRUE(test::Eventually([&] {
    Pass();
    return Value(1) >= 2;
  }));
  EXPECT_EQ(watch_->pair()->serial, "64");
  EXPECT_EQ(log_.Count("is not valid before"), 1);
  // There is nothing before it at a start.
  watch_ = *KeyPairWatch::Start(config_, clock_);
  EXPECT_EQ(watch_->pair()->serial, "65");
  EXPECT_EQ(log_.Count("clients will refuse it"), 1);
}

}  // namespace
}  // namespace widelane
