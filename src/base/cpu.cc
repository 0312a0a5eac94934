#include "base/cpu.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

namespace tally {
namespace {

int cores_by_affinity() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

// cgroup v2: "max 100000" or "<quota> <period>" in microseconds.
int cores_by_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 1 << 20;
  char* end = nullptr;
  const double allowed = std::strtod(quota.c_str(), &end);
  if (end == quota.c_str()) return 1 << 20;
  return static_cast<int>(std::ceil(allowed / period));
}

}  // namespace

CpuSet cpus_of_process() {
  CpuSet cpus{};
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (std::size_t cpu = 0; cpu < cpus.size() * 64; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
  return cpus;
}

int count(const CpuSet& cpus) {
  int total = 0;
  for (const std::uint64_t word : cpus) total += std::popcount(word);
  return total;
}

int usable_cores() { return std::max(1, std::min(cores_by_affinity(), cores_by_quota())); }

int usable_cores(const CpuSet& together) {
  return std::max(1, std::min(count(together), cores_by_quota()));
}

}  // namespace tally
