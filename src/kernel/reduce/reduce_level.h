#pragma once
#include <cstddef>

#include "tally/types.h"

namespace tally::kernel {

// The loops of one level, by type and operation. Each level is compiled with its own instruction
// set, so its source must leave nothing behind that the linker could merge with code of another
// level: plain pointers only, no std:: templates, everything but the table in an unnamed namespace.
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

extern const LevelLoops kBaselineLoops;
#if defined(__x86_64__)
extern const LevelLoops kAvx2Loops;
extern const LevelLoops kAvx512Loops;
#endif

}  // namespace tally::kernel
