// TLS on the gRPC port: who is let in, and certificates that are renewed under way.

#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "tests/support/captured_log.h"
#include "tests/support/certificates.h"
#include "tests/support/expect.h"
#include "tests/support/http.h"
#include "tests/support/models.h"
#include "tests/support/process.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"
#include "widelane/client/client.h"

namespace widelane::test {
namespace {

using client::Client;
using client::TlsOptions;

constexpr char kNotAfter[] = "widelane_tls_certificate_not_after_timestamp_seconds";
constexpr char kFailures[] = "widelane_tls_reload_failures_total";

TlsOptions Roots(const std::string& certificates) {
  TlsOptions tls;
  tls.root_certificates = certificates;
  return tls;
}

// Links as Kubernetes makes them: FILE -> ..data/FILE, and ..data -> the folder of a generation.
class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    Publish(authority_.Issue(100));
    for (const char* file : {"tls.crt", "tls.key", "ca.crt"}) {
      std::filesystem::create_symlink(std::string("..data/") + file, Path(file));
    }
  }

  std::string Path(const std::string& file) const { return files_.path() + "/" + file; }

  // A generation of its own; the link is swapped at once, and the generation before is gone.
  void Publish(const MadePair& pair) {
    const std::string before = generation_;
    generation_ = "generation" + std::to_string(++generations_);
    files_.Write(generation_ + "/tls.crt", pair.certificate);
    files_.Write(generation_ + "/tls.key", pair.private_key);
    files_.Write(generation_ + "/ca.crt", authority_.certificate());
    std::filesystem::create_directory_symlink(generation_, Path("next"));
    std::filesystem::rename(Path("next"), Path("..data"));
    if (!before.empty()) std::filesystem::remove_all(Path(before));
  }

  TlsConfig Tls(bool mutual = false) const {
    TlsConfig tls;
    tls.certificate = Path("tls.crt");
    tls.private_key = Path("tls.key");
    if (mutual) tls.client_ca = Path("ca.crt");
    tls.reload = std::chrono::milliseconds(10);
    return tls;
  }
  std::unique_ptr<TestServer> Serve(bool mutual = false, const std::string& addresses = "127.0.0.1:0") const {
    return std::make_unique<TestServer>(TestServer::Models{{"id1", Id1()}}, [&](ServerConfig& config) {
      config.front.grpc_address = addresses;
      config.tls = Tls(mutual);
    });
  }

  TlsOptions Trusting() const { return Roots(authority_.certificate()); }
  TlsOptions With(const MadePair& pair) const {
    TlsOptions tls = Trusting();
    tls.certificate = pair.certificate;
    tls.private_key = pair.private_key;
    return tls;
  }

  TempDir files_;
  const Authority authority_;
  std::string generation_;
  int generations_ = 0;
};

std::unique_ptr<Client> Dial(const std::string& address, const std::optional<TlsOptions>& tls) {
  client::ClientOptions options;
  options.tls = tls;
  options.max_attempts = 1;
  options.check_health = false;
  return *Client::Connect(address, options);
}

absl::Status ScoreWith(Client& client) {
  client::Rows rows;
  rows.Add({0}, {4.0F});
  client::ScoreRequest request;
  request.model = "id1";
  request.rows = rows;
  const auto reply = client.Score(request);
  EXPECT_TRUE(!reply.ok() || reply->scores == std::vector<float>{4.0F});
  return reply.status();
}

absl::Status ScoreAt(TestServer& server, const std::optional<TlsOptions>& tls) {
  return ScoreWith(*Dial(server.server().grpc_address(), tls));
}

void ExpectUnavailable(const absl::Status& status, const std::string& part) {
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find(part), std::string::npos) << status;
}

TEST_F(TlsTest, ScoresForThoseWhoTrustTheServer) {
  const auto server = Serve();
  EXPECT_TRUE(ScoreAt(*server, Trusting()).ok());
  TlsOptions named = Trusting();
  named.server_name = "localhost";
  EXPECT_TRUE(ScoreAt(*server, named).ok());
  named.server_name = "other.example";
  ExpectUnavailable(ScoreAt(*server, named), "other.example");
}

TEST_F(TlsTest, OthersAreToldWhyThereIsNoConnection) {
  const auto server = Serve();
  const Authority other;
  ExpectUnavailable(ScoreAt(*server, Roots(other.certificate())), "none of the root");
  ExpectUnavailable(ScoreAt(*server, std::nullopt), "a server with TLS closes");
  ExpectUnavailable(ScoreAt(*server, Roots("none")), "not PEM");
  TestServer plain({{"id1", Id1()}});
  ExpectUnavailable(ScoreAt(plain, Trusting()), "the server speaks no TLS");
}

TEST_F(TlsTest, ClientsNeedACertificateWhereACaForThemIsGiven) {
  const auto server = Serve(/*mutual=*/true);
  EXPECT_TRUE(ScoreAt(*server, With(authority_.Issue(7))).ok());
  ExpectUnavailable(ScoreAt(*server, Trusting()), "client certificate");
  ExpectUnavailable(ScoreAt(*server, With(Authority().Issue(7))), "client certificate");
  client::ClientOptions half;
  half.tls = With({authority_.Issue(7).certificate, ""});
  EXPECT_TRUE(absl::IsInvalidArgument(Client::Connect("localhost:1", half).status()));
}

TEST_F(TlsTest, SocketsInTheFileSystemStayPlainText) {
  const std::string socket = "unix:" + Path("widelane.sock");
  const auto server = Serve(/*mutual=*/true, "127.0.0.1:0," + socket);
  EXPECT_TRUE(ScoreWith(*Dial(socket, std::nullopt)).ok());
}

