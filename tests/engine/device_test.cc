#include "widelane/engine/device.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"

namespace widelane {
namespace {

using Kind = DeviceSelection::Kind;

TEST(ParseDevices, TakesTheWords) {
  EXPECT_EQ(ParseDevices("auto")->kind, Kind::kAuto);
  EXPECT_EQ(ParseDevices("cpu")->kind, Kind::kCpu);
  EXPECT_EQ(ParseDevices("gpu")->kind, Kind::kGpu);
}

TEST(ParseDevices, TakesAListInItsOrder) {
  const auto selection = ParseDevices("2,0");
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_EQ(selection->kind, Kind::kList);
  EXPECT_EQ(selection->gpus, (std::vector<int>{2, 0}));
  EXPECT_EQ(ParseDevices("7")->gpus, std::vector<int>{7});
}

TEST(ParseDevices, RefusesTheRestByName) {
  for (const std::string text : {"", ",", "0,", ",0", "-1", "0,-1", "1.5", "x", "GPU", "cpu,0", "99999999999", "0;1"}) {
    const auto selection = ParseDevices(text);
    ASSERT_FALSE(selection.ok()) << "'" << text << "'";
    EXPECT_EQ(selection.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(selection.status().message(), "'" + text + "'")) << selection.status();
  }
}

TEST(ParseDevices, RefusesADeviceNamedTwice) {
  const auto selection = ParseDevices("0,1,0");
  EXPECT_EQ(selection.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(selection.status().message(), "twice")) << selection.status();
}

}  // namespace
}  // namespace widelane
