#pragma once
#include <array>
#include <cstdint>

namespace tally {

// The number of processors that this process may use, by affinity mask and container quota. At
// least 1.
int usable_cores();

// The processors in this process's affinity mask, one bit each.
using CpuSet = std::array<std::uint64_t, 16>;
CpuSet cpus_of_process();
int count(const CpuSet& cpus);
// The number of processors that a group of processes in this container can use, at least 1. The
// group includes this process, and `together` is the union of the affinity masks. The quota of the
// container limits the whole group.
int usable_cores(const CpuSet& together);

// Hints to the processor that the thread spins.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace tally
