#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernel/counter_random.h"
#include "kernel/level.h"

namespace tally::kernel {

// Stochastic rounding: values from -scale to scale are mapped to -levels to levels, and each is
// rounded up or down at random so that its expected value is unchanged. Value i uses number first +
// i of the random sequence.
struct StochasticRounding {
  float scale = 0;   // positive and finite; magnitudes beyond it count as it
  float levels = 1;  // a whole number up to 127
  RandomKey key;
  std::uint32_t first = 0;
};

// The value of a level: (level * unit) * scale, each product rounded.
struct LevelValues {
  float unit = 1;
  float scale = 0;
};

// Pointers are aligned as their type requires; nothing overlaps.
struct StochasticKernels {
  // The largest magnitude; NaN if a value is NaN; 0 for no values.
  float (*max_magnitude)(const float* values, std::size_t count);
  // level = s * floor(y), plus s if unit_of(random) < y - floor(y), with y = (|value| / scale) *
  // levels and the value's sign s.
  void (*round)(const float* values, std::size_t count, const StochasticRounding& rounding,
                std::int8_t* levels);

  // out[i] = value of level i or, with a weight, out[i] + *weight * value, the product rounded.
  void (*widen)(const std::int8_t* levels, std::size_t count, const LevelValues& values,
                const float* weight, float* out);
};

// Compiled from stochastic_loops.inc.
struct StochasticLevels {
  static const StochasticKernels baseline, avx2, avx512;
};

// The loops of a level (see table_of()), and plain loops for tests to compare with.
inline const StochasticKernels& stochastic_kernels(std::optional<Level> level = {}) {
  return table_of<StochasticLevels>(level);
}
const StochasticKernels& stochastic_reference();

}  // namespace tally::kernel
