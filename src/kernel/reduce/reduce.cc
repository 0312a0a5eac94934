#include "kernel/reduce/reduce.h"

#include "base/check.h"
#include "kernel/reduce/reduce_level.h"

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

// One source combines to itself with every operation.
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

// Kernels as table_of() wants them.
struct KernelLevels {
  static constexpr const Kernels& baseline = kKernels<ReduceLevels::baseline>;
#if defined(__x86_64__)
  static constexpr const Kernels& avx2 = kKernels<ReduceLevels::avx2>;
  static constexpr const Kernels& avx512 = kKernels<ReduceLevels::avx512>;
#endif
};

}  // namespace

const Kernels& kernels(std::optional<Level> level) { return table_of<KernelLevels>(level); }

}  // namespace tally::kernel
