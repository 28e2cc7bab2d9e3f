// Models of liblinear, imported by the command and served: label order, signs, bias lines, solver kinds, normalisation.

#include "tests/support/liblinear.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/expect.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

// Rows as liblinear writes them, 1-based.
v1::Rows OneBased(std::vector<WireRow> rows) {
  for (WireRow& row : rows) {
    for (auto& [index, value] : row) --index;
  }
  return PlainRows(rows);
}

class LiblinearTest : public ::testing::Test {
 protected:
  // Imports `text` and serves it.
  void Serve(const std::string& text) {
    const Finished import = ImportLiblinear(files_, "model", text);
    ASSERT_EQ(import.exit_code, 0) << import.err;
    server_.reset();
    server_ = std::make_unique<TestServer>(TestServer::Models{}, [this](ServerConfig& config) {
      config.models.models.push_back({"model", files_.path() + "/model.safetensors"});
    });
  }

  ScoreResult Ask(const std::vector<WireRow>& rows, const std::vector<v1::Output>& outputs) {
    v1::ScoreRequest request = Request("model", OneBased(rows));
    for (const v1::Output output : outputs) request.add_outputs(output);
    return server_->Score(request);
  }

  struct Answer {
    std::string label;
    std::map<std::string, double> probability;  // by label
    std::vector<double> raw;
  };
  Answer Of(const WireRow& row) {
    const ScoreResult result = Ask({row}, {v1::LABELS, v1::PROBABILITIES, v1::RAW});
    ExpectOk(result.status);
    grpc::ClientContext context;
    v1::GetModelRequest request;
    request.set_model("model");
    v1::ModelInfo info;
    ExpectOk(server_->stub().GetModel(&context, request, &info));
    Answer answer;
    if (result.reply.labels_size() == 1) answer.label = result.reply.labels(0);
    answer.raw = {result.reply.raw().begin(), result.reply.raw().end()};
    EXPECT_EQ(result.reply.probabilities_size(), info.labels_size());
    for (int i = 0; i < result.reply.probabilities_size(); ++i) {
      answer.probability[info.labels(i)] = result.reply.probabilities(i);
    }
    return answer;
  }

  void ExpectAnswer(const WireRow& row, const std::string& label, const std::map<std::string, double>& probability) {
    Answer answer = Of(row);
    EXPECT_EQ(answer.label, label);
    for (const auto& [name, p] : probability) EXPECT_NEAR(answer.probability[name], p, kTolerance) << name;
  }

  std::vector<double> Raw(const WireRow& row) {
    const ScoreResult result = Ask({row}, {v1::RAW});
    ExpectOk(result.status);
    return {result.reply.raw().begin(), result.reply.raw().end()};
  }

