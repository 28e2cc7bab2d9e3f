#include "client/cli/import_liblinear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "widelane/engine/outputs.h"

namespace widelane::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Features as the file counts them, from 1, and their values.
using Row = std::vector<std::pair<uint64_t, double>>;
constexpr double kTolerance = 1e-6;

const char* const kBinary =
    "solver_type L2R_LR\nnr_class 2\nlabel 0 1\nnr_feature 3\nbias 1\nw\n0.5 \n-1.25 \n2 \n-0.25 \n";
const char* const kThreeClasses =
    "solver_type L2R_LR\nnr_class 3\nlabel 2 0 1\nnr_feature 2\nbias 1\nw\n1 -0.5 0.25 \n-2 1.5 0.5 \n0.1 0.2 -0.3 \n";

absl::StatusOr<std::shared_ptr<const Model>> Import(const std::string& text, WeightType type = WeightType::kFloat32) {
  std::istringstream in(text);
  return ImportLiblinear(in, text.size(), "a.model", type);
}

std::string Problem(const std::string& text, WeightType type = WeightType::kFloat32) {
  const auto model = Import(text, type);
  return model.ok() ? "none" : std::string(model.status().message());
}

std::string Edit(const std::string& text, const char* from, const char* to) {
  EXPECT_THAT(text, HasSubstr(from));
  return absl::StrReplaceAll(text, {{from, to}});
}

// What the engine computes, in plain double.
std::vector<double> Raw(const Model& model, const Row& row) {
  std::vector<double> raw = model.bias();
  for (const auto& [index, value] : row) {
    if (index > model.features()) continue;
    for (uint32_t k = 0; k < model.outputs(); ++k) {
      float weight;
      std::memcpy(&weight, model.weights() + ((index - 1) * model.outputs() + k) * sizeof(weight), sizeof(weight));
      raw[k] += static_cast<double>(weight) * value;
    }
  }
  return raw;
}

// In the order of model.labels().
std::vector<float> ProbabilitiesOf(const Model& model, const Row& row) {
  std::vector<float> out(ProbabilityCount(model));
  Probabilities(model, Raw(model, row).data(), out.data());
  return out;
}

double ProbabilityOf(const Model& model, const std::string& label, const Row& row) {
  const auto at = std::find(model.labels().begin(), model.labels().end(), label);
  EXPECT_NE(at, model.labels().end());
  return ProbabilitiesOf(model, row)[at - model.labels().begin()];
}

std::string Label(const Model& model, const Row& row) { return model.labels()[LabelOf(model, Raw(model, row).data())]; }

TEST(ImportLiblinear, TakesTheFirstLabelForPositiveSums) {
  const auto model = *Import(kBinary);
  EXPECT_EQ(model->features(), 3);
  EXPECT_EQ(model->outputs(), 1);
  EXPECT_EQ(model->link(), Link::kSigmoid);
  EXPECT_EQ(model->unknown_features(), UnknownFeatures::kIgnore);
  EXPECT_EQ(model->source(), "liblinear L2R_LR");
  EXPECT_THAT(model->labels(), ElementsAre("1", "0"));

  const Row high = {{1, 2}, {3, 1}};
  EXPECT_NEAR(Raw(*model, high)[0], 2.75, kTolerance);
  EXPECT_EQ(Label(*model, high), "0");
  EXPECT_NEAR(ProbabilityOf(*model, "0", high), 0.939913, kTolerance);
  EXPECT_NEAR(ProbabilityOf(*model, "1", high), 0.060087, kTolerance);
  EXPECT_EQ(Label(*model, {{2, 1}}), "1");
  EXPECT_NEAR(ProbabilityOf(*model, "0", {{2, 1}}), 0.182426, kTolerance);
}

TEST(ImportLiblinear, GivesATieToTheSecondLabel) {
  const auto model = *Import(kBinary);
  const Row tie = {{1, 0.5}};
  EXPECT_EQ(Raw(*model, tie)[0], 0);
  EXPECT_EQ(Label(*model, tie), "1");
  EXPECT_THAT(ProbabilitiesOf(*model, tie), ElementsAre(0.5F, 0.5F));
}

