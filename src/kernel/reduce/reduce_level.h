#pragma once
#include <cstddef>

#include "tally/types.h"

namespace tally::kernel {

// The loops of one level, by type and operation.
struct LevelLoops {
  using Combine = void (*)(void* into, const void* from, std::size_t count);
  using CombineMany = void (*)(const void* const* sources, std::size_t source_count,
                               void* const* destinations, std::size_t destination_count,
                               std::size_t count, int divisor);
  using Widen = void (*)(const void* halves, float* values, std::size_t count);
  using Narrow = void (*)(const float* values, void* halves, std::size_t count);

  // One row for each operation, in the order of ReduceOp.
  struct OfType {
    Combine combine[kReduceOpCount];
    CombineMany combine_many[kReduceOpCount];
  };
  OfType of_type[kDataTypeCount];  // in the order of DataType
  Widen widen_float16, widen_bfloat16;
  Narrow narrow_float16, narrow_bfloat16;
};

// Compiled from reduce_loops.inc.
struct ReduceLevels {
  static const LevelLoops baseline, avx2, avx512;
};

}  // namespace tally::kernel
