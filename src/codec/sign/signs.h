#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/block_layout.h"
#include "codec/codec.h"
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

// Majority vote (Bernstein, Zhao, Azizzadenesheli, Anandkumar 2019). Each sender with a weight has
// one vote per value, its sign; a zero is no vote. The result is the sign of the majority times the
// weighted mean of the magnitudes. A tie is zero. Where a magnitude is NaN, the result is NaN.

// Counts the votes of decoded values. Threads: calls must not overlap.
class MajorityVote final {
 public:
  explicit MajorityVote(std::size_t count) : ahead_(count), magnitudes_(count) {}

  // `values` has `count` values; share > 0.
  void add(const float* values, float share);
  void finish(std::span<float> mean) const;

 private:
  std::vector<std::int32_t> ahead_;  // positive votes less negative ones
  std::vector<float> magnitudes_;
};

// Counts the votes of encodings by sign:`block` from their bitmaps, with the same result. Shares of
// 0 are ignored. kCorrupt as decode(), and for more than kernel::kMaxVoters senders.
Result<void> vote_on_signs(std::size_t block, std::span<const Encoded> senders,
                           std::span<const float> shares, std::span<float> mean);

}  // namespace tally::codec
