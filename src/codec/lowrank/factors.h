#pragma once
#include <cstddef>
#include <span>

#include "tally/error.h"

namespace tally::codec {

// The elements of a matrix that make up a run.
struct FactorRun {
  std::size_t columns = 0;
  std::size_t first = 0;  // element of the matrix, counted row by row
  std::size_t count = 0;  // at least 1
};

// Rows of the matrix, from that of the run's first element on.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 0;
};
RowRange rows_of(const FactorRun& run);

// Encodes a run of left * transposed right: the rank, the rows of the left factor that the run
// touches, and the whole right factor. So each run can be decoded alone, wherever the matrix is
// cut; many runs of one matrix repeat the right factor.
std::size_t factor_bytes(const FactorRun& run, std::size_t rank);

// Factors in the layout of powersgd.h, column by column: `left` has all rows of the matrix, `right`
// has run.columns rows. `out` has factor_bytes().
struct Factors {
  std::size_t rows = 0;
  std::size_t rank = 0;  // 1 to 64
  std::span<const float> left, right;
};
void encode_factors(const Factors& factors, const FactorRun& run, std::span<std::byte> out);

// Writes the run of the product, with the same bits as the product of the whole matrix. kCorrupt,
// with `out` undefined, if `bytes` cannot be an encoding of this run. The bytes may lie at any
// address and need not be trusted: nothing outside them and `out` is touched, and time and memory
// are bounded by both sizes.
Result<void> decode_factors(std::span<const std::byte> bytes, const FactorRun& run,
                            std::span<float> out);

}  // namespace tally::codec
