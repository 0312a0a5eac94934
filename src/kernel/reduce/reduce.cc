#include "kernel/reduce/reduce.h"

#include "base/check.h"
#include "kernel/reduce/reduce_level.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tally::kernel {
namespace {

const LevelLoops::OfType& loops_of(const LevelLoops& loops, DataType type) {
  const auto index = static_cast<std::size_t>(type);
  TALLY_CHECK(index < kDataTypeCount);
  return loops.of_type[index];
}

std::size_t index_of(ReduceOp op) {
  const auto index = static_cast<std::size_t>(op);
  TALLY_CHECK(index < kReduceOpCount);
  return index;
}

template <const LevelLoops& kLoops>
void combine(DataType type, ReduceOp op, void* into, const void* from, std::size_t count) {
  loops_of(kLoops, type).combine[index_of(op)](into, from, count);
}

template <const LevelLoops& kLoops>
void combine_many(DataType type, ReduceOp op, std::span<const void* const> sources,
                  std::span<void* const> destinations, std::size_t count, int divisor) {
  TALLY_CHECK(!sources.empty());
  TALLY_CHECK(divisor >= 1);
  loops_of(kLoops, type)
      .combine_many[index_of(op)](sources.data(), sources.size(), destinations.data(),
                                  destinations.size(), count, divisor);
}

// One source combines to itself, whatever the operation.
template <const LevelLoops& kLoops>
void divide(DataType type, void* data, std::size_t count, int divisor) {
  TALLY_CHECK(divisor >= 1);
  if (divisor == 1) return;
  const void* const source = data;
  loops_of(kLoops, type)
      .combine_many[index_of(ReduceOp::kSum)](&source, 1, &data, 1, count, divisor);
}

template <const LevelLoops& kLoops>
void widen(DataType type, const void* halves, float* values, std::size_t count) {
  TALLY_CHECK(type == DataType::kFloat16 || type == DataType::kBFloat16);
  const bool float16 = type == DataType::kFloat16;
  (float16 ? kLoops.widen_float16 : kLoops.widen_bfloat16)(halves, values, count);
}

template <const LevelLoops& kLoops>
void narrow(DataType type, const float* values, void* halves, std::size_t count) {
  TALLY_CHECK(type == DataType::kFloat16 || type == DataType::kBFloat16);
  const bool float16 = type == DataType::kFloat16;
  (float16 ? kLoops.narrow_float16 : kLoops.narrow_bfloat16)(values, halves, count);
}

template <const LevelLoops& kLoops>
constexpr Kernels kKernels = {.combine = combine<kLoops>,
                              .combine_many = combine_many<kLoops>,
                              .divide = divide<kLoops>,
                              .widen = widen<kLoops>,
                              .narrow = narrow<kLoops>};

#if defined(__x86_64__)
// clang 14 does not know "f16c" in __builtin_cpu_supports. Whether the system saves the registers
// is part of its answer for avx2. Asked once: in a virtual machine the instruction takes 20 us.
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
  switch (level) {
    case Level::kBaseline:
      return "baseline";
    case Level::kAvx2:
      return "avx2";
    case Level::kAvx512:
      return "avx512";
  }
  return "unknown";
}

std::vector<Level> available_levels() {
  std::vector<Level> levels;
  for (const Level level : {Level::kBaseline, Level::kAvx2, Level::kAvx512}) {
    if (is_available(level)) levels.push_back(level);
  }
  return levels;
}

const Kernels& kernels() {
  static const Kernels& best = kernels(available_levels().back());
  return best;
}

const Kernels& kernels(Level level) {
  TALLY_CHECK(is_available(level));
#if defined(__x86_64__)
  if (level == Level::kAvx2) return kKernels<kAvx2Loops>;
  if (level == Level::kAvx512) return kKernels<kAvx512Loops>;
#endif
  return kKernels<kBaselineLoops>;
}

}  // namespace tally::kernel
