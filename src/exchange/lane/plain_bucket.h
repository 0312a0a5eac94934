#pragma once
#include <vector>

#include "exchange/lane/bucket_codec.h"

namespace tally::exchange {

// An uncompressed bucket: reduce-scatter in first(), all-gather in second(). The parts are the same
// as without a codec, so that sums have the same bits. With `scatters` the reduce-scatter is all.
class PlainBucket final : public BucketCodec {
 public:
  explicit PlainBucket(const BucketFacts& facts);

  bool takes_sums() const override { return true; }
  Result<Delivery> first(Lane& lane, const LaneStep& step) override;
  Result<Delivery> second(Lane& lane, const LaneStep& step) override;
  Result<void> third(const Lane& /*lane*/, const LaneStep& /*step*/) override { return {}; }

 private:
  const DataType type_;  // of the sums: half types would lose precision
  const bool scatters_;
  std::vector<std::size_t> counts_;  // by member: elements of its part
  std::vector<std::byte> own_;       // this member's part, summed
};

}  // namespace tally::exchange
