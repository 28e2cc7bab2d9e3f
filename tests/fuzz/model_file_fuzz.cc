// ReadModelBytes over hostile files.
//
// An input that begins with 'r' is a file as it is. One that begins with 'h' is a header as text, a zero byte and the
// tensors: the length in front is put right, and so is the digest, since no fuzzer guesses one.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/engine/model_bytes.h"
#include "tests/fuzz/check.h"
#include "widelane/engine/model.h"
#include "widelane/engine/model_file.h"

namespace {

using widelane::Model;

std::string WithRightNumbers(const std::string& input) {
  const size_t end = std::min(input.find('\0'), input.size());
  std::string header = input.substr(0, end);
  const std::string tensors = input.substr(std::min(end + 1, input.size()));
  const std::string digest = widelane::test::DigestOf(tensors);
  if (const size_t at = header.find("DIGEST"); at != std::string::npos) header.replace(at, 6, digest);
  return widelane::test::FileBytes(header, tensors);
}

// What Model promises of everything that Create lets pass.
void CheckModel(const Model& model) {
  FUZZ_CHECK(model.outputs() >= 1);
  FUZZ_CHECK(model.bias().size() == model.outputs());
  FUZZ_CHECK(model.scale().size() == model.outputs());
  FUZZ_CHECK(std::isfinite(model.max_weight()));
  FUZZ_CHECK(model.labels().empty() || model.labels().size() >= 2);
  const size_t elements = (model.features() + 1) * model.outputs();
  FUZZ_CHECK(model.weight_bytes() == elements * WeightSize(model.weight_type()));
  for (const double bias : model.bias()) FUZZ_CHECK(std::isfinite(bias));
  unsigned sum = 0;
  for (size_t i = 0; i < model.weight_bytes(); ++i) sum += static_cast<unsigned>(model.weights()[i]);
  volatile unsigned sink = sum;  // every byte was read
  static_cast<void>(sink);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return -1;
  const std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string file = data[0] == 'h' ? WithRightNumbers(input) : input;
  const std::vector<std::byte> exact(reinterpret_cast<const std::byte*>(file.data()),
                                     reinterpret_cast<const std::byte*>(file.data()) + file.size());
  const auto model = widelane::ReadModelBytes(exact.data(), exact.size(), "fuzz");
  if (model.ok()) {
    CheckModel(**model);
    return 0;
  }
  FUZZ_CHECK(absl::IsInvalidArgument(model.status()) || absl::IsDataLoss(model.status()));
  FUZZ_CHECK(model.status().message().size() < 4096);
  for (const char c : model.status().message()) FUZZ_CHECK(c >= 0x20 && c < 0x7F);
  return 0;
}
