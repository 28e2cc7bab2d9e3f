#include "server/front/trace_parent.h"

#include <gtest/gtest.h>

#include <string>

namespace widelane {
namespace {

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kParent = "00f067aa0ba902b7";

TEST(TraceParentTest, ReadsItsParts) {
  const auto parent = ParseTraceParent("00-" + kTrace + "-" + kParent + "-01");
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(parent->trace_id_text(), kTrace);
  EXPECT_EQ(parent->parent_id_text(), kParent);
  EXPECT_TRUE(parent->sampled);
}

TEST(TraceParentTest, OnlyTheLastBitOfTheFlagsSaysSampled) {
  const std::string head = "00-" + kTrace + "-" + kParent + "-";
  for (const char* flags : {"01", "03", "ff", "0b"}) EXPECT_TRUE(ParseTraceParent(head + flags)->sampled) << flags;
  for (const char* flags : {"00", "02", "fe", "10"}) EXPECT_FALSE(ParseTraceParent(head + flags)->sampled) << flags;
}

TEST(TraceParentTest, LaterVersionsMayGoOn) {
  const std::string body = "-" + kTrace + "-" + kParent + "-01";
  EXPECT_TRUE(ParseTraceParent("cc" + body).has_value());
  EXPECT_TRUE(ParseTraceParent("cc" + body + "-what-comes-later").has_value());
  EXPECT_FALSE(ParseTraceParent("cc" + body + "x").has_value());
  EXPECT_FALSE(ParseTraceParent("00" + body + "-more").has_value());
  EXPECT_FALSE(ParseTraceParent("ff" + body).has_value());
}

TEST(TraceParentTest, IgnoresWhatIsMalformed) {
  const std::string zeros32(32, '0');
  const std::string zeros16(16, '0');
  std::string upper = kTrace;
  upper[1] = 'B';
  const std::string bad[] = {
      "",
      "00",
      "00-" + kTrace + "-" + kParent,
      "00-" + kTrace + "-" + kParent + "-",
      "00-" + kTrace + "-" + kParent + "-1",
      "00-" + kTrace + "-" + kParent + "-001",
      "0-" + kTrace + "-" + kParent + "-01",
      "0x-" + kTrace + "-" + kParent + "-01",
      "00-" + kTrace + "-" + kParent + "-0g",
      "00_" + kTrace + "-" + kParent + "-01",
      "00-" + kTrace + "_" + kParent + "-01",
      "00-" + kTrace + "-" + kParent + "_01",
      "00-" + upper + "-" + kParent + "-01",
      "00-" + zeros32 + "-" + kParent + "-01",
      "00-" + kTrace + "-" + zeros16 + "-01",
      "00-" + kTrace.substr(1) + "-" + kParent + "-011",
      " 00-" + kTrace + "-" + kParent + "-01",
  };
  for (const std::string& text : bad) EXPECT_FALSE(ParseTraceParent(text).has_value()) << "'" << text << "'";
}

}  // namespace
}  // namespace widelane
