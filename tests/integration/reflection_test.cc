// A client without any .proto file, against the program as it is shipped.

#include "tests/support/reflection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/check.h"
#include "tests/support/expect.h"
#include "tests/support/models.h"
#include "tests/support/server_process.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

constexpr const char* kScoring = "widelane.v1.Scoring";

class ReflectionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = new TempDir;
    server_ = new ServerProcess({"--model", "r4=" + files_->Write("r4.safetensors", *R4())});
    Require(server_->WaitUntilReady(), "the server is ready");
  }
  static void TearDownTestSuite() {
    delete server_;
    delete files_;
  }

  ReflectionClient client_{server_->channel()};
  static TempDir* files_;
  static ServerProcess* server_;
};
TempDir* ReflectionTest::files_ = nullptr;
ServerProcess* ReflectionTest::server_ = nullptr;

TEST_F(ReflectionTest, ListsItsServices) {
  const std::vector<std::string> names = client_.ListServices();
  for (const char* name : {kScoring, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
}

TEST_F(ReflectionTest, DescribesScoring) {
  const google::protobuf::ServiceDescriptor* service = client_.Describe(kScoring);
  ASSERT_NE(service, nullptr);
  for (const char* method : {"Score", "ListModels", "GetModel"}) {
    EXPECT_NE(service->FindMethodByName(method), nullptr) << method;
  }
  const auto* request = service->FindMethodByName("Score")->input_type();
  EXPECT_EQ(request->full_name(), "widelane.v1.ScoreRequest");
  EXPECT_NE(request->FindFieldByName("rows"), nullptr);
  EXPECT_EQ(client_.Describe("no.such.Service"), nullptr);
}

TEST_F(ReflectionTest, ScoresJson) {
  const auto result = client_.Call(kScoring, "Score",
                                   R"({"model": "r4",
                                       "rows": {"plainIndptr": [0, 1, 1], "plainIndices": [2], "plainValues": [3]},
                                       "outputs": ["SCORES", "LABELS", "PROBABILITIES"]})");
  ExpectOk(result.status);
  const auto reply = nlohmann::json::parse(result.json);
  ExpectNear(reply["scores"].get<std::vector<double>>(), {0.994779874, 0.320821301});
  ExpectNear(reply["probabilities"].get<std::vector<double>>(), {0.005220126, 0.994779874, 0.679178699, 0.320821301});
  EXPECT_EQ(reply["labels"], (nlohmann::json{"1", "0"}));
  EXPECT_EQ(reply["positiveLabel"], "1");
}

TEST_F(ReflectionTest, ChecksHealthInJson) {
  const auto result = client_.Call("grpc.health.v1.Health", "Check", R"({"service": "readiness"})");
  ExpectOk(result.status);
  EXPECT_EQ(nlohmann::json::parse(result.json)["status"], "SERVING");
}

TEST_F(ReflectionTest, ListsModelsAsJson) {
  const auto result = client_.Call(kScoring, "ListModels", "{}");
  ExpectOk(result.status);
  const auto models = nlohmann::json::parse(result.json)["models"];
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0]["name"], "r4");
  EXPECT_EQ(models[0]["state"], "AVAILABLE");
}

TEST_F(ReflectionTest, ErrorsOfJsonCallsHaveTheirDetails) {
  const auto result =
      client_.Call(kScoring, "Score", R"({"model": "r4", "rows": {"plainIndptr": [0, 1], "plainIndices": [4]}})");
  ExpectBadField(result.status, "rows.", {"row 0", "4"});
}

TEST(ReflectionOffTest, CanBeSwitchedOff) {
  TestServer server({{"r4", R4()}}, [](ServerConfig& config) { config.front.reflection = false; });
  ReflectionClient client(server.channel());
  EXPECT_TRUE(client.ListServices().empty());
}

}  // namespace
}  // namespace widelane::test
