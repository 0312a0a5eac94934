#pragma once
#include <memory>
#include <vector>

#include "codec/lowrank/powersgd.h"
#include "exchange/lane/bucket_codec.h"
#include "exchange/low_rank_round.h"

namespace tally::exchange {

// powersgd: each matrix travels as two thin factors. first() sums the left factors over the lane,
// weighted by the senders' weights; second() sums the right factors; third() rebuilds the means.
// Uncompressed parameters, and during the warm-up all of them, are summed together with the left
// factors. A matrix is a whole parameter, so lanes have whole entries of the bucket.
class LowRankBucket final : public BucketCodec {
 public:
  explicit LowRankBucket(const BucketFacts& facts);

  Result<Delivery> first(Lane& lane, const LaneStep& step) override;
  Result<Delivery> second(Lane& lane, const LaneStep& step) override;
  Result<void> third(const Lane& lane, const LaneStep& step) override;
  std::vector<CodecState> states() override;

 private:
  struct Part {
    std::size_t parameter = 0;
    Range range;                              // in the bucket
    std::unique_ptr<codec::PowerSgd> matrix;  // null: not compressed
  };
  std::span<float> values_of(const Part& part, const LaneStep& step) const;

  const plan::CodecSpec spec_;
  const Range local_;
  const bool is_first_;  // whether this member is the first sender
  std::vector<Part> parts_;
  LowRankRound<float> round_;
};

}  // namespace tally::exchange
