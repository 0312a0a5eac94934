#include "exchange/lane/bucket_codec.h"

#include "exchange/lane/low_rank_bucket.h"
#include "exchange/lane/sliced_bucket.h"

namespace tally::exchange {
namespace {

// An uncompressed bucket: reduce-scatter in first(), all-gather in second(). The parts are the same
// as without a codec, so that sums have the same bits. With `scatters` the reduce-scatter is all.
class PlainBucket final : public BucketCodec {
 public:
  explicit PlainBucket(const BucketFacts& facts)
      : type_(facts.bucket.type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32),
        scatters_(facts.scatters) {
    for (int member = 0; member < facts.self.of; ++member)
      counts_.push_back(part_of(facts.local, {.parts = facts.self.of, .index = member}).count());
    if (!scatters_)
      own_.resize(counts_[static_cast<std::size_t>(facts.self.number)] * size_of(type_));
  }

  bool takes_sums() const override { return true; }
  Result<Delivery> first(Lane& lane, const LaneStep& step) override {
    return lane.sum_parts(step.values, {.type = type_, .counts = counts_},
                          scatters_ ? step.own : std::span(own_));
  }
  Result<Delivery> second(Lane& lane, const LaneStep& step) override {
    if (scatters_) return Delivery{};
    return lane.gather_parts(own_, {.type = type_, .counts = counts_}, step.values);
  }
  Result<void> third(const Lane& /*lane*/, const LaneStep& /*step*/) override { return {}; }

 private:
  const DataType type_;  // of the sums: half types would lose precision
  const bool scatters_;
  std::vector<std::size_t> counts_;  // by member: elements of its part
  std::vector<std::byte> own_;       // this member's part, summed
};

}  // namespace

std::unique_ptr<BucketCodec> make_bucket_codec(const BucketFacts& facts) {
  // float64 is never compressed.
  if (facts.spec.kind == plan::Codec::kNone || facts.bucket.type == DataType::kFloat64)
    return std::make_unique<PlainBucket>(facts);
  if (facts.spec.kind == plan::Codec::kPowersgd) return std::make_unique<LowRankBucket>(facts);
  return std::make_unique<SlicedBucket>(facts);
}

}  // namespace tally::exchange
