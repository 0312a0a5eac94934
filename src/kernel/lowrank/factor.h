#pragma once
#include <cstddef>
#include <optional>

#include "kernel/level.h"

namespace tally::kernel {

// A float32 matrix, row by row, and two factors of it, column by column: column k of the left
// factor is [k * rows, (k + 1) * rows), of the right one [k * columns, (k + 1) * columns).
struct FactorShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;
};

// Products of a matrix and its factors, of rank 1 to 64. Nothing is fused and the order of all
// additions is fixed, so every level gives the same bits. Arrays do not overlap.
struct FactorKernels {
  // matrix += addend; left = matrix * right. Product j of a row goes to lane j % 32 of its sum, and
  // the lanes are added by halves.
  void (*project)(FactorShape shape, const float* addend, float* matrix, const float* right,
                  float* left);
  // right = transposed matrix * left, added row by row.
  void (*correlate)(FactorShape shape, const float* matrix, const float* left, float* right);
  // product = left * transposed right, added in the order of columns; if `matrix` is not null,
  // matrix -= product.
  void (*multiply)(FactorShape shape, const float* left, const float* right, float* product,
                   float* matrix);
};

// Compiled from factor_loops.inc.
struct FactorLevels {
  static const FactorKernels baseline, avx2, avx512;
};

// The loops of a level (see table_of()), and plain loops for tests to compare with.
inline const FactorKernels& factor_kernels(std::optional<Level> level = {}) {
  return table_of<FactorLevels>(level);
}
const FactorKernels& factor_kernels_reference();

}  // namespace tally::kernel
