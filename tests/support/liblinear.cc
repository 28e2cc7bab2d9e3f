#include "tests/support/liblinear.h"

#include <fstream>
#include <sstream>

#include "tests/support/check.h"

namespace widelane::test {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace

Finished ImportLiblinear(const TempDir& files, const std::string& name, const std::string& text) {
  return RunProgram({BuiltProgram("widelane"), "import", "liblinear", files.Write(name + ".liblinear", text),
                     files.path() + "/" + name + ".safetensors"});
}

bool HasLiblinear() { return !FindProgram("liblinear-train").empty() && !FindProgram("liblinear-predict").empty(); }

std::string TrainLiblinear(const TempDir& files, const std::string& data_file,
                           const std::vector<std::string>& options) {
  std::vector<std::string> command = {FindProgram("liblinear-train"), "-q"};
  command.insert(command.end(), options.begin(), options.end());
  const std::string model = files.path() + "/trained.liblinear";
  command.insert(command.end(), {data_file, model});
  const Finished train = RunProgram(command);
  Require(train.exit_code == 0, "liblinear-train: " + train.err);
  return ReadFile(model);
}

Predictions PredictLiblinear(const TempDir& files, const std::string& data_file, const std::string& model_text) {
  const std::string model = files.Write("predict.liblinear", model_text);
  const std::string output = files.path() + "/predicted";
  const Finished predict = RunProgram({FindProgram("liblinear-predict"), "-b", "1", data_file, model, output});
  Require(predict.exit_code == 0, "liblinear-predict: " + predict.err);
  Predictions out;
  std::istringstream lines(ReadFile(output));
  std::string word;
  std::string line;
  std::getline(lines, line);
  std::istringstream header(line);
  header >> word;
  Require(word == "labels", "a header of liblinear-predict");
  while (header >> word) out.order.push_back(word);
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    fields >> word;
    out.labels.push_back(word);
    out.probabilities.emplace_back();
    for (double p = 0; fields >> p;) out.probabilities.back().push_back(p);
  }
  return out;
}

}  // namespace widelane::test
