#include "apps/tally/linear_training.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "tally/accumulator.h"

namespace tally::app {
namespace {

double largest(std::span<const float> values) {
  double result = 0;
  for (const float value : values) {
    const double size = std::abs(static_cast<double>(value));
    if (std::isnan(size)) return size;
    result = std::max(result, size);
  }
  return result;
}

}  // namespace

Result<LinearOutcome> train_linear(Job& job, const LinearTraining& training,
                                   const std::function<void(const LinearOutcome&)>& told) {
  const LinearData data =
      generate(training.spec, shard_of(training.spec.samples, job.rank(), job.size()));
  LinearOutcome outcome{.weights = std::vector<double>(data.columns, 0.0)};
  std::vector<float> gradient(data.columns);
  TALLY_TRY(const std::unique_ptr<Accumulator> accumulator,
            Accumulator::make(job.world(), {.size = data.columns}));
  const auto apply = [&](std::span<const float> average) {
    outcome.largest_gradient = largest(average);
    for (std::size_t k = 0; k < average.size(); ++k) {
      outcome.weights[k] -= training.rate * average[k];
    }
    ++outcome.steps;
  };
  while (outcome.steps < training.max_steps) {
    mean_gradient(data, outcome.weights, gradient);
    TALLY_TRY(accumulator->add(
        {.gradient = gradient, .samples = data.samples(), .version = accumulator->version()}));
    TALLY_TRY(accumulator->complete(apply));
    if (!std::isfinite(outcome.largest_gradient)) {
      return Error{
          .code = ErrorCode::kInvalid,
          .message = fmt::format("the weights ran away by step {}: a rate of {} is too high",
                                 outcome.steps, training.rate)};
    }
    job.count_step(data.samples());
    told(outcome);
    if (outcome.largest_gradient < training.enough) break;
  }
  return outcome;
}

}  // namespace tally::app
