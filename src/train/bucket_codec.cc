#include "train/bucket_codec.h"

#include "train/low_rank_bucket.h"
#include "train/sliced_bucket.h"

namespace tally::train {
namespace {

// Buckets of float64, which are not compressed: sums over the lane.
class DenseBucket final : public BucketCodec {
 public:
  Result<void> first(Lane& lane, const LaneStep& step) override {
    const std::span<double> values = doubles(step);
    sums_.assign(values.size() + 1, 0);
    sums_.back() = step.weight;
    if (step.weight > 0)
      for (std::size_t i = 0; i < values.size(); ++i) sums_[i] = step.weight * values[i];
    return lane.sum(std::span(sums_));
  }
  // Dividing where nothing is sent: so it is beside the next bucket's sum.
  Result<void> second(Lane& lane, const LaneStep& step) override {
    const std::span<double> values = doubles(step);
    const double weight = sums_.back();
    if (lane.size() == 1 && weight > 0) return {};
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = weight > 0 ? sums_[i] / weight : 0;
    return {};
  }
  std::vector<CodecState> states() override { return {}; }

 private:
  static std::span<double> doubles(const LaneStep& step) {
    return {reinterpret_cast<double*>(step.values.data()), step.values.size() / sizeof(double)};
  }
  std::vector<double> sums_;  // by weight, and the weight
};

}  // namespace

std::unique_ptr<BucketCodec> make_bucket_codec(const BucketFacts& facts) {
  if (facts.bucket.type == DataType::kFloat64) return std::make_unique<DenseBucket>();
  if (facts.spec.kind == plan::Codec::kPowersgd) return std::make_unique<LowRankBucket>(facts);
  return std::make_unique<SlicedBucket>(facts);
}

}  // namespace tally::train
