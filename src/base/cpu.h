#pragma once
#include <array>
#include <cstdint>

namespace tally {

// Processors that this process may use: affinity mask and container quota considered. At least 1.
int usable_cores();

// The processors in this process's affinity mask, by bit.
using CpuSet = std::array<std::uint64_t, 16>;
CpuSet cpus_of_process();
int count(const CpuSet& cpus);
// Processors that processes which may use `together` have in all, this one among them: a quota of
// its container holds for all of them. At least 1.
int usable_cores(const CpuSet& together);

// Tells the processor that this is a spin loop.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace tally
