#include "exchange/lane/bucket_codec.h"

#include "exchange/lane/low_rank_bucket.h"
#include "exchange/lane/plain_bucket.h"
#include "exchange/lane/sliced_bucket.h"

namespace tally::exchange {

std::unique_ptr<BucketCodec> make_bucket_codec(const BucketFacts& facts) {
  // float64 is never compressed.
  if (facts.spec.kind == plan::Codec::kNone || facts.bucket.type == DataType::kFloat64)
    return std::make_unique<PlainBucket>(facts);
  if (facts.spec.kind == plan::Codec::kPowersgd) return std::make_unique<LowRankBucket>(facts);
  return std::make_unique<SlicedBucket>(facts);
}

}  // namespace tally::exchange
