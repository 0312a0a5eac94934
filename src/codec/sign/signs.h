#pragma once
#include <cstddef>
#include <span>

#include "codec/block_layout.h"
#include "kernel/sign/sign_bits.h"

namespace tally::codec {

// An encoding of sign:B: a scale for each block, the mean magnitude of its values, then a bit for
// each value: set where it is less than zero. So a zero counts as positive, unless all of its block
// are zero: then the scale is.
inline BlockLayout sign_layout(std::size_t count, std::size_t block) {
  return {count, block, /*floats=*/1, /*bits=*/1};
}
// kCorrupt if encode() cannot have made it.
Result<void> check_signs(const BlockLayout& layout, std::span<const std::byte> bytes,
                         std::size_t count);

// The sums and bits of one block. Sums that are too large for the kernel's lanes are made in
// double, value by value; they are not finite only where a value is not.
kernel::SideSums pack_signs(const kernel::SignKernels& kernels, std::span<const float> values,
                            std::byte* bits);

}  // namespace tally::codec
