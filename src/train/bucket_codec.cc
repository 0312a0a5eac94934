#include "train/bucket_codec.h"

#include "train/low_rank_bucket.h"
#include "train/plain_bucket.h"
#include "train/sliced_bucket.h"

namespace tally::train {

std::unique_ptr<BucketCodec> make_bucket_codec(const BucketFacts& facts) {
  // float64 is never compressed.
  if (facts.spec.kind == plan::Codec::kNone || facts.bucket.type == DataType::kFloat64)
    return std::make_unique<PlainBucket>(facts);
  if (facts.spec.kind == plan::Codec::kPowersgd) return std::make_unique<LowRankBucket>(facts);
  return std::make_unique<SlicedBucket>(facts);
}

}  // namespace tally::train
