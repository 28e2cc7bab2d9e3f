#include "cuda/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace widelane::cuda {
namespace {

// No machine has more cores or nodes; a longer list is not understood.
constexpr int kMaxNumber = 1 << 16;

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Appends "3" or "3-7".
bool AppendRange(absl::string_view text, std::vector<int>& numbers) {
  const std::vector<absl::string_view> ends = absl::StrSplit(text, '-');
  int first = 0;
  int last = 0;
  if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last)) return false;
  if (first < 0 || last < first || last >= kMaxNumber) return false;
  for (int number = first; number <= last; ++number) numbers.push_back(number);
  return true;
}

}  // namespace

std::vector<int> ParseNumberList(const std::string& text) {
  std::vector<int> numbers;
  for (const absl::string_view range : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    if (!AppendRange(range, numbers)) return {};
  }
  return numbers;
}

size_t NumaNodes(const std::string& system_files) {
  const std::string nodes = FirstLine(absl::StrCat(system_files, "/devices/system/node/has_cpu"));
  return std::max<size_t>(1, ParseNumberList(nodes).size());
}

int NumaNodeOf(const std::string& pci_address, const std::string& system_files) {
  const std::string path =
      absl::StrCat(system_files, "/bus/pci/devices/", absl::AsciiStrToLower(pci_address), "/numa_node");
  int node = -1;
  return absl::SimpleAtoi(FirstLine(path), &node) && node >= 0 && node < kMaxNumber ? node : -1;
}

std::vector<int> CoresOfNode(int node, const std::string& system_files) {
  return ParseNumberList(FirstLine(absl::StrCat(system_files, "/devices/system/node/node", node, "/cpulist")));
}

void PreferNode(void* data, size_t bytes, int node) {
  constexpr size_t kBitsOfWord = 8 * sizeof(unsigned long);
  if (node < 0) return;
  std::vector<unsigned long> mask(static_cast<size_t>(node) / kBitsOfWord + 1);
  mask.back() = 1UL << (static_cast<size_t>(node) % kBitsOfWord);
  // The system looks at one bit less than it is told of. Containers often forbid the call: then pages come from where
  // they come.
  (void)syscall(SYS_mbind, data, bytes, MPOL_PREFERRED, mask.data(), mask.size() * kBitsOfWord + 1, 0U);
}

void PreferCoresOf(int node) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const int core : CoresOfNode(node)) {
    if (core < CPU_SETSIZE && CPU_ISSET(static_cast<size_t>(core), &allowed))
      CPU_SET(static_cast<size_t>(core), &wanted);
  }
  if (CPU_COUNT(&wanted) > 0) (void)sched_setaffinity(0, sizeof(wanted), &wanted);
}

}  // namespace widelane::cuda
