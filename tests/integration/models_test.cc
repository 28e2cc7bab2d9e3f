// Models and versions: which one answers, what is told of them, what a bad one does to the others.

#include <gtest/gtest.h>

#include "tests/support/expect.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

std::shared_ptr<const Model> Constant(double value) {
  return MakeModel({.features = 1, .weights = {0}, .bias = {value}});
}

class RepositoryTest : public ::testing::Test {
 protected:
  RepositoryTest() {
    for (const int version : {1, 2, 10}) {
      files_.Write("constant/" + std::to_string(version) + "/model.safetensors", *Constant(version));
    }
    files_.Write("constant/03/model.safetensors", *Constant(3));
    files_.Write("constant/latest/model.safetensors", *Constant(4));
    files_.Write("r4/7/model.safetensors", *R4());
    files_.Write("broken/1/model.safetensors", std::string("not a model"));
    files_.Write("notes.txt", std::string("no model either"));
  }

  std::unique_ptr<TestServer> Serve(bool all_versions) {
    return std::make_unique<TestServer>(TestServer::Models{}, [&](ServerConfig& config) {
      config.models.repository = files_.path();
      config.models.all_versions = all_versions;
    });
  }

  static ScoreResult Ask(TestServer& server, const std::string& model, const std::string& version) {
    v1::ScoreRequest request = Request(model, PlainRows({WireRow{}}));
    request.set_version(version);
    return server.Score(request);
  }

  TempDir files_;
};

TEST_F(RepositoryTest, ServesTheNewestVersion) {
  const auto server = Serve(false);
  for (const char* version : {"", "10"}) {
    const ScoreResult result = Ask(*server, "constant", version);
    ExpectOk(result.status);
    EXPECT_EQ(result.reply.version(), "10");
    ExpectNear(result.reply.scores(), {10});
  }
  ExpectError(Ask(*server, "constant", "2").status, grpc::StatusCode::NOT_FOUND, {"constant", "2"});
  EXPECT_EQ(Ask(*server, "r4", "").reply.version(), "7");
}

TEST_F(RepositoryTest, ServesAllVersionsIfTold) {
  const auto server = Serve(true);
  for (const auto& [version, value] : {std::pair{"1", 1.0}, {"2", 2.0}, {"10", 10.0}}) {
    const ScoreResult result = Ask(*server, "constant", version);
    ExpectOk(result.status);
    EXPECT_EQ(result.reply.version(), version);
    ExpectNear(result.reply.scores(), {value});
  }
  EXPECT_EQ(Ask(*server, "constant", "").reply.version(), "10");
}

TEST_F(RepositoryTest, AVersionIsAPlainDecimalNumber) {
  const auto server = Serve(true);
  for (const char* version : {"01", "x", "-1", "1.0", " 1", "latest", "+1"}) {
    ExpectBadField(Ask(*server, "constant", version).status, "version");
  }
  for (const char* version : {"9", "3", "4", "1234567890"}) {
    ExpectError(Ask(*server, "constant", version).status, grpc::StatusCode::NOT_FOUND, {"constant"});
  }
}

TEST_F(RepositoryTest, ABrokenModelLeavesTheOthersAlone) {
  const auto server = Serve(false);
  EXPECT_TRUE(server->server().Ready());
  ExpectOk(Ask(*server, "constant", "").status);
  const grpc::Status status = Ask(*server, "broken", "").status;
  EXPECT_FALSE(status.ok());
  ExpectError(status, status.error_code(), {"broken"});

  grpc::ClientContext context;
  v1::ListModelsReply reply;
  ExpectOk(server->stub().ListModels(&context, {}, &reply));
  std::vector<std::string> names;
  for (const v1::ModelInfo& model : reply.models()) {
    names.push_back(model.name() + "/" + model.version());
    const bool broken = model.name() == "broken";
    EXPECT_EQ(model.state(), broken ? v1::ModelInfo::FAILED : v1::ModelInfo::AVAILABLE) << model.name();
    EXPECT_EQ(model.error().empty(), !broken) << model.error();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"broken/1", "constant/10", "r4/7"}));
}

TEST(ModelsTest, TellsWhatAModelIs) {
  TestServer server({{"l3", L3()}, {"r4", R4()}});
  grpc::ClientContext context;
  v1::GetModelRequest request;
  request.set_model("l3");
  v1::ModelInfo info;
  ExpectOk(server.stub().GetModel(&context, request, &info));
  EXPECT_EQ(info.name(), "l3");
  EXPECT_EQ(info.version(), "1");
  EXPECT_EQ(info.state(), v1::ModelInfo::AVAILABLE);
  EXPECT_EQ(info.features(), 3u);
  EXPECT_EQ(info.outputs(), 1u);
  EXPECT_EQ(info.link(), "sigmoid");
  EXPECT_EQ(info.weight_type(), "float32");
  ASSERT_EQ(info.labels_size(), 2);
  EXPECT_EQ(info.labels(0), "1");
  EXPECT_EQ(info.labels(1), "0");
  EXPECT_TRUE(info.has_probabilities());
  EXPECT_TRUE(info.ignores_unknown_features());
  EXPECT_EQ(info.source(), "test");
  EXPECT_EQ(info.digest().rfind("sha256:", 0), 0u);
  ASSERT_EQ(info.devices_size(), 1);
  EXPECT_EQ(info.devices(0), "cpu");
  const LimitsConfig limits = TestServer::Config().limits;
  EXPECT_EQ(info.max_message_bytes(), limits.max_message_bytes);
  EXPECT_EQ(info.max_rows(), limits.max_request_rows);
  EXPECT_EQ(info.max_entries(), limits.max_request_entries);
}

TEST(ModelsTest, AnUnknownModelIsNotFoundAndNoMetricLabel) {
  TestServer server({{"r4", R4()}});
  ExpectOk(server.Score(Request("r4", PlainRows({WireRow{}}))).status);
  for (int i = 0; i < 5; ++i) {
    const std::string name = "stranger" + std::to_string(i);
    ExpectError(server.Score(Request(name, PlainRows({WireRow{}}))).status, grpc::StatusCode::NOT_FOUND, {name});
    grpc::ClientContext context;
    v1::GetModelRequest request;
    request.set_model(name);
    v1::ModelInfo info;
    ExpectError(server.stub().GetModel(&context, request, &info), grpc::StatusCode::NOT_FOUND, {name});
  }
  const std::string page = server.Metrics();
  EXPECT_NE(page.find("widelane_"), std::string::npos);
  EXPECT_EQ(page.find("stranger"), std::string::npos);
}

TEST(ModelsTest, AnOverlongModelNameGivesABoundedMessage) {
  TestServer server({{"r4", R4()}});
  const grpc::Status status = server.Score(Request(std::string(100000, 'x'), PlainRows({WireRow{}}))).status;
  EXPECT_TRUE(status.error_code() == grpc::StatusCode::NOT_FOUND ||
              status.error_code() == grpc::StatusCode::INVALID_ARGUMENT)
      << status.error_code() << status.error_message().substr(0, 200);
  EXPECT_LT(status.error_message().size(), 4096u);
  // Bytes that are no UTF-8 must not break the status either.
  const std::string request("\x0a\x04\xff\xfe\n\x01\x1a\x02\x28\x00", 10);
  EXPECT_NE(CallRaw(server.channel(), kScoreMethod, request).status.error_code(), grpc::StatusCode::OK);
  ExpectOk(server.Score(Request("r4", PlainRows({WireRow{}}))).status);
}

}  // namespace
}  // namespace widelane::test
