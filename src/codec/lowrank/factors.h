#pragma once
#include <cstddef>
#include <span>

#include "tally/error.h"

namespace tally::codec {

// Which elements of a matrix a run is.
struct FactorPlace {
  std::size_t columns = 0;
  std::size_t first = 0;  // element of the matrix, counted row by row
  std::size_t count = 0;  // at least 1
};

// Of the matrix: first the one of the run's first element.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 0;
};
RowRange rows_of(const FactorPlace& place);

// A run of left * transposed right as bytes: the rank, the rows of the left factor that the run
// touches, and all of the right factor. So each run can be decoded alone, wherever the matrix is
// cut; many runs of one matrix carry the right factor many times.
std::size_t factor_bytes(const FactorPlace& place, std::size_t rank);

// Factors as powersgd.h has them, columns one behind the other: `left` of all rows of the matrix,
// `right` of place.columns. `out` has factor_bytes() of them.
struct Factors {
  std::size_t rows = 0;
  std::size_t rank = 0;  // 1 to 64
  std::span<const float> left, right;
};
void encode_factors(const Factors& factors, const FactorPlace& place, std::span<std::byte> out);

// out, which has place.count values, = the run of the product, the same bits as of the whole.
// kCorrupt, with `out` undefined, if `bytes` cannot be an encoding of this place. Bytes may lie at
// any address and may be anybody's: nothing outside them and `out` is touched; time and memory are
// bounded by both sizes.
Result<void> decode_factors(std::span<const std::byte> bytes, const FactorPlace& place,
                            std::span<float> out);

}  // namespace tally::codec
