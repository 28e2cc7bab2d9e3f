// Reads a text model that liblinear has written.

#ifndef WIDELANE_CLIENT_CLI_IMPORT_LIBLINEAR_H_
#define WIDELANE_CLIENT_CLI_IMPORT_LIBLINEAR_H_

#include <cstdint>
#include <istream>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "widelane/engine/model.h"

namespace widelane::cli {

// The model in `in`, with its rules: the first label is the positive one, a sum of 0 goes to the second, features the
// model does not have are ignored, the bias line is the model's bias and never a feature. `name` stands for the file in
// messages, `bytes` is its size: a file too short for what its header claims is refused before memory is taken. Weights
// are stored as `weight_type` (float32, float16 or bfloat16), rounded to nearest. Errors: INVALID_ARGUMENT naming the
// line for whatever liblinear would not have written, kinds of models that have no place here (by their name), and
// weights beyond `weight_type`; RESOURCE_EXHAUSTED without memory.
absl::StatusOr<std::shared_ptr<const Model>> ImportLiblinear(std::istream& in, uint64_t bytes, const std::string& name,
                                                             WeightType weight_type);
// The same from a file. Errors besides: NOT_FOUND.
absl::StatusOr<std::shared_ptr<const Model>> ImportLiblinearFile(const std::string& path, WeightType weight_type);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_IMPORT_LIBLINEAR_H_
