#pragma once
#include <memory>
#include <vector>

#include "codec/lowrank/powersgd.h"
#include "train/bucket_codec.h"

namespace tally::train {

// powersgd: matrices travel as two thin factors, which are summed by the senders' weights over the
// lane, the first one in first() and the second one in second(). What is not compressed is summed
// along with the first. A matrix is a whole parameter: lanes have whole entries of the bucket.
class LowRankBucket final : public BucketCodec {
 public:
  explicit LowRankBucket(const BucketFacts& facts);

  Result<void> first(Lane& lane, const LaneStep& step) override;
  Result<void> second(Lane& lane, const LaneStep& step) override;
  std::vector<CodecState> states() override;

 private:
  struct Part {
    std::size_t parameter = 0;
    Range range;                              // in the bucket
    std::unique_ptr<codec::PowerSgd> matrix;  // null: not compressed

    // Of the first sum.
    std::size_t count() const { return matrix ? matrix->p_count() : range.count(); }
  };
  std::span<float> values_of(const Part& part, const LaneStep& step) const;
  std::vector<Part*> used_parts(const LaneStep& step);
  void finish(const LaneStep& step);

  const Range local_;
  const bool feedback_;
  const bool is_first_;  // sender
  std::vector<Part> parts_;
  // Left factors and what is not compressed, by weight; at last the weight.
  std::vector<float> sums_;
  std::vector<float> factors_;  // right ones
};

}  // namespace tally::train
