// Machines without a usable GPU, played by driver libraries that fail, and machines with some.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <sstream>

#include "tests/support/expect.h"
#include "tests/support/http.h"
#include "tests/support/models.h"
#include "tests/support/rows.h"
#include "tests/support/server_process.h"

namespace widelane::test {
namespace {

#if defined(WIDELANE_TEST_CUDA)
constexpr bool kBuiltWithCuda = true;
#else
constexpr bool kBuiltWithCuda = false;
#endif

constexpr std::chrono::seconds kReadyLimit{kSanitized ? 30 : 10};

bool HasDriver() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) ::dlclose(driver);
  return driver != nullptr;
}

int LinesWith(const std::string& text, const std::string& part) {
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find(part) != std::string::npos ? 1 : 0;
  return count;
}

class DriverTest : public ::testing::Test {
 protected:
  std::vector<std::string> Arguments(const std::string& devices) {
    return {"--devices", devices, "--model", "r4=" + files_.Write("r4.safetensors", *R4())};
  }

  // With `auto` the server serves on the CPU, says why in words once, and shows it.
  void ExpectFallback(const Process::Environment& environment, const std::string& words) {
    ServerProcess server(Arguments("auto"), environment);
    ASSERT_TRUE(server.WaitUntilReady(kReadyLimit));
    EXPECT_LT(server.process().run_time(), kReadyLimit);
    const ScoreResult result = Score(server.stub(), Request("r4", PlainRows({{{2, 3.0f}}})));
    ExpectOk(result.status);
    ExpectNear(result.reply.scores(), {0.994779874});
    const std::string page = HttpGet(server.http_address(), "/metrics").body;
    EXPECT_EQ(MetricValue(page, "widelane_cpu_fallback"), 1.0);
    EXPECT_EQ(MetricValue(page, "widelane_device_info", {"device=\"cpu\""}), 1.0);
    grpc::ClientContext context;
    v1::GetModelRequest request;
    request.set_model("r4");
    v1::ModelInfo info;
    ExpectOk(server.stub().GetModel(&context, request, &info));
    ASSERT_EQ(info.devices_size(), 1);
    EXPECT_EQ(info.devices(0), "cpu");
    server.process().Signal(SIGTERM);
    EXPECT_EQ(server.process().WaitForExit(std::chrono::seconds(30)), 0);
    EXPECT_EQ(LinesWith(server.process().all(), words), 1) << server.process().all();
  }

  // With `gpu` it does not start, and says the same.
  void ExpectRefusal(const std::string& devices, const Process::Environment& environment, const std::string& words) {
    const Finished server = RunProgram(ServerCommand("127.0.0.1:0", "127.0.0.1:0", Arguments(devices)), environment,
                                       std::chrono::seconds(60));
    EXPECT_GT(server.exit_code, 0);
    EXPECT_LT(server.exit_code, 128);
    EXPECT_NE((server.out + server.err).find(words), std::string::npos) << server.err;
  }

  static Process::Environment FakeDriver(const std::string& code) {
    return {{"LD_LIBRARY_PATH", BuiltLibrary("fake_driver")}, {"WIDELANE_FAKE_CUINIT", code}};
  }

  TempDir files_;
};

TEST_F(DriverTest, NeedsNoDriverLibraryToStart) {
  const std::string readelf = FindProgram("readelf");
  if (readelf.empty()) GTEST_SKIP() << "readelf (binutils) is not installed";
  for (const char* program : {"widelane-server", "widelane"}) {
    const Finished headers = RunProgram({readelf, "-d", BuiltProgram(program)});
    ASSERT_EQ(headers.exit_code, 0) << headers.err;
    EXPECT_NE(headers.out.find("NEEDED"), std::string::npos);
    EXPECT_EQ(headers.out.find("libcuda"), std::string::npos) << headers.out;
    EXPECT_EQ(headers.out.find("libnvidia"), std::string::npos) << headers.out;
  }
}

TEST_F(DriverTest, ABuildWithoutCudaSaysSo) {
  if (kBuiltWithCuda) GTEST_SKIP() << "this build has the CUDA backend";
  ExpectFallback({}, "no CUDA backend");
  ExpectRefusal("gpu", {}, "no CUDA backend");
  ExpectRefusal("0", {}, "no CUDA backend");
}

TEST_F(DriverTest, NoDriverLibrary) {
  if (!kBuiltWithCuda) GTEST_SKIP() << "this build has no CUDA backend";
  if (HasDriver()) GTEST_SKIP() << "this machine has a driver library";
  ExpectFallback({}, "no NVIDIA driver");
  ExpectRefusal("gpu", {}, "no NVIDIA driver");
}

