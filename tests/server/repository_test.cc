#include "server/models/repository.h"

#include <gtest/gtest.h>

#include "tests/support/models.h"

namespace widelane {
namespace {

TEST(RepositoryTest, VersionsArePlainNumbers) {
  EXPECT_EQ(ParseVersion("0"), 0u);
  EXPECT_EQ(ParseVersion("17"), 17u);
  for (const char* text : {"", "01", "x", "-1", "+1", "1.0", " 1", "1 ", "0x1", "99999999999999999999"}) {
    EXPECT_FALSE(ParseVersion(text).has_value()) << text;
  }
}

TEST(RepositoryTest, NamesAreRestricted) {
  EXPECT_TRUE(IsModelName("ctr-model_v1.2"));
  for (const char* name : {"", ".hidden", "a/b", "a b", "\xc3\xa9", "a\n"}) EXPECT_FALSE(IsModelName(name)) << name;
  EXPECT_FALSE(IsModelName(std::string(129, 'a')));
}

TEST(RepositoryTest, FindsTheNewestVersionOrAll) {
  const test::TempDir folder;
  for (const char* file :
       {"b/1/model.safetensors", "b/10/model.safetensors", "b/9/model.safetensors", "a/3/model.safetensors"}) {
    folder.Write(file, "x");
  }
  ModelsConfig config;
  config.repository = folder.path();
  std::vector<std::string> warnings;
  auto newest = FindModels(config, warnings);
  ASSERT_TRUE(newest.ok()) << newest.status();
  ASSERT_EQ(newest->size(), 2u);
  EXPECT_EQ((*newest)[0].name, "a");
  EXPECT_EQ((*newest)[1].version, 10u);
  EXPECT_EQ((*newest)[1].path, folder.path() + "/b/10/model.safetensors");
  config.all_versions = true;
  const auto all = FindModels(config, warnings);
  ASSERT_EQ(all->size(), 4u);
  EXPECT_EQ((*all)[1].version, 1u);
  EXPECT_EQ((*all)[2].version, 9u);
  EXPECT_EQ((*all)[3].version, 10u);
  EXPECT_TRUE(warnings.empty());
}

TEST(RepositoryTest, PassesOverWhatIsNoVersionAndWarnsOfMistakes) {
  const test::TempDir folder;
  for (const char* file : {"a/01/model.safetensors", "a/1/model.safetensors", "a/notes/x", "a/2/other", "README",
                           "bad name/1/model.safetensors", ".git/config", "empty/x/y"}) {
    folder.Write(file, "x");
  }
  ModelsConfig config;
  config.repository = folder.path();
  std::vector<std::string> warnings;
  const auto found = FindModels(config, warnings);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].version, 1u);
  EXPECT_EQ(warnings.size(), 4u);  // 01, 2 without a file, "bad name", empty
}

TEST(RepositoryTest, RefusesAFolderThatIsNotThereAndModelsGivenTwice) {
  ModelsConfig config;
  config.repository = "/nowhere/at/all";
  std::vector<std::string> warnings;
  const auto missing = FindModels(config, warnings);
  EXPECT_NE(std::string(missing.status().message()).find("/nowhere/at/all"), std::string::npos);
  config.repository.clear();
  config.models = {{"a", "/x"}, {"a", "/y"}};
  EXPECT_EQ(FindModels(config, warnings).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace widelane
