#include "client/cli/import_liblinear.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/narrow_float.h"
#include "client/cli/printable.h"

namespace widelane::cli {
namespace {

using Words = std::vector<absl::string_view>;

enum class Kind { kProbabilities, kMargins, kRegression };

struct Solver {
  absl::string_view name;
  Kind kind;
};

constexpr absl::string_view kCrammerSinger = "MCSVM_CS";
constexpr std::array<Solver, 11> kSolvers = {{
    {"L2R_LR", Kind::kProbabilities},
    {"L2R_LR_DUAL", Kind::kProbabilities},
    {"L1R_LR", Kind::kProbabilities},
    {"L2R_L2LOSS_SVC_DUAL", Kind::kMargins},
    {"L2R_L2LOSS_SVC", Kind::kMargins},
    {"L2R_L1LOSS_SVC_DUAL", Kind::kMargins},
    {kCrammerSinger, Kind::kMargins},
    {"L1R_L2LOSS_SVC", Kind::kMargins},
    {"L2R_L2LOSS_SVR", Kind::kRegression},
    {"L2R_L2LOSS_SVR_DUAL", Kind::kRegression},
    {"L2R_L1LOSS_SVR_DUAL", Kind::kRegression},
}};

struct Header {
  std::optional<Solver> solver;
  std::optional<uint32_t> classes;
  std::optional<uint64_t> features;
  std::optional<double> bias;
  std::optional<std::vector<std::string>> labels;

  // Columns of w: one for two classes, except Crammer and Singer's method.
  uint32_t columns() const { return *classes == 2 && solver->name != kCrammerSinger ? 1 : *classes; }
  // Two classes are told apart by the sign of the first column, even where there are two: liblinear's predict looks at
  // no other.
  uint32_t outputs() const { return *classes == 2 ? 1 : *classes; }
};

class Importer {
 public:
  Importer(std::istream& in, uint64_t bytes, const std::string& name, WeightType weight_type)
      : in_(in), bytes_(bytes), name_(name), weight_type_(weight_type) {}

  absl::StatusOr<std::shared_ptr<const Model>> Run() {
    if (absl::Status status = ReadHeader(); !status.ok()) return status;
    if (absl::Status status = ReadWeights(); !status.ok()) return status;
    if (absl::Status status = ExpectEnd(); !status.ok()) return status;
    FillRules();
    auto model = Model::Create(std::move(parts_));
    if (!model.ok()) return absl::Status(model.status().code(), absl::StrCat(name_, ": ", model.status().message()));
    return model;
  }

 private:
  bool NextLine() {
    if (!std::getline(in_, text_)) return false;
    ++line_;
    return true;
  }

  // liblinear ends its lines with a blank.
  Words WordsOfLine() const { return absl::StrSplit(text_, absl::ByAnyChar(" \t\r"), absl::SkipEmpty()); }

  template <typename... Parts>
  absl::Status Error(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ":", line_, ": ", parts...));
  }

  absl::Status ReadHeader() {
    while (NextLine()) {
      const Words words = WordsOfLine();
      if (words.empty()) return Error("a blank line in the header");
      if (words[0] == "w") return words.size() == 1 ? CheckComplete() : Error("'w' stands alone on its line");
      if (absl::Status status = ReadKey(words); !status.ok()) return status;
    }
    return Error("the file ends before the line 'w'");
  }

  absl::Status ReadKey(const Words& words) {
    const absl::string_view key = words[0];
    if (key == "label") return ReadLabels(words);
    if (key == "rho") return Error("'rho' belongs to one-class models, which score no classes");
    if (key != "solver_type" && key != "nr_class" && key != "nr_feature" && key != "bias") {
      return Error("unknown key '", Printable(key), "'");
    }
    if (words.size() != 2) return Error("'", key, "' takes one value and has ", words.size() - 1);
    if (key == "solver_type") return ReadSolver(words[1]);
    if (key == "nr_class") return ReadNumber(words, header_.classes);
    if (key == "nr_feature") return ReadNumber(words, header_.features);
    return ReadNumber(words, header_.bias);
  }

  template <typename T>
  absl::Status ReadNumber(const Words& words, std::optional<T>& out) const {
    if (out.has_value()) return Error("'", words[0], "' comes twice");
    T value{};
    bool good;
    if constexpr (std::is_same_v<T, double>) {
      good = absl::SimpleAtod(words[1], &value) && std::isfinite(value);
    } else {
      good = absl::SimpleAtoi(words[1], &value);
    }
    if (!good) return Error("'", words[0], "' is '", Printable(words[1]), "', not a number it can be");
    out = value;
    return absl::OkStatus();
  }

  absl::Status ReadSolver(absl::string_view name) {
    if (header_.solver.has_value()) return Error("'solver_type' comes twice");
    const auto* const solver =
        std::find_if(kSolvers.begin(), kSolvers.end(), [name](const Solver& known) { return known.name == name; });
    if (solver == kSolvers.end()) return Error("models of solver '", Printable(name), "' are not supported");
    header_.solver = *solver;
    return absl::OkStatus();
  }

