#include "exchange/lane/plain_bucket.h"

namespace tally::exchange {

PlainBucket::PlainBucket(const BucketFacts& facts)
    : type_(facts.bucket.type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32),
      scatters_(facts.scatters) {
  for (int member = 0; member < facts.self.of; ++member)
    counts_.push_back(part_of(facts.local, {.parts = facts.self.of, .index = member}).count());
  if (!scatters_)
    own_.resize(counts_[static_cast<std::size_t>(facts.self.number)] * size_of(type_));
}

Result<Delivery> PlainBucket::first(Lane& lane, const LaneStep& step) {
  return lane.sum_parts(step.values, {.type = type_, .counts = counts_},
                        scatters_ ? step.own : std::span(own_));
}

Result<Delivery> PlainBucket::second(Lane& lane, const LaneStep& step) {
  if (scatters_) return Delivery{};
  return lane.gather_parts(own_, {.type = type_, .counts = counts_}, step.values);
}

}  // namespace tally::exchange
