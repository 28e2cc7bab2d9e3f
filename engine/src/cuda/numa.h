// Nodes of memory. A GPU copies fastest from the node that it hangs on, and a thread reaches it fastest from there.
//
// Everything here is a preference: where the system says no, things work as on a machine with one node.

#ifndef WIDELANE_ENGINE_SRC_CUDA_NUMA_H_
#define WIDELANE_ENGINE_SRC_CUDA_NUMA_H_

#include <cstddef>
#include <string>
#include <vector>

namespace widelane::cuda {

// Where the kernel tells about the machine; tests have their own.
inline constexpr const char* kSystemFiles = "/sys";

// How many nodes have cores; 1 where nothing is told.
size_t NumaNodes(const std::string& system_files = kSystemFiles);
// The node of the device at `pci_address` ("0000:17:00.0"), or -1 where nothing is told.
int NumaNodeOf(const std::string& pci_address, const std::string& system_files = kSystemFiles);
// The cores of `node`; none where nothing is told.
std::vector<int> CoresOfNode(int node, const std::string& system_files = kSystemFiles);

// The numbers in "0-3,8,10-11"; none when the text is something else.
std::vector<int> ParseNumberList(const std::string& text);

// Asks for pages on `node`, for those of [data, data + bytes) that nobody has touched yet. `data` is page-aligned.
void PreferNode(void* data, size_t bytes, int node);
// Keeps the calling thread on the cores of `node`, as far as it may use them; if it may use none, it stays.
void PreferCoresOf(int node);

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_NUMA_H_
