#include "server/models/registry.h"

#include <gtest/gtest.h>

#include "widelane/engine/errors.h"

namespace widelane {
namespace {

class RegistryTest : public ::testing::Test {
 protected:
  RegistryTest() {
    std::vector<std::unique_ptr<ServedModel>> models;
    for (const uint64_t version : {1, 2, 3})
      models.push_back(std::make_unique<ServedModel>(ModelFile{"m", version, ""}, nullptr));
    registry_ = std::make_unique<Registry>(std::move(models));
  }
  ServedModel& Version(size_t version) { return *registry_->models()[version - 1]; }
  absl::StatusCode CodeOf(absl::string_view name, absl::string_view version) {
    return registry_->FindAvailable(name, version).status().code();
  }

  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryTest, TellsLoadingFromFailedFromUnknown) {
  EXPECT_EQ(CodeOf("m", ""), absl::StatusCode::kUnavailable);
  Version(1).SetFailed(absl::DataLossError("cut short"));
  EXPECT_EQ(CodeOf("m", "1"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CodeOf("m", "2"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf("m", "4"), absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOf("n", ""), absl::StatusCode::kNotFound);
}

TEST_F(RegistryTest, WithoutAVersionAnswersTheNewestThatIsAvailable) {
  Version(1).SetAvailable(nullptr);
  Version(2).SetAvailable(nullptr);
  Version(3).SetFailed(absl::DataLossError("x"));
  ASSERT_TRUE(registry_->FindAvailable("m", "").ok());
  EXPECT_EQ((*registry_->FindAvailable("m", ""))->version(), "2");
  EXPECT_EQ((*registry_->FindAvailable("m", "1"))->version(), "1");
  EXPECT_EQ(registry_->available(), 2u);
}

TEST_F(RegistryTest, RefusesVersionsThatAreNoNumbers) {
  for (const char* version : {"01", "x", "-1"}) {
    const absl::Status status = registry_->FindAvailable("m", version).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << version;
    EXPECT_EQ(ErrorField(status), "version");
  }
  EXPECT_EQ(ErrorField(registry_->Find("", "").status()), "model");
}

TEST_F(RegistryTest, EscapesNamesInMessages) {
  const absl::Status status = registry_->Find(std::string("\xff\n", 2) + std::string(1000, 'x'), "").status();
  EXPECT_LT(status.message().size(), 200u);
  EXPECT_EQ(std::string(status.message()).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace widelane
