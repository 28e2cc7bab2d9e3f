#include "cuda/numa.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace widelane::cuda {
namespace {

TEST(ParseNumberList, TakesWhatTheKernelWrites) {
  EXPECT_EQ(ParseNumberList("0-3,8,10-11"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(ParseNumberList("0"), std::vector<int>{0});
  EXPECT_EQ(ParseNumberList(""), std::vector<int>{});
  EXPECT_EQ(ParseNumberList("\n"), std::vector<int>{});
}

TEST(ParseNumberList, TakesNothingElse) {
  for (const char* text : {"x", "3-1", "-1", "1-2-3", "0-99999999", "1,x"}) {
    EXPECT_EQ(ParseNumberList(text), std::vector<int>{}) << text;
  }
}

class SystemFiles : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  const std::string root_ = ::testing::TempDir() + "/numa_test_" + std::to_string(::getpid());
};

TEST_F(SystemFiles, TellNodes) {
  Write("/devices/system/node/has_cpu", "0-1\n");
  Write("/devices/system/node/node1/cpulist", "4-7\n");
  Write("/bus/pci/devices/0000:a7:00.0/numa_node", "1\n");
  Write("/bus/pci/devices/0000:17:00.0/numa_node", "-1\n");
  EXPECT_EQ(NumaNodes(root_), 2U);
  EXPECT_EQ(NumaNodeOf("0000:A7:00.0", root_), 1);
  EXPECT_EQ(NumaNodeOf("0000:17:00.0", root_), -1);
  EXPECT_EQ(CoresOfNode(1, root_), (std::vector<int>{4, 5, 6, 7}));
}

TEST_F(SystemFiles, MayTellNothing) {
  EXPECT_EQ(NumaNodes(root_), 1U);
  EXPECT_EQ(NumaNodeOf("0000:17:00.0", root_), -1);
  EXPECT_EQ(CoresOfNode(0, root_), std::vector<int>{});
}

TEST(Preferences, NeverDoHarm) {
  constexpr size_t kBytes = 1 << 20;
  void* data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  for (const int node : {-1, 0, 1, 5000}) PreferNode(data, kBytes, node);
  static_cast<volatile char*>(data)[kBytes - 1] = 1;
  munmap(data, kBytes);
  std::thread([] {
    for (const int node : {-1, 5000, 0}) PreferCoresOf(node);
    cpu_set_t cores;
    ASSERT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
    EXPECT_GT(CPU_COUNT(&cores), 0);
  }).join();
}

}  // namespace
}  // namespace widelane::cuda
