#include "server/observe/log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "server/observe/log_fields.h"
#include "tests/support/captured_log.h"

namespace widelane {
namespace {

nlohmann::ordered_json Fields() {
  nlohmann::ordered_json fields;
  fields["rows"] = 3;
  fields["total_ms"] = 1.5;
  fields["model"] = "a \"b\"\n";
  return fields;
}

TEST(LogTest, FieldsAreKeysInJson) {
  const test::CapturedLog log("json");
  LogWithFields(spdlog::level::warn, "slow", Fields());
  spdlog::info("next");
  ASSERT_EQ(log.lines().size(), 2u);
  const auto line = nlohmann::json::parse(log.lines()[0]);
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["message"], "slow");
  EXPECT_EQ(line["rows"], 3);
  EXPECT_EQ(line["total_ms"], 1.5);
  EXPECT_EQ(line["model"], "a \"b\"\n");
  EXPECT_EQ(nlohmann::json::parse(log.lines()[1]).size(), 3u);
}

TEST(LogTest, FieldsStandBehindTheMessageInText) {
  const test::CapturedLog log("text");
  LogWithFields(spdlog::level::warn, "slow", Fields());
  spdlog::info("next");
  ASSERT_EQ(log.lines().size(), 2u);
  EXPECT_NE(log.lines()[0].find("Z warning slow rows=3 total_ms=1.5 model=\"a \\\"b\\\"\\n\"\n"), std::string::npos)
      << log.lines()[0];
  EXPECT_NE(log.lines()[1].find("Z info next\n"), std::string::npos) << log.lines()[1];
}

TEST(LogTest, TheLevelCanBeChanged) {
  const test::CapturedLog log;
  for (const char* level : {"trace", "debug", "info", "warning", "error"}) {
    EXPECT_TRUE(SetLogLevel(level)) << level;
    EXPECT_EQ(LogLevel(), level);
  }
  for (const char* level : {"", "loud", "off", "critical", "warn", "INFO"}) EXPECT_FALSE(SetLogLevel(level)) << level;
  EXPECT_EQ(LogLevel(), "error");
  spdlog::info("not written");
  EXPECT_TRUE(log.lines().empty());
}

}  // namespace
}  // namespace widelane
