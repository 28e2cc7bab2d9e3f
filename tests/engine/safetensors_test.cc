#include "safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model_bytes.h"
#include "widelane/engine/model_file.h"

namespace widelane {
namespace {

absl::StatusOr<uint64_t> HeaderLength(uint64_t length, uint64_t file_size) {
  const std::string prefix = test::BytesOf(std::vector<uint64_t>{length});
  return SafetensorsHeaderLength(reinterpret_cast<const std::byte*>(prefix.data()), file_size);
}

TEST(SafetensorsHeaderLength, IsBoundedByTheFileAndTheLimit) {
  EXPECT_EQ(*HeaderLength(2, 10), 2U);
  EXPECT_EQ(*HeaderLength(0, 8), 0U);
  EXPECT_FALSE(HeaderLength(3, 10).ok());
  EXPECT_FALSE(HeaderLength(~uint64_t{0}, 10).ok());
  EXPECT_FALSE(HeaderLength(~uint64_t{0} - 7, 10).ok());
  EXPECT_FALSE(HeaderLength(0, 7).ok());
  EXPECT_EQ(*HeaderLength(kMaxModelHeaderBytes, ~uint64_t{0}), kMaxModelHeaderBytes);
  const auto beyond = HeaderLength(kMaxModelHeaderBytes + 1, ~uint64_t{0});
  EXPECT_TRUE(absl::StrContains(beyond.status().message(), "100000000")) << beyond.status();
}

TEST(SafetensorsHeader, RoundTrips) {
  SafetensorsHeader header;
  header.metadata = {{"a", "x \"quoted\" \u00e4"}, {"empty", ""}};
  header.tensors = {{"one", "F32", {2, 3}, 0, 24}, {"two", "I8", {5}, 24, 29}, {"none", "F64", {0}, 29, 29}};
  const std::string bytes = FormatSafetensorsHeader(header);
  EXPECT_EQ(bytes.size() % 8, 0U) << "so that tensors are aligned";
  const auto length = SafetensorsHeaderLength(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size() + 29);
  ASSERT_TRUE(length.ok()) << length.status();
  ASSERT_EQ(*length, bytes.size() - kSafetensorsPrefix);
  const auto parsed = ParseSafetensorsHeader(bytes.substr(kSafetensorsPrefix), 29);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->metadata, header.metadata);
  ASSERT_EQ(parsed->tensors.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(parsed->tensors[i].name, header.tensors[i].name);
    EXPECT_EQ(parsed->tensors[i].dtype, header.tensors[i].dtype);
    EXPECT_EQ(parsed->tensors[i].shape, header.tensors[i].shape);
    EXPECT_EQ(parsed->tensors[i].begin, header.tensors[i].begin);
    EXPECT_EQ(parsed->tensors[i].end, header.tensors[i].end);
  }
}

TEST(SafetensorsHeader, TakesFilesOfOtherToolsWithAllTheirTypes) {
  const char header[] =
      R"({"b":{"data_offsets":[8,10],"dtype":"BF16","shape":[]},"a":{"shape":[8],"dtype":"F8_E4M3","data_offsets":[0,8]}})";
  const auto parsed = ParseSafetensorsHeader(header, 10);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->metadata.empty());
  EXPECT_EQ(parsed->tensors[0].name, "a") << "in order of their ranges";
}

TEST(SafetensorsHeader, OrdersTensorsByRangeEvenEmptyOnes) {
  const char header[] =
      R"({"c":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"e":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  const auto parsed = ParseSafetensorsHeader(header, 1);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->tensors[0].name, "e");
}

TEST(SafetensorsHeader, RefusesMoreTensorsAndMetadataThanAnyModelHas) {
  SafetensorsHeader header;
  for (uint64_t i = 0; i < 20'000; ++i) header.tensors.push_back({absl::StrCat("t", i), "U8", {1}, i, i + 1});
  std::string bytes = FormatSafetensorsHeader(header);
  auto parsed = ParseSafetensorsHeader(absl::string_view(bytes).substr(kSafetensorsPrefix), 20'000);
  EXPECT_THAT(parsed.status().message(), ::testing::HasSubstr("more than 16 tensors"));

  header.tensors.clear();
  for (uint64_t i = 0; i < 20'000; ++i) header.metadata[absl::StrCat("k", i)] = "";
  bytes = FormatSafetensorsHeader(header);
  parsed = ParseSafetensorsHeader(absl::string_view(bytes).substr(kSafetensorsPrefix), 0);
  EXPECT_THAT(parsed.status().message(), ::testing::HasSubstr("more than 64 keys"));
}

}  // namespace
}  // namespace widelane
