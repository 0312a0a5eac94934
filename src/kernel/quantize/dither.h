#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/counter_random.h"
#include "kernel/level.h"

namespace tally::kernel {

// How values become levels: those of -scale to scale lie between -levels and levels, and each is
// rounded up or down by chance so that its mean over all keys is what it was. Value i draws number
// first + i of the sequence.
struct Dither {
  float scale = 0;   // positive and finite; magnitudes beyond it count as it
  float levels = 1;  // a whole number up to 127
  RandomKey key;
  std::uint32_t first = 0;
};

// What levels stand for: (level * unit) * scale, each product rounded.
struct LevelValues {
  float unit = 1;
  float scale = 0;
};

// Pointers may have any address that their type allows; nothing overlaps.
struct DitherKernels {
  // The largest magnitude; NaN if there is one among the values. 0 of none.
  float (*max_magnitude)(const float* values, std::size_t count);
  // level = s * floor(y), or one step more if unit_of(random) < y - floor(y), with y = (|value| /
  // scale) * levels and the value's sign s.
  void (*round)(const float* values, std::size_t count, const Dither& dither, std::int8_t* levels);

  // out[i] = what level i stands for; sum[i] += weight * it, the product rounded.
  void (*widen)(const std::int8_t* levels, std::size_t count, const LevelValues& values,
                float* out);
  void (*add)(const std::int8_t* levels, std::size_t count, const LevelValues& values, float weight,
              float* sum);
};

// Compiled from dither_loops.inc.
struct DitherLevels {
  static const DitherKernels baseline, avx2, avx512;
};

// The loops of this processor's best level, and of a level from available_levels().
inline const DitherKernels& dither_kernels() { return best_table<DitherLevels>(); }
inline const DitherKernels& dither_kernels(Level level) { return table_of<DitherLevels>(level); }
// Plain loops for tests to compare with.
const DitherKernels& dither_reference();

}  // namespace tally::kernel