TEST(ImportLiblinear, ServesTheSameWhicheverLabelCameFirst) {
  const char* const text = "solver_type L2R_LR\nnr_class 2\nlabel 1 0\nnr_feature 1\nbias -1\nw\n0.674828 \n";
  const auto one_first = *Import(text);
  const auto zero_first = *Import(Edit(Edit(text, "label 1 0", "label 0 1"), "0.674828", "-0.674828"));
  EXPECT_NEAR(ProbabilityOf(*one_first, "1", {{1, 1}}), 0.662583, kTolerance);
  EXPECT_NEAR(ProbabilityOf(*zero_first, "1", {{1, 1}}), 0.662583, kTolerance);
}

TEST(ImportLiblinear, KeepsTheBiasOutOfReach) {
  const auto model = *Import(kBinary);
  for (const Row& row : {Row{}, Row{{4, 5}}, Row{{9, 1}}}) {
    EXPECT_EQ(Label(*model, row), "1");
    EXPECT_NEAR(ProbabilityOf(*model, "0", row), 0.437823, kTolerance);
    EXPECT_NEAR(ProbabilityOf(*model, "1", row), 0.562177, kTolerance);
  }
}

TEST(ImportLiblinear, MultipliesTheBiasLineByTheBias) {
  const auto zero = *Import(Edit(kBinary, "bias 1", "bias 0"));
  EXPECT_THAT(ProbabilitiesOf(*zero, {}), ElementsAre(0.5F, 0.5F));
  EXPECT_EQ(Label(*zero, {}), "1");
  const auto half = *Import(Edit(kBinary, "bias 1", "bias 0.5"));
  EXPECT_EQ(Raw(*half, {})[0], -0.125);
  EXPECT_NEAR(ProbabilityOf(*half, "0", {}), 0.468791, kTolerance);
}

TEST(ImportLiblinear, TakesTheLastLineForAFeatureWithoutBias) {
  const auto model = *Import(Edit(Edit(kBinary, "bias 1", "bias -1"), "nr_feature 3", "nr_feature 4"));
  EXPECT_EQ(model->features(), 4);
  EXPECT_NEAR(ProbabilityOf(*model, "0", {{4, 5}}), 0.222700, kTolerance);
}

TEST(ImportLiblinear, ReadsRegression) {
  for (const char* solver : {"L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR_DUAL", "L2R_L1LOSS_SVR_DUAL"}) {
    const auto model =
        *Import(std::string("solver_type ") + solver + "\nnr_class 2\nnr_feature 2\nbias 2\nw\n0.5 \n-1 \n0.125 \n");
    EXPECT_EQ(model->outputs(), 1);
    EXPECT_EQ(model->link(), Link::kIdentity);
    EXPECT_TRUE(model->labels().empty());
    EXPECT_EQ(Raw(*model, {{1, 1}})[0], 0.75);
    EXPECT_EQ(Raw(*model, {{2, 1}})[0], -0.75);
    EXPECT_EQ(Raw(*model, {{1, 1}, {2, 1}})[0], -0.25);
    EXPECT_EQ(Raw(*model, {})[0], 0.25);
  }
}

// liblinear writes two columns and predicts by the sign of the first, whatever the second says.
TEST(ImportLiblinear, ReadsTwoColumnsOfCrammerAndSinger) {
  const char* const text =
      "solver_type MCSVM_CS\nnr_class 2\nlabel 7 3\nnr_feature 2\nbias -1\nw\n0.5 -0.25 \n-1 0.75 \n";
  const auto model = *Import(text);
  EXPECT_FALSE(model->has_probabilities());
  EXPECT_THAT(model->labels(), ElementsAre("3", "7"));
  EXPECT_EQ(Raw(*model, {{1, 1}, {2, 2}})[0], -1.5);
  EXPECT_EQ(Label(*model, {{1, 1}}), "7");
  EXPECT_EQ(Label(*model, {{2, 1}}), "3");
  EXPECT_EQ(Label(*model, {{1, 1}, {2, 1}}), "3");
  EXPECT_EQ(Label(*model, {}), "3");
  EXPECT_EQ(Label(**Import(Edit(text, "0.5 -0.25", "0.5 0.75")), {{1, 1}}), "7");
  EXPECT_THAT(Problem(Edit(text, "0.5 -0.25", "0.5")), HasSubstr("there are 1 numbers, 2 were expected"));
}

