#include "exchange/lane/low_rank_bucket.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tally::exchange {

LowRankBucket::LowRankBucket(const BucketFacts& facts)
    : spec_(facts.spec), local_(facts.local), is_first_(facts.self.number == 0) {
  for (const BucketLayout::Entry& entry : facts.bucket.entries) {
    if (entry.range.end <= local_.begin || entry.range.begin >= local_.end) continue;
    TALLY_CHECK(local_.begin <= entry.range.begin && entry.range.end <= local_.end);
    Part part{.parameter = entry.parameter, .range = entry.range};
    const ParameterInfo& info = facts.parameters[entry.parameter];
    if (is_compressed(facts.spec, info)) {
      const Matrix matrix = matrix_of(facts.spec, info);
      part.matrix = std::make_unique<codec::PowerSgd>(codec::PowerSgd::Options{
          .rows = matrix.rows,
          .columns = matrix.columns,
          .rank = facts.spec.rank,
          .seed = factor_seed(facts.seed, first_element_of(facts.parameters, entry.parameter))});
    }
    parts_.push_back(std::move(part));
  }
}

std::span<float> LowRankBucket::values_of(const Part& part, const LaneStep& step) const {
  float* const values = reinterpret_cast<float*>(step.values.data());
  return {values + (part.range.begin - local_.begin), part.range.count()};
}

Result<Delivery> LowRankBucket::first(Lane& lane, const LaneStep& step) {
  std::vector<LowRankRound<float>::Item> items;
  const bool is_plain = codec::is_plain_at(spec_, step.step);
  for (const Part& part : parts_)
    if (step.used[part.parameter] != 0)
      items.push_back(
          {.matrix = is_plain ? nullptr : part.matrix.get(), .gradient = values_of(part, step)});
  round_.project(std::move(items),
                 {.weight = step.weight, .is_alone = lane.size() == 1, .feedback = spec_.feedback});
  return lane.sum(round_.left());
}

Result<Delivery> LowRankBucket::second(Lane& lane, const LaneStep& /*step*/) {
  round_.correlate();
  return lane.sum(round_.right());
}

Result<void> LowRankBucket::third(const Lane& /*lane*/, const LaneStep& step) {
  round_.finish();
  for (const Part& part : parts_) {
    const std::span<float> values = values_of(part, step);
    if (step.used[part.parameter] == 0) std::fill(values.begin(), values.end(), 0.0F);
  }
  return {};
}

std::vector<CodecState> LowRankBucket::states() {
  std::vector<CodecState> states;
  for (Part& part : parts_) {
    if (!part.matrix) continue;
    if (spec_.feedback)
      states.push_back(
          {.parameter = part.parameter, .name = "residual", .values = part.matrix->residual()});
    states.push_back({.parameter = part.parameter,
                      .name = "q",
                      .is_of_sender = false,
                      .is_saved_here = is_first_,
                      .values = part.matrix->q()});
  }
  return states;
}

}  // namespace tally::exchange
