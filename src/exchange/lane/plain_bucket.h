#pragma once
#include <vector>

#include "exchange/lane/bucket_codec.h"

namespace tally::exchange {

// An uncompressed bucket: reduce-scatter in first(), all-gather in second(). The parts are the same
// as without a codec, so that sums have the same bits.
class PlainBucket final : public BucketCodec {
 public:
  explicit PlainBucket(const BucketFacts& facts);

  bool takes_sums() const override { return true; }
  Result<void> first(Lane& lane, const LaneStep& step) override;
  Result<void> second(Lane& lane, const LaneStep& step) override;
  std::vector<CodecState> states() override { return {}; }

 private:
  const DataType type_;              // of the sums
  std::vector<std::size_t> counts_;  // by member: elements of its part
  std::vector<std::byte> own_;       // this member's part, summed
};

}  // namespace tally::exchange