TEST_F(DriverTest, ADriverThatFailsAtInit) {
  if (!kBuiltWithCuda) GTEST_SKIP() << "this build has no CUDA backend";
  const std::vector<std::pair<std::string, std::string>> codes = {{"803", "cudaErrorSystemDriverMismatch"},
                                                                  {"35", "cudaErrorInsufficientDriver"},
                                                                  {"100", "cudaErrorNoDevice"},
                                                                  {"999", "cudaErrorUnknown"}};
  for (const auto& [code, words] : codes) {
    SCOPED_TRACE("cuInit returns " + code);
    ExpectFallback(FakeDriver(code), words);
    ExpectRefusal("gpu", FakeDriver(code), words);
  }
}

TEST_F(DriverTest, ADriverThatHangs) {
  if (!kBuiltWithCuda) GTEST_SKIP() << "this build has no CUDA backend";
  Process::Environment environment = FakeDriver("0");
  environment["WIDELANE_FAKE_CUINIT_SLEEP_S"] = "30";
  ExpectFallback(environment, "did not answer");
  ExpectRefusal("gpu", environment, "did not answer");
}

TEST_F(DriverTest, HidingAllGpusIsNoError) {
  for (const char* visible : {"", "-1"}) {
    SCOPED_TRACE(visible);
    ServerProcess server(Arguments("auto"), {{"CUDA_VISIBLE_DEVICES", visible}});
    ASSERT_TRUE(server.WaitUntilReady());
    ExpectNear(Score(server.stub(), Request("r4", PlainRows({{{2, 3.0f}}}))).reply.scores(), {0.994779874});
    EXPECT_EQ(MetricValue(HttpGet(server.http_address(), "/metrics").body, "widelane_cpu_fallback"), 1.0);
    EXPECT_NE(
        RunProgram(ServerCommand("127.0.0.1:0", "127.0.0.1:0", Arguments("gpu")), {{"CUDA_VISIBLE_DEVICES", visible}})
            .exit_code,
        0);
  }
}

TEST_F(DriverTest, TheCpuCanBeChosenAndIsNoFallback) {
  ServerProcess server(Arguments("cpu"));
  ASSERT_TRUE(server.WaitUntilReady());
  EXPECT_EQ(MetricValue(HttpGet(server.http_address(), "/metrics").body, "widelane_cpu_fallback"), 0.0);
}

// The rest needs GPUs.
class GpuDriverTest : public DriverTest {
 protected:
  // UUIDs of the GPUs a server uses; empty if it fell back to the CPU or did not start.
  std::vector<std::string> Gpus(const std::string& devices, const Process::Environment& environment) {
    ServerProcess server(Arguments(devices), environment);
    if (server.process().WaitForLine("ready: ", std::chrono::seconds(60)) == std::nullopt) return {};
    EXPECT_TRUE(server.WaitForPorts());
    ExpectNear(Score(server.stub(), Request("r4", PlainRows({{{2, 3.0f}}}))).reply.scores(), {0.994779874});
    std::vector<std::string> gpus;
    std::istringstream page(HttpGet(server.http_address(), "/metrics").body);
    for (std::string line; std::getline(page, line);) {
      const size_t at = line.find("device=\"GPU-");
      if (line.rfind("widelane_device_info", 0) == 0 && at != std::string::npos)
        gpus.push_back(line.substr(at + 8, 40));
    }
    EXPECT_EQ(LinesWith(server.process().all(), gpus.empty() ? "" : gpus[0]) > 0, true) << "the log shows no UUID";
    return gpus;
  }

  void SetUp() override {
    if (!kBuiltWithCuda) GTEST_SKIP() << "this build has no CUDA backend";
    if (HasDriver()) all_ = Gpus("gpu", {});
    if (!all_.empty()) return;
    const char* problem = HasDriver() ? "no GPU of this machine can be used" : "this machine has no GPU driver";
    // Set where there are GPUs, so that one that cannot be used does not go unnoticed.
    if (std::getenv("WIDELANE_REQUIRE_GPU") != nullptr) FAIL() << problem;
    GTEST_SKIP() << problem;
  }

  std::vector<std::string> all_;
};

TEST_F(GpuDriverTest, TheRuntimeDecidesWhatIsVisible) {
  const auto visible = [this](const std::string& value) { return Gpus("auto", {{"CUDA_VISIBLE_DEVICES", value}}); };
  EXPECT_EQ(visible("0,-1,1"), std::vector<std::string>{all_[0]});
  EXPECT_TRUE(visible("77").empty());
  EXPECT_EQ(visible(all_[0]), std::vector<std::string>{all_[0]});
  EXPECT_EQ(visible(all_[0].substr(0, 12)), std::vector<std::string>{all_[0]});
  EXPECT_LE(visible("0,0").size(), 1u);
}

TEST_F(GpuDriverTest, OurOwnListCountsInsideTheVisibleSet) {
  ExpectRefusal("77", {}, "77");
  if (all_.size() < 2) GTEST_SKIP() << "this machine has one GPU";
  EXPECT_EQ(Gpus("1", {{"CUDA_VISIBLE_DEVICES", "1,0"}}), std::vector<std::string>{all_[0]});
}

}  // namespace
}  // namespace widelane::test
