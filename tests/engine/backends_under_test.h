// Every backend there may be, as parameters of one test body.

#ifndef WIDELANE_TESTS_ENGINE_BACKENDS_UNDER_TEST_H_
#define WIDELANE_TESTS_ENGINE_BACKENDS_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "harness.h"
#include "widelane/engine/engine.h"

namespace widelane::test {

struct BackendUnderTest {
  std::string name;
  EngineOptions options;
};

inline void PrintTo(const BackendUnderTest& backend, std::ostream* out) { *out << backend.name; }

// The CPU with each instruction set and 1 to 8 threads, and, where the CUDA backend is built, the GPUs: whole batches,
// and batches cut into small pieces.
std::vector<BackendUnderTest> AllBackends();

// Makes the engine of its parameter, or skips with the reason why this machine cannot. With WIDELANE_REQUIRE_GPU set a
// missing GPU is a failure.
class EveryBackend : public ::testing::TestWithParam<BackendUnderTest> {
 protected:
  void SetUp() override;
  // A GPU that fails is stood in for by the CPU, whose bits are right: that must not pass for a test of the GPU.
  void TearDown() override;

  // An engine with slabs of another size, for tests of large batches.
  void UseSlabs(const SlabOptions& slab);

  std::shared_ptr<const LoadedModel> Load(std::shared_ptr<const Model> model);

  // Scores the rows in one batch and compares all bits with the reference.
  void ExpectReference(const std::shared_ptr<const Model>& model, const std::vector<Row>& rows, bool has_values);

  // Scores in one batch; fails the test and returns nothing on an error.
  std::vector<RowScore> Score(const std::shared_ptr<const LoadedModel>& model, const std::vector<Row>& rows,
                              bool has_values);

  std::unique_ptr<Engine> engine_;

 private:
  void MakeEngine(const EngineOptions& options);
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_ENGINE_BACKENDS_UNDER_TEST_H_