// As liblinear's predict decides.
TEST(ImportLiblinear, GivesTiesOfSeveralToTheFirst) {
  EXPECT_EQ(Label(**Import(Edit(Edit(kThreeClasses, "L2R_LR", "MCSVM_CS"), "bias 1", "bias 0")), {}), "2");
}

TEST(ImportLiblinear, GivesMarginsNoProbabilities) {
  for (const char* solver :
       {"L2R_L2LOSS_SVC_DUAL", "L2R_L2LOSS_SVC", "L2R_L1LOSS_SVC_DUAL", "L1R_L2LOSS_SVC", "MCSVM_CS"}) {
    const auto model = *Import(Edit(kThreeClasses, "L2R_LR", solver));
    EXPECT_EQ(model->link(), Link::kIdentity) << solver;
    EXPECT_FALSE(model->has_probabilities()) << solver;
  }
  const auto model = *Import(Edit(kBinary, "L2R_LR", "L2R_L2LOSS_SVC"));
  EXPECT_EQ(model->link(), Link::kIdentity);
  EXPECT_EQ(Label(*model, {{1, 2}, {3, 1}}), "0");
  EXPECT_EQ(CheckHasProbabilities(*model).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ImportLiblinear, GivesEveryLogisticSolverProbabilities) {
  for (const char* solver : {"L2R_LR", "L2R_LR_DUAL", "L1R_LR"}) {
    EXPECT_EQ((*Import(Edit(kBinary, "L2R_LR", solver)))->link(), Link::kSigmoid) << solver;
    EXPECT_EQ((*Import(Edit(kThreeClasses, "L2R_LR", solver)))->link(), Link::kOneVsRest) << solver;
  }
}

TEST(ImportLiblinear, NormalisesSeveralClassesOneVersusRest) {
  const auto model = *Import(kThreeClasses);
  EXPECT_THAT(model->labels(), ElementsAre("2", "0", "1"));
  const auto expect = [&](const Row& row, double two, double zero, double one) {
    const auto p = ProbabilitiesOf(*model, row);
    EXPECT_NEAR(p[0], two, kTolerance);
    EXPECT_NEAR(p[1], zero, kTolerance);
    EXPECT_NEAR(p[2], one, kTolerance);
  };
  expect({{1, 1}, {2, 1}}, 0.173269, 0.460687, 0.366044);
  EXPECT_EQ(Label(*model, {{1, 1}, {2, 1}}), "0");
  expect({{2, 1}}, 0.085290, 0.554276, 0.360434);
  expect({}, 0.349900, 0.366465, 0.283635);
}

TEST(ImportLiblinear, TakesKeysInAnyOrderAndNoLastNewline) {
  const auto model = Import("bias -1\nnr_feature 1\nnr_class 2\nlabel 1 -1\nsolver_type L2R_LR\nw\n3");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(Raw(**model, {{1, 1}})[0], 3);
  EXPECT_TRUE(Import(absl::StrReplaceAll(kBinary, {{"\n", "\r\n"}})).ok());
  EXPECT_TRUE(Import(std::string(kBinary) + "\n \n").ok());
}

TEST(ImportLiblinear, StoresNarrowWeights) {
  const auto model = *Import(kBinary, WeightType::kFloat16);
  EXPECT_EQ(model->weight_type(), WeightType::kFloat16);
  EXPECT_EQ(model->max_weight(), 2);
  EXPECT_EQ(model->bias()[0], -0.25);
  EXPECT_EQ((*Import(kBinary, WeightType::kBfloat16))->max_weight(), 2);
  EXPECT_THAT(Problem(Edit(kBinary, "\n2 \n", "\n70000 \n"), WeightType::kFloat16),
              HasSubstr("a.model:9: weight 70000 is beyond float16"));
}

TEST(ImportLiblinear, RefusesOtherKindsByName) {
  EXPECT_THAT(Problem(Edit(kBinary, "L2R_LR", "ONECLASS_SVM")),
              HasSubstr("a.model:1: models of solver 'ONECLASS_SVM'"));
  EXPECT_THAT(Problem(Edit(kBinary, "L2R_LR", "L2R_lr")), HasSubstr("'L2R_lr'"));
  EXPECT_THAT(Problem(Edit(kBinary, "bias 1", "bias 1\nrho 0.5")), HasSubstr("a.model:6: 'rho'"));
  EXPECT_THAT(Problem(Edit(kBinary, "bias 1", "bias 1\nprobA 0.5")), HasSubstr("unknown key 'probA'"));
}

TEST(ImportLiblinear, RefusesWrongHeaders) {
  EXPECT_THAT(Problem(""), HasSubstr("ends before the line 'w'"));
  EXPECT_THAT(Problem(Edit(kBinary, "solver_type L2R_LR\n", "")), HasSubstr("no 'solver_type'"));
  EXPECT_THAT(Problem(Edit(kBinary, "label 0 1\n", "")), HasSubstr("no 'label'"));
  EXPECT_THAT(Problem(Edit(kBinary, "nr_feature 3\n", "")), HasSubstr("no 'nr_feature'"));
  EXPECT_THAT(Problem(Edit(kBinary, "bias 1\n", "")), HasSubstr("no 'bias'"));
  EXPECT_THAT(Problem(Edit(kBinary, "nr_class 2\n", "")), HasSubstr("'label' comes before 'nr_class'"));
  EXPECT_THAT(Problem(Edit(kBinary, "label 0 1", "label 0")), HasSubstr("there are 1 labels and nr_class is 2"));
  EXPECT_THAT(Problem(Edit(kBinary, "label 0 1", "label 1 1")), HasSubstr("label 1 comes twice"));
  EXPECT_THAT(Problem(Edit(kBinary, "label 0 1", "label 0 x")), HasSubstr("label 'x' is not a whole number"));
  EXPECT_THAT(Problem(Edit(kBinary, "bias 1", "bias nan")), HasSubstr("'bias' is 'nan'"));
  EXPECT_THAT(Problem(Edit(kBinary, "bias 1", "bias 1\nbias 1")), HasSubstr("'bias' comes twice"));
  EXPECT_THAT(Problem(Edit(kBinary, "bias 1", "bias 1 2")), HasSubstr("'bias' takes one value and has 2"));
  EXPECT_THAT(Problem(Edit(kBinary, "nr_feature 3", "nr_feature -3")), HasSubstr("'nr_feature' is '-3'"));
  EXPECT_THAT(Problem("solver_type L2R_LR\nnr_class 1\nlabel 5\nnr_feature 1\nbias -1\nw\n1\n"),
              HasSubstr("nr_class is 1"));
  EXPECT_THAT(Problem(Edit(kBinary, "L2R_LR", "L2R_L2LOSS_SVR")), HasSubstr("a regression model"));
}

TEST(ImportLiblinear, RefusesWrongCountsNamingTheLine) {
  EXPECT_THAT(Problem(Edit(kBinary, "\n2 \n", "\n2 3 \n")),
              HasSubstr("a.model:9: there are 2 numbers, 1 were expected"));
  EXPECT_THAT(Problem(Edit(kBinary, "\n2 \n", "\n\n")), HasSubstr("a.model:9: there are 0 numbers"));
  EXPECT_THAT(Problem(Edit(kBinary, "-0.25 \n", "")), HasSubstr("ends after 3 lines of w; 3 and one for the bias"));
  EXPECT_THAT(Problem(std::string(kBinary) + "1 \n"), HasSubstr("a.model:11: more after the last line"));
  EXPECT_THAT(Problem(Edit(kBinary, "bias 1", "bias -1")), HasSubstr("a.model:10: more after the last line"));
  EXPECT_THAT(Problem(Edit(kThreeClasses, "1 -0.5 0.25", "1 -0.5")), HasSubstr("there are 2 numbers, 3 were expected"));
}

TEST(ImportLiblinear, RefusesNumbersThatCannotBeServed) {
  for (const char* bad : {"nan", "inf", "-inf", "1e999"}) {
    EXPECT_THAT(Problem(Edit(kBinary, "\n2 \n", (std::string("\n") + bad + "\n").c_str())),
                HasSubstr("a.model:9: '" + std::string(bad) + "' is not finite"));
  }
  EXPECT_THAT(Problem(Edit(kBinary, "\n2 \n", "\n1e39 \n")), HasSubstr("a.model:9: weight 1e+39 is beyond float32"));
  EXPECT_THAT(Problem(Edit(kBinary, "\n2 \n", "\n2x \n")), HasSubstr("'2x' is not a number"));
  EXPECT_THAT(Problem(Edit(Edit(kBinary, "-0.25 ", "1e308"), "bias 1", "bias 100")), HasSubstr("is not finite"));
}

// Wherever a file's own words are told of, a terminal gets neither orders nor a flood from them.
TEST(ImportLiblinear, ShowsWordsOfTheFileSafely) {
  const std::string hostile = "\x1b[2J" + std::string(100000, 'x');
  for (const auto& [from, to] :
       std::vector<std::pair<const char*, std::string>>{{"bias 1", "bias 1\n" + hostile + " 1"},
                                                        {"L2R_LR", hostile},
                                                        {"nr_feature 3", "nr_feature " + hostile},
                                                        {"bias 1", "bias " + hostile},
                                                        {"label 0 1", "label 0 " + hostile},
                                                        {"\n2 \n", "\n" + hostile + "\n"}}) {
    const std::string problem = Problem(Edit(kBinary, from, to.c_str()));
    EXPECT_THAT(problem, HasSubstr("\\x1b[2Jxx"));
    EXPECT_THAT(problem, HasSubstr("xx...'"));
    EXPECT_EQ(problem.find('\x1b'), std::string::npos);
    EXPECT_LT(problem.size(), 200);
  }
  const std::string zeros(100000, '0');
  EXPECT_LT(Problem(Edit(kBinary, "label 0 1", ("label " + zeros + " " + zeros).c_str())).size(), 200);
  EXPECT_LT(Problem(Edit(kBinary, "\n2 \n", ("\n1e999" + zeros + "\n").c_str())).size(), 200);
}

TEST(ImportLiblinear, TakesNoMemoryForClaims) {
  EXPECT_THAT(Problem(Edit(kBinary, "nr_feature 3", "nr_feature 4000000000")), HasSubstr("more than a file of"));
  EXPECT_THAT(Problem(Edit(kBinary, "nr_feature 3", "nr_feature 18446744073709551615")),
              HasSubstr("more than a file of"));
}

// What the tool itself writes, if it is there: every solver, with and without a bias.
TEST(ImportLiblinear, ReadsWhatLiblinearTrainWrites) {
  if (std::system("command -v liblinear-train liblinear-predict >/dev/null") != 0) {
    GTEST_SKIP() << "liblinear-train is not installed";
  }
  const std::string folder = ::testing::TempDir() + "import_liblinear";
  std::filesystem::create_directories(folder);
  const std::string data = folder + "/data", path = folder + "/model", predicted = folder + "/out";
  const std::vector<Row> rows = {{{1, 1}, {2, 0.5}},  {{2, 2}},         {{1, -1}, {3, 0.25}}, {{3, 1}},
                                 {{1, 0.5}, {2, -1}}, {{2, 1}, {3, -2}}};
  for (const int classes : {2, 3}) {
    std::ofstream out(data);
    for (size_t r = 0; r < rows.size(); ++r) {
      out << r % classes;
      for (const auto& [index, value] : rows[r]) out << ' ' << index << ':' << value;
      out << '\n';
    }
    out.close();
    for (const int solver : {0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13}) {
      for (const char* bias : {"-1", "0", "0.5", "1"}) {
        SCOPED_TRACE(absl::StrCat("solver ", solver, " bias ", bias, " classes ", classes));
        const std::string train = absl::StrCat("liblinear-train -q -s ", solver, " -B ", bias, " ", data, " ", path);
        ASSERT_EQ(std::system(absl::StrCat(train, " >", predicted, " 2>&1").c_str()), 0);
        ASSERT_EQ(std::system(absl::StrCat("liblinear-predict -q ", data, " ", path, " ", predicted).c_str()), 0);
        const auto model = ImportLiblinearFile(path, WeightType::kFloat32);
        ASSERT_TRUE(model.ok()) << model.status();
        std::ifstream in(predicted);
        for (const Row& row : rows) {
          std::string answer;
          in >> answer;
          if (solver > 10) {
            EXPECT_NEAR(Raw(**model, row)[0], std::stod(answer), 1e-5);
          } else {
            EXPECT_EQ(Label(**model, row), answer);
          }
        }
      }
    }
  }
}

TEST(ImportLiblinear, NamesAFileThatIsNotThere) {
  const auto model = ImportLiblinearFile("/nonexistent/a.model", WeightType::kFloat32);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("/nonexistent/a.model"));
}

}  // namespace
}  // namespace widelane::cli
