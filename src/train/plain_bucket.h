#pragma once
#include <vector>

#include "train/bucket_codec.h"

namespace tally::train {

// A bucket that travels as it is: every member sums its part of what all have, and gives the sums
// to all. With the same parts as without a codec, so that sums have the same bits.
class PlainBucket final : public BucketCodec {
 public:
  explicit PlainBucket(const BucketFacts& facts);

  bool takes_sums() const override { return true; }
  Result<void> first(Lane& lane, const LaneStep& step) override;
  Result<void> second(Lane& lane, const LaneStep& step) override;
  std::vector<CodecState> states() override { return {}; }

 private:
  const DataType type_;              // of sums
  std::vector<std::size_t> counts_;  // elements of the members' parts
  std::vector<std::byte> own_;       // this member's part, summed
};

}  // namespace tally::train
