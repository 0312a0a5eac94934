#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "codec/codec.h"

namespace tally::codec {

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
