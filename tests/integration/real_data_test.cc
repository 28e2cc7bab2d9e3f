// Public data sets: liblinear trains, the command imports and scores over gRPC, the client library too; all agree with
// liblinear's own predictions.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/support/check.h"
#include "tests/support/expect.h"
#include "tests/support/liblinear.h"
#include "tests/support/test_server.h"
#include "widelane/client/client.h"

namespace widelane::test {
namespace {

// Rows of a file in svmlight form, features from 0.
client::Rows ReadRows(const std::string& path) {
  client::Rows rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line); rows.EndRow()) {
    std::istringstream words(line);
    std::string word;
    words >> word;  // the label
    while (words >> word) {
      const size_t colon = word.find(':');
      rows.AddEntry(std::stoll(word.substr(0, colon)) - 1, std::stof(word.substr(colon + 1)));
    }
  }
  return rows;
}

class RealDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasLiblinear()) GTEST_SKIP() << "liblinear-tools is not installed";
  }

  // The data set's path; empty (and the test is to be skipped) where it is not there.
  static std::string DataFile(const std::string& name) {
    const char* folder = std::getenv("WIDELANE_TEST_DATA");
    if (folder == nullptr) return "";
    const std::string path = std::string(folder) + "/" + name;
    return std::ifstream(path).good() ? path : "";
  }

  void ExpectAgreement(const std::string& train, const std::string& test, const std::vector<std::string>& options) {
    const std::string model = TrainLiblinear(files_, train, options);
    expected_ = PredictLiblinear(files_, test, model);
    ASSERT_FALSE(expected_.labels.empty());
    const Finished import = ImportLiblinear(files_, "model", model);
    ASSERT_EQ(import.exit_code, 0) << import.err;
    TestServer server(TestServer::Models{}, [this](ServerConfig& config) {
      config.models.models.push_back({"model", files_.path() + "/model.safetensors"});
    });
    const std::string address = server.server().grpc_address();
    const auto client = Must(client::Client::Connect(address, {}));
    labels_ = Must(client->GetModel("model", "")).labels;
    ASSERT_EQ(labels_.size(), expected_.order.size());

    client::ScoreRequest request;
    const client::Rows rows = ReadRows(test);
    request.model = "model";
    request.rows = rows;
    request.outputs = {client::Output::kLabels, client::Output::kProbabilities};
    const client::ScoreReply reply = Must(client->Score(request));
    ExpectSame(reply.labels, reply.probabilities);

    ExpectCommandAgrees(address, test);
  }

 private:
  void ExpectCommandAgrees(const std::string& address, const std::string& test) {
    const Finished score = RunProgram({BuiltProgram("widelane"), "score", "--address", address, "--model", "model",
                                       "--output", "labels,probabilities", "--rows-per-call", "3000", test});
    ASSERT_EQ(score.exit_code, 0) << score.err;
    std::vector<std::string> labels;
    std::vector<float> probabilities;
    std::istringstream lines(score.out);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      words >> labels.emplace_back();
      for (float p = 0; words >> p;) probabilities.push_back(p);
    }
    ExpectSame(labels, probabilities);
  }

  void ExpectSame(const std::vector<std::string>& labels, const std::vector<float>& probabilities) {
    ASSERT_EQ(labels, expected_.labels);
    ASSERT_EQ(probabilities.size(), labels.size() * labels_.size());
    for (size_t k = 0; k < labels_.size(); ++k) {
      const size_t column =
          std::find(expected_.order.begin(), expected_.order.end(), labels_[k]) - expected_.order.begin();
      ASSERT_LT(column, expected_.order.size());
      for (size_t row = 0; row < labels.size(); ++row) {
        ASSERT_NEAR(probabilities[row * labels_.size() + k], expected_.probabilities[row][column], kTolerance)
            << "row " << row << " label " << labels_[k];
      }
    }
  }

  TempDir files_;
  Predictions expected_;
  std::vector<std::string> labels_;
};

#define SKIP_WITHOUT(path) \
  if ((path).empty()) GTEST_SKIP() << "WIDELANE_TEST_DATA does not name a folder with this data set"

TEST_F(RealDataTest, Adult) {
  const std::string data = DataFile("a9a");
  SKIP_WITHOUT(data);
  ExpectAgreement(data, data, {"-s", "0"});
}

TEST_F(RealDataTest, AdultWithBias) {
  const std::string data = DataFile("a9a");
  SKIP_WITHOUT(data);
  ExpectAgreement(data, data, {"-s", "7", "-B", "1"});
}

TEST_F(RealDataTest, Mushroom) {
  const std::string train = DataFile("agaricus.txt.train");
  const std::string test = DataFile("agaricus.txt.test");
  SKIP_WITHOUT(train);
  SKIP_WITHOUT(test);
  ExpectAgreement(train, test, {"-s", "0"});
  ExpectAgreement(train, test, {"-s", "6", "-B", "0.5"});
}

TEST_F(RealDataTest, Heart) {
  const std::string data = DataFile("heart_scale");
  SKIP_WITHOUT(data);
  ExpectAgreement(data, data, {"-s", "0"});
}

// Three classes told apart by where a point lies.
TEST_F(RealDataTest, ThreeClassesThatWereMadeUp) {
  TempDir files;
  std::ostringstream data;
  for (int i = 0; i < 600; ++i) {
    const double x = (i * 37 % 100) / 50.0 - 1;
    const double y = (i * 53 % 101) / 50.0 - 1;
    const int label = x + y > 0.4 ? 5 : (x - y > 0.1 ? -2 : 11);
    data << label << " 1:" << x << " 3:" << y << (i % 7 == 0 ? " 9:1" : "") << "\n";
  }
  const std::string path = files.Write("points", data.str());
  ExpectAgreement(path, path, {"-s", "0", "-B", "1"});
  ExpectAgreement(path, path, {"-s", "7"});
}

}  // namespace
}  // namespace widelane::test