  absl::Status ReadLabels(const Words& words) {
    if (header_.labels.has_value()) return Error("'label' comes twice");
    if (!header_.classes.has_value()) return Error("'label' comes before 'nr_class'");
    if (words.size() - 1 != *header_.classes) {
      return Error("there are ", words.size() - 1, " labels and nr_class is ", *header_.classes);
    }
    std::vector<std::string> labels(words.begin() + 1, words.end());
    for (const std::string& label : labels) {
      int number;
      if (!absl::SimpleAtoi(label, &number)) return Error("label '", Printable(label), "' is not a whole number");
    }
    std::vector<std::string> sorted = labels;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) return Error("label ", Printable(*twice), " comes twice");
    header_.labels = std::move(labels);
    return absl::OkStatus();
  }

  absl::Status CheckComplete() const {
    const Header& h = header_;
    if (!h.solver.has_value()) return Error("the header has no 'solver_type'");
    if (!h.classes.has_value()) return Error("the header has no 'nr_class'");
    if (!h.features.has_value()) return Error("the header has no 'nr_feature'");
    if (!h.bias.has_value()) return Error("the header has no 'bias'");
    if (*h.classes < 2) return Error("nr_class is ", *h.classes, "; a model needs at least 2 classes");
    const bool regression = h.solver->kind == Kind::kRegression;
    if (regression && *h.classes != 2) return Error("nr_class is ", *h.classes, "; regression models say 2");
    if (regression && h.labels.has_value()) return Error("a regression model (", h.solver->name, ") has labels");
    if (!regression && !h.labels.has_value()) return Error("the header has no 'label'");
    return absl::OkStatus();
  }

  absl::Status ReadWeights() {
    const uint64_t features = *header_.features;
    const uint32_t outputs = header_.outputs();
    const uint32_t columns = header_.columns();
    // A number takes a digit and a blank or line end at least.
    if (features > bytes_ / 2 / columns) {
      return Error("nr_feature is ", features, " with ", columns, " numbers each, more than a file of ", bytes_,
                   " bytes can hold");
    }
    auto weights = ModelParts::AllocateWeights(features, outputs, weight_type_);
    if (!weights.ok()) return weights.status();
    parts_.weights = *std::move(weights);
    const size_t row_bytes = outputs * WeightSize(weight_type_);
    for (uint64_t f = 0; f < features; ++f) {
      if (absl::Status status = ReadRow(f + 1); !status.ok()) return status;
      if (absl::Status status = StoreRow(parts_.weights.data() + f * row_bytes); !status.ok()) return status;
    }
    return *header_.bias >= 0 ? ReadBias() : absl::OkStatus();
  }

  // Reads line `number` of w into row_.
  absl::Status ReadRow(uint64_t number) {
    const uint32_t columns = header_.columns();
    if (!NextLine()) {
      return Error("the file ends after ", number - 1, " lines of w; ", *header_.features,
                   *header_.bias >= 0 ? " and one for the bias" : "", " were expected");
    }
    const Words words = WordsOfLine();
    if (words.size() != columns) return Error("there are ", words.size(), " numbers, ", columns, " were expected");
    row_.resize(columns);
    for (uint32_t k = 0; k < columns; ++k) {
      if (!absl::SimpleAtod(words[k], &row_[k])) return Error("'", Printable(words[k]), "' is not a number");
      if (!std::isfinite(row_[k])) return Error("'", Printable(words[k]), "' is not finite");
    }
    row_.resize(header_.outputs());
    return absl::OkStatus();
  }

  absl::Status StoreRow(std::byte* out) const {
    for (const double weight : row_) {
      if (!StoreWeight(weight, weight_type_, out)) {
        return Error("weight ", weight, " is beyond ", WeightTypeName(weight_type_));
      }
      out += WeightSize(weight_type_);
    }
    return absl::OkStatus();
  }

  // The last line counts with the value `bias`, whatever the row. It is kept apart from the features, where requests
  // cannot reach it.
  absl::Status ReadBias() {
    if (absl::Status status = ReadRow(*header_.features + 1); !status.ok()) return status;
    for (const double weight : row_) {
      parts_.bias.push_back(*header_.bias * weight);
      if (!std::isfinite(parts_.bias.back())) return Error("bias ", *header_.bias, " times ", weight, " is not finite");
    }
    return absl::OkStatus();
  }

  absl::Status ExpectEnd() {
    while (NextLine()) {
      if (!WordsOfLine().empty()) return Error("more after the last line of w; is nr_feature or bias wrong?");
    }
    if (in_.bad()) return absl::DataLossError(absl::StrCat("cannot read ", name_, " beyond line ", line_));
    return absl::OkStatus();
  }

  void FillRules() {
    parts_.features = *header_.features;
    parts_.outputs = header_.outputs();
    parts_.weight_type = weight_type_;
    parts_.unknown_features = UnknownFeatures::kIgnore;
    parts_.tie = Tie::kNegative;
    parts_.source = absl::StrCat("liblinear ", header_.solver->name);
    if (header_.solver->kind == Kind::kProbabilities) {
      parts_.link = parts_.outputs == 1 ? Link::kSigmoid : Link::kOneVsRest;
    }
    if (header_.labels.has_value()) parts_.labels = *header_.labels;
    // A sum above 0 means the label that comes first in the file.
    if (parts_.outputs == 1) std::reverse(parts_.labels.begin(), parts_.labels.end());
  }

  std::istream& in_;
  const uint64_t bytes_;
  const std::string& name_;
  const WeightType weight_type_;
  Header header_;
  ModelParts parts_;
  std::string text_;
  uint64_t line_ = 0;
  std::vector<double> row_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Model>> ImportLiblinear(std::istream& in, uint64_t bytes, const std::string& name,
                                                             WeightType weight_type) {
  if (weight_type == WeightType::kInt8) return absl::InvalidArgumentError("weights cannot be imported as int8");
  return Importer(in, bytes, name, weight_type).Run();
}

absl::StatusOr<std::shared_ptr<const Model>> ImportLiblinearFile(const std::string& path, WeightType weight_type) {
  std::error_code problem;
  const uint64_t bytes = std::filesystem::file_size(path, problem);
  if (problem) return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", problem.message()));
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  return ImportLiblinear(in, bytes, path, weight_type);
}

}  // namespace widelane::cli
