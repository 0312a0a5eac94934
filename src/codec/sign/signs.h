#pragma once
#include <cstddef>
#include <span>

#include "codec/block_layout.h"
#include "kernel/sign/sign_bits.h"

namespace tally::codec {

// The layout of sign:B: one scale per block, the mean magnitude of its values, then one bit per
// value, set where the value is less than zero. A zero therefore counts as positive, unless all
// values of its block are zero: then the scale is zero.
inline BlockLayout sign_layout(std::size_t count, std::size_t block) {
  return {count, block, /*floats=*/1, /*bits=*/1};
}
// kCorrupt if the encoder cannot have written the bytes.
Result<void> check_signs(const BlockLayout& layout, std::span<const std::byte> bytes,
                         std::size_t count);

// The sums and bits of one block. Sums that overflow the kernel's float lanes are computed in
// double; they are not finite only if a value is not.
kernel::SideSums pack_signs(const kernel::SignKernels& kernels, std::span<const float> values,
                            std::byte* bits);

}  // namespace tally::codec
