#pragma once
#include <string_view>
#include <vector>

namespace tally::launch {

// A usable processor: its number, its NUMA node, and the lowest number among the hyperthreads of
// its core.
struct Cpu {
  int number = 0;
  int node = 0;
  int core = 0;
};

// Returns the processors of each of `ranks` local ranks, by local rank. A share is contiguous and
// within one NUMA node if there are at least as many ranks as nodes, otherwise it consists of whole
// nodes. Hyperthreads of a core stay together while there are enough cores. With fewer processors
// than ranks, some ranks share one.
std::vector<std::vector<int>> share_cpus(std::vector<Cpu> cpus, int ranks);

// Parses "0-3,8", the kernel's format for sets of processors; invalid parts are left out.
std::vector<int> parse_cpu_list(std::string_view text);

// Returns the processors that this process may use.
std::vector<Cpu> usable_cpus();

}  // namespace tally::launch