TEST_F(TlsTest, NewConnectionsGetARenewedCertificateAndOldOnesGoOn) {
  const auto server = Serve();
  const std::string address = server->server().grpc_address();
  EXPECT_EQ(ServedSerial(address), 100);
  const auto old = Dial(address, Trusting());
  EXPECT_TRUE(ScoreWith(*old).ok());
  for (int64_t serial = 101; serial <= 105; ++serial) {
    const auto not_after = SecondsFromNow(std::chrono::hours(serial));
    Publish(authority_.Issue(serial, {.until = not_after}));
    EXPECT_TRUE(Eventually([&] { return ServedSerial(address) == serial; }));
    EXPECT_EQ(MetricValue(server->Metrics(), kNotAfter), not_after.time_since_epoch().count());
    EXPECT_TRUE(ScoreWith(*old).ok());
    EXPECT_TRUE(ScoreAt(*server, Trusting()).ok());
  }
}

TEST_F(TlsTest, APairThatDoesNotFitLeavesTheOneBefore) {
  const CapturedLog log;
  const auto server = Serve();
  const std::string address = server->server().grpc_address();
  const auto before = MetricValue(server->Metrics(), kNotAfter);
  const auto failures = [&] { return MetricValue(server->Metrics(), kFailures).value_or(-1); };
  Publish({authority_.Issue(101).certificate, authority_.Issue(102).private_key});
  const double seen = failures();
  EXPECT_TRUE(Eventually([&] { return failures() >= seen + 3; }));
  EXPECT_EQ(log.Count("does not fit"), 1);
  EXPECT_EQ(ServedSerial(address), 100);
  EXPECT_EQ(MetricValue(server->Metrics(), kNotAfter), before);
  Publish(authority_.Issue(103));
  EXPECT_TRUE(Eventually([&] { return ServedSerial(address) == 103; }));
}

TEST_F(TlsTest, RenewsWhomItTakesAsClients) {
  const auto server = Serve(/*mutual=*/true);
  const Authority other;
  EXPECT_FALSE(ScoreAt(*server, With(other.Issue(7))).ok());
  files_.Write(generation_ + "/ca.crt", other.certificate());
  EXPECT_TRUE(Eventually([&] { return ScoreAt(*server, With(other.Issue(7))).ok(); }));
}

TEST_F(TlsTest, WithoutTlsThereAreNoMetricsOfIt) {
  const TestServer plain({{"id1", Id1()}});
  EXPECT_EQ(plain.Metrics().find("widelane_tls"), std::string::npos);
}

// The programs.
class TlsProgramTest : public TlsTest {
 protected:
  Finished Run(TestServer& server, std::vector<std::string> command, const std::vector<std::string>& more) const {
    command.insert(command.begin(), BuiltProgram("widelane"));
    command.insert(command.end(), {"--address", server.server().grpc_address()});
    command.insert(command.end(), more.begin(), more.end());
    return RunProgram(command);
  }
  std::vector<std::string> Commands(const std::string& name) const {
    if (name == "score") return {"score", "--model", "id1", files_.Write("rows", std::string("1:4\n"))};
    if (name == "bench")
      return {"bench", "server",     "--model", "id1",       "--features", "1", "--entries-per-row",
              "1",     "--duration", "0.1",     "--warm-up", "0"};
    return {name};
  }
};

TEST_F(TlsProgramTest, EveryCommandThatDialsTakesTheOptions) {
  const auto server = Serve(/*mutual=*/true);
  const MadePair own = authority_.Issue(7);
  const std::vector<std::string> options = {"--tls-ca",          files_.Write("root.crt", authority_.certificate()),
                                            "--tls-certificate", files_.Write("own.crt", own.certificate),
                                            "--tls-private-key", files_.Write("own.key", own.private_key),
                                            "--tls-server-name", "localhost"};
  for (const char* name : {"score", "models", "healthcheck", "bench"}) {
    const Finished with = Run(*server, Commands(name), options);
    EXPECT_EQ(with.exit_code, 0) << name << ": " << with.err;
    const Finished without = Run(*server, Commands(name), {});
    EXPECT_EQ(without.exit_code, 1) << name << ": " << without.out;
  }
  EXPECT_EQ(Run(*server, {"models"}, {"--tls-certificate", "x"}).exit_code, 2);
  const Finished missing = Run(*server, {"models"}, {"--tls-ca", "/nowhere/ca"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.err.find("/nowhere/ca"), std::string::npos) << missing.err;
  const Finished folder = Run(*server, {"models"}, {"--tls-ca", files_.path()});
  EXPECT_NE(folder.err.find("cannot read " + files_.path()), std::string::npos) << folder.err;
  const Finished system = Run(*server, {"models"}, {"--tls"});
  EXPECT_EQ(system.exit_code, 1);
  EXPECT_NE(system.err.find("none of the root certificates"), std::string::npos) << system.err;
}

TEST_F(TlsProgramTest, TheServerDoesNotStartWithWhatItCannotServe) {
  const std::string model = files_.Write("id1.safetensors", *Id1());
  const Finished server =
      RunProgram({BuiltProgram("widelane-server"), "--model", "id1=" + model, "--grpc-address", "127.0.0.1:0",
                  "--http-address", "", "--tls-certificate", Path("tls.crt"), "--tls-private-key", "/nowhere/key"});
  EXPECT_EQ(server.exit_code, 1) << server.err;
  EXPECT_NE(server.err.find("/nowhere/key cannot be read: No such file"), std::string::npos) << server.err;
}

}  // namespace
}  // namespace widelane::test
