#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "kernel/level.h"
#include "tally/types.h"

namespace tally::kernel {

// All functions take unaligned pointers. kAverage adds like kSum: division is a separate step. Half
// types are combined in float32 and rounded to nearest even; integers wrap on overflow.
//
// Every level gives the same bits as reference_kernels(), with one exception: where a result is
// NaN, it is NaN at every level, but its sign and payload are undefined.
//   min(a, b) is b < a ? b : a and max(a, b) is a < b ? b : a, where a is the result so far. So a
//   NaN in a later source is ignored, one in the first source stays; of 0 and -0 the first stays.
//   Floats are divided by float(divisor), correctly rounded.
struct Kernels {
  // into[i] = op(into[i], from[i]). `into` and `from` are equal or do not overlap.
  void (*combine)(DataType type, ReduceOp op, void* into, const void* from, std::size_t count);

  // For each i: op over sources[0][i], sources[1][i], … in this order, divided by `divisor` when
  // that is not 1, then stored to every destination. A destination may be one of the sources;
  // otherwise nothing overlaps. Half types are rounded once, at the end. At least one source;
  // divisor >= 1.
  void (*combine_many)(DataType type, ReduceOp op, std::span<const void* const> sources,
                       std::span<void* const> destinations, std::size_t count, int divisor);

  // data[i] /= divisor; integers truncate towards zero. divisor >= 1.
  void (*divide)(DataType type, void* data, std::size_t count, int divisor);

  // Converts `halves` to float32, and float32 to halves with rounding to nearest even. A NaN keeps
  // its sign and the upper bits of its payload, and becomes quiet when narrowed. `type` is kFloat16
  // or kBFloat16; nothing overlaps.
  void (*widen)(DataType type, const void* halves, float* values, std::size_t count);
  void (*narrow)(DataType type, const float* values, void* halves, std::size_t count);
};

// The functions of a level: see table_of().
const Kernels& kernels(std::optional<Level> level = {});

// Plain loops, one element at a time, for tests to compare with.
const Kernels& reference_kernels();

}  // namespace tally::kernel
