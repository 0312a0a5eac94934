#pragma once
#include <string_view>
#include <vector>

namespace tally::launch {

// A processor that may be used: its number, the NUMA node it belongs to, and the lowest number
// among the hyperthreads of its core.
struct Cpu {
  int number = 0;
  int node = 0;
  int core = 0;
};

// Which processors each of `ranks` local ranks gets, by local rank. Every share is contiguous and
// within one NUMA node where there are as many ranks as nodes, else it is whole nodes; hyperthreads
// of a core stay together while there are enough cores. With fewer processors than ranks some share
// one.
std::vector<std::vector<int>> share_cpus(std::vector<Cpu> cpus, int ranks);

// "0-3,8" as the kernel writes sets of processors; what makes no sense is left out.
std::vector<int> parse_cpu_list(std::string_view text);

// The processors that this process may use, as the system describes them.
std::vector<Cpu> usable_cpus();

}  // namespace tally::launch