  TempDir files_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(LiblinearTest, TheFirstLabelOfTheFileIsThePositiveOne) {
  Serve(L3Text());
  // liblinear's score is the sum for label 0, ours as well: 2.75.
  EXPECT_NEAR(Raw({{2, 1.0f}, {3, 1.0f}})[0] + 1.25 - 2 + 0.25, 0, kTolerance);
  ExpectAnswer({{2, -2.0f}, {3, 0.25f}}, "0", {{"0", 0.939913}, {"1", 0.060087}});
  ExpectAnswer({{2, 1.0f}}, "1", {{"0", 0.182426}, {"1", 0.817574}});
  ExpectAnswer({{1, 0.5f}}, "1", {{"0", 0.5}, {"1", 0.5}});
  ExpectAnswer({}, "1", {{"0", 0.437823}, {"1", 0.562177}});
  EXPECT_EQ(Ask({{}}, {v1::SCORES}).reply.positive_label(), "0");
}

TEST_F(LiblinearTest, BothLabelOrdersServeTheSameProbability) {
  const auto text = [](const std::string& labels, const std::string& weight) {
    return "solver_type L2R_LR\nnr_class 2\nlabel " + labels + "\nnr_feature 1\nbias -1\nw\n" + weight + " \n";
  };
  Serve(text("1 0", "0.674828"));
  ExpectAnswer({{1, 1.0f}}, "1", {{"1", 0.662583}});
  Serve(text("0 1", "-0.674828"));
  ExpectAnswer({{1, 1.0f}}, "1", {{"1", 0.662583}});
}

TEST_F(LiblinearTest, TrainedInEitherOrderServesTheSameProbability) {
  if (!HasLiblinear()) GTEST_SKIP() << "liblinear-tools is not installed";
  for (const char* data : {"1 1:1\n0 1:-1\n", "0 1:-1\n1 1:1\n"}) {
    Serve(TrainLiblinear(files_, files_.Write("data", std::string(data)), {"-s", "0"}));
    ExpectAnswer({{1, 1.0f}}, "1", {{"1", 0.662583}});
  }
}

TEST_F(LiblinearTest, NoRowReachesTheBiasWeight) {
  Serve(L3Text());
  ExpectAnswer({{4, 5.0f}}, "1", {{"0", 0.437823}});
  ExpectAnswer({{9, 1.0f}}, "1", {{"0", 0.437823}});
  EXPECT_EQ(MetricValue(server_->Metrics(), "widelane_ignored_features_total", {"model=\"model\""}), 2.0);
}

TEST_F(LiblinearTest, TheBiasValueMultipliesTheLastLine) {
  Serve(L3Text("0"));
  EXPECT_EQ(Of({}).probability["0"], 0.5);
  EXPECT_EQ(Of({}).label, "1");
  Serve(L3Text("-1"));
  ExpectAnswer({{4, 5.0f}}, "1", {{"0", 0.222700}});
  Serve(L3Text("0.5"));
  ExpectNear(Raw({}), {-0.125});
  ExpectAnswer({}, "1", {{"0", 0.468791}});
}

TEST_F(LiblinearTest, RegressionHasAValueAndNoLabels) {
  Serve("solver_type L2R_L2LOSS_SVR\nnr_class 2\nnr_feature 2\nbias 2\nw\n0.5 \n-1 \n0.125 \n");
  ExpectNear(Raw({{1, 1.0f}}), {0.75});
  ExpectNear(Raw({{2, 1.0f}}), {-0.75});
  ExpectNear(Raw({{1, 1.0f}, {2, 1.0f}}), {-0.25});
  ExpectNear(Raw({}), {0.25});
  ExpectNear(Ask({{}}, {v1::SCORES}).reply.scores(), {0.25});
  ExpectError(Ask({{}}, {v1::LABELS}).status, grpc::StatusCode::FAILED_PRECONDITION);
  ExpectError(Ask({{}}, {v1::PROBABILITIES}).status, grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(LiblinearTest, CrammerSingerHasTwoColumnsAlsoForTwoClasses) {
  Serve("solver_type MCSVM_CS\nnr_class 2\nlabel 7 3\nnr_feature 2\nbias -1\nw\n0.5 -0.25 \n-1 0.75 \n");
  const ScoreResult result = Ask({{{1, 1.0f}}, {{2, 1.0f}}, {{1, 1.0f}, {2, 1.0f}}, {}}, {v1::LABELS, v1::RAW});
  ExpectOk(result.status);
  const std::vector<std::string> labels(result.reply.labels().begin(), result.reply.labels().end());
  EXPECT_EQ(labels, (std::vector<std::string>{"7", "3", "3", "3"}));
  // liblinear tells two classes apart by the first column alone.
  ExpectNear(result.reply.raw(), {0.5, -1, -0.5, 0});
  ExpectError(Ask({{}}, {v1::PROBABILITIES}).status, grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(LiblinearTest, AnSvmHasScoresAndLabelsButNoProbabilities) {
  Serve(L3Text("1", "L2R_L2LOSS_SVC"));
  const ScoreResult result = Ask({{}, {{3, 1.0f}}}, {v1::LABELS, v1::SCORES});
  ExpectOk(result.status);
  EXPECT_EQ(result.reply.labels(0), "1");
  EXPECT_EQ(result.reply.labels(1), "0");
  ExpectNear(result.reply.scores(), {-0.25, 1.75});
  ExpectError(Ask({{}}, {v1::PROBABILITIES}).status, grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(LiblinearTest, SeveralClassesAreNormalisedOneVersusRest) {
  Serve(
      "solver_type L2R_LR\nnr_class 3\nlabel 2 0 1\nnr_feature 2\nbias 1\nw\n1 -0.5 0.25 \n-2 1.5 0.5 \n0.1 0.2 -0.3 "
      "\n");
  ExpectNear(Raw({{1, 1.0f}, {2, 1.0f}}), {-0.9, 1.2, 0.45});
  ExpectAnswer({{1, 1.0f}, {2, 1.0f}}, "0", {{"2", 0.173269}, {"0", 0.460687}, {"1", 0.366044}});
  ExpectAnswer({{2, 1.0f}}, "0", {{"2", 0.085290}, {"0", 0.554276}, {"1", 0.360434}});
  ExpectAnswer({}, "0", {{"2", 0.349900}, {"0", 0.366465}, {"1", 0.283635}});
}

TEST_F(LiblinearTest, UnknownSolversAreRefusedByName) {
  for (const std::string solver : {"ONECLASS_SVM", "L3R_MAGIC"}) {
    const Finished import = ImportLiblinear(files_, "refused", L3Text("1", solver));
    EXPECT_EQ(import.exit_code, 1);
    EXPECT_NE(import.err.find(solver), std::string::npos) << import.err;
  }
}

}  // namespace
}  // namespace widelane::test
