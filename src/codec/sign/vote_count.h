#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "codec/codec.h"

namespace tally::codec {

// Majority votes (Bernstein, Zhao, Azizzadenesheli, Anandkumar 2019). Who has a share has one vote
// for each value, its sign; a zero is no vote. The result is the sign that more have, times the
// mean by share of the magnitudes; a tie is zero. Where a magnitude is not a number, so is the
// result.

// Of values. Threads: calls must not overlap.
class VoteCount final {
 public:
  explicit VoteCount(std::size_t count) : ahead_(count), magnitudes_(count) {}

  // `values` has `count` of them; share > 0.
  void add(const float* values, float share);
  void finish(std::span<float> mean) const;

 private:
  std::vector<std::int32_t> ahead_;  // positive votes less negative ones
  std::vector<float> magnitudes_;
};

// Of encodings of sign:`block`, straight from their bits: the same result. Shares of 0 are passed
// over. kCorrupt as decode(), and for more than kernel::kMaxVoters voters.
Result<void> count_signs(std::size_t block, std::span<const Encoded> senders,
                         std::span<const float> shares, std::span<float> mean);

}  // namespace tally::codec
