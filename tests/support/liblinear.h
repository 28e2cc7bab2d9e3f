// Models of liblinear: imported by the `widelane` command, trained and asked by liblinear's own programs.

#ifndef WIDELANE_TESTS_SUPPORT_LIBLINEAR_H_
#define WIDELANE_TESTS_SUPPORT_LIBLINEAR_H_

#include <string>
#include <vector>

#include "tests/support/models.h"
#include "tests/support/process.h"

namespace widelane::test {

// What `widelane import liblinear` did with a model of this text; the model file is `files.path()/NAME.safetensors`.
Finished ImportLiblinear(const TempDir& files, const std::string& name, const std::string& text);

// Whether liblinear-train and liblinear-predict are installed.
bool HasLiblinear();

// Text of the model that liblinear-train makes of `data`, with these options. Stops the program if it fails.
std::string TrainLiblinear(const TempDir& files, const std::string& data_file, const std::vector<std::string>& options);

// What liblinear-predict -b 1 says of `data`: labels in the order of the header line, and for each row the label and
// the probabilities in that order.
struct Predictions {
  std::vector<std::string> order;
  std::vector<std::string> labels;
  std::vector<std::vector<double>> probabilities;
};
Predictions PredictLiblinear(const TempDir& files, const std::string& data_file, const std::string& model_text);

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_LIBLINEAR_H_
