#include "kernel/level.h"

#include "base/check.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tally::kernel {
namespace {

#if defined(__x86_64__)
// clang 14 does not know "f16c" in __builtin_cpu_supports. Its answer for avx2 covers whether the
// operating system saves the registers. CPUID is asked once: in a virtual machine it takes 20 us.
bool has_f16c() {
  static const bool has = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  }();
  return has;
}
#endif

bool is_available(Level level) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && has_f16c();
  switch (level) {
    case Level::kBaseline:
      return true;
    case Level::kAvx2:
      return avx2;
    case Level::kAvx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
#endif
  return level == Level::kBaseline;
}

}  // namespace

std::string_view to_string(Level level) {
  constexpr std::string_view kNames[] = {"baseline", "avx2", "avx512"};
  return kNames[static_cast<std::size_t>(level)];
}

std::vector<Level> available_levels() {
  std::vector<Level> levels;
  for (const Level level : {Level::kBaseline, Level::kAvx2, Level::kAvx512}) {
    if (is_available(level)) levels.push_back(level);
  }
  return levels;
}

void check_available(Level level) { TALLY_CHECK(is_available(level)); }

}  // namespace tally::kernel
