#pragma once
#include <cstddef>
#include <optional>

#include "kernel/level.h"

namespace tally::kernel {

// The loops of one level behind norm.h and weighted_sum.h.
template <typename T>
struct ArrayLoopsOf {
  // Adds the squares of `count` values to kNormLanes lanes, value i to lane i % kNormLanes.
  void (*add_squares)(const T* values, std::size_t count, double* lanes);

  // out[i] = sum over r in order of weights[r] * inputs[r][i]; with `add` plus the present out[i].
  // One to kInputsAtOnce inputs. `out` may be one of the inputs.
  void (*weighted_sum)(const T* const* inputs, const T* weights, std::size_t input_count, bool add,
                       T* out, std::size_t count);
  void (*clamp)(T* data, std::size_t count, T limit);
  void (*scale)(T* data, std::size_t count, T factor);
};

inline constexpr std::size_t kInputsAtOnce = 8;

// Compiled from array_loops.inc.
using ArrayLoops = ByFloatType<ArrayLoopsOf>;
struct ArrayLevels {
  static const ArrayLoops baseline, avx2, avx512;
};

inline const ArrayLoops& array_loops(std::optional<Level> level) {
  return table_of<ArrayLevels>(level);
}

}  // namespace tally::kernel
