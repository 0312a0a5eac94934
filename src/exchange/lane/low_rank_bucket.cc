#include "exchange/lane/low_rank_bucket.h"

#include <algorithm>

#include "base/check.h"
#include "kernel/array/weighted_sum.h"

// A step of powersgd over n members with weights w, for each matrix M (see
// codec/lowrank/powersgd.h):
//   first()    P = project(M), scaled by w, is summed over the lane in sums_, whose last element is
//              the sum of weights.
//   second()   P / sum of weights -> Q = correlate(P), scaled by w, is summed in factors_.
//   third()    The mean of M is rebuilt from the mean factors P and Q.
// A lane of one member skips the scaling.
namespace tally::exchange {
namespace {

void scale(std::span<float> values, double factor) {
  kernel::scale(values.data(), values.size(), static_cast<float>(factor));
}

}  // namespace

LowRankBucket::LowRankBucket(const BucketFacts& facts)
    : local_(facts.local), feedback_(facts.spec.feedback), is_first_(facts.self.number == 0) {
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

std::vector<LowRankBucket::Part*> LowRankBucket::used_parts(const LaneStep& step) {
  std::vector<Part*> used;
  for (Part& part : parts_)
    if (step.used[part.parameter] != 0) used.push_back(&part);
  return used;
}

Result<Delivery> LowRankBucket::first(Lane& lane, const LaneStep& step) {
  const std::vector<Part*> parts = used_parts(step);
  std::size_t count = 1;
  for (const Part* part : parts) count += part->count();
  sums_.assign(count, 0.0F);
  sums_.back() = static_cast<float>(step.weight);
  std::size_t at = 0;
  for (Part* part : parts) {
    const std::span<float> sum = std::span(sums_).subspan(at, part->count());
    at += sum.size();
    if (step.weight == 0) continue;
    const std::span<const float> values = values_of(*part, step);
    if (part->matrix) {
      part->matrix->project(values, sum);
    } else {
      std::copy(values.begin(), values.end(), sum.begin());
    }
    if (lane.size() > 1) scale(sum, step.weight);
  }
  return lane.sum(std::span(sums_));
}

Result<Delivery> LowRankBucket::second(Lane& lane, const LaneStep& step) {
  const std::vector<Part*> parts = used_parts(step);
  const double weight = sums_.back();
  const bool is_alone = lane.size() == 1;
  share_ = weight > 0 && !is_alone ? 1 / weight : 1;
  std::size_t factors = 0;
  for (const Part* part : parts) factors += part->matrix ? part->matrix->q_count() : 0;
  factors_.resize(factors);
  std::size_t at = 0;
  std::size_t factor_at = 0;
  for (Part* part : parts) {
    const std::span<float> sum = std::span(sums_).subspan(at, part->count());
    at += sum.size();
    scale(sum, share_);
    if (!part->matrix) {
      std::copy(sum.begin(), sum.end(), values_of(*part, step).begin());
      continue;
    }
    const auto q = std::span(factors_).subspan(factor_at, part->matrix->q_count());
    factor_at += q.size();
    part->matrix->correlate(sum, q);
    if (!is_alone) scale(q, step.weight);
  }
  return lane.sum(std::span(factors_));
}

// sums_ holds means over all members, factors_ sums.
Result<void> LowRankBucket::third(const Lane& /*lane*/, const LaneStep& step) {
  scale(factors_, share_);
  std::size_t at = 0;
  std::size_t factor_at = 0;
  for (Part& part : parts_) {
    const std::span<float> values = values_of(part, step);
    if (step.used[part.parameter] == 0) {
      std::fill(values.begin(), values.end(), 0.0F);
      continue;
    }
    const auto p = std::span<const float>(sums_).subspan(at, part.count());
    at += p.size();
    if (!part.matrix) continue;
    const auto q = std::span<const float>(factors_).subspan(factor_at, part.matrix->q_count());
    factor_at += q.size();
    part.matrix->finish(p, q, values);
    const std::span<float> residual = part.matrix->residual();
    if (!feedback_) std::fill(residual.begin(), residual.end(), 0.0F);
  }
  return {};
}

std::vector<CodecState> LowRankBucket::states() {
  std::vector<CodecState> states;
  for (Part& part : parts_) {
    if (!part.matrix) continue;
    if (feedback_)
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
