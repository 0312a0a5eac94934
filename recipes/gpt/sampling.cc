#include "recipes/gpt/sampling.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/rng.h"
#include "recipes/gpt/model.h"

namespace tally::recipes {
namespace {

// Returns the lowest score among the top_k; all scores count if there are no more than that.
float threshold(std::span<const float> scores, std::int64_t top_k) {
  const auto kept = static_cast<std::size_t>(top_k);
  if (top_k <= 0 || kept >= scores.size()) return *std::min_element(scores.begin(), scores.end());
  std::vector<float> sorted(scores.begin(), scores.end());
  const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(kept - 1);
  std::nth_element(sorted.begin(), last, sorted.end(), std::greater<>());
  return *last;
}

}  // namespace

std::size_t pick(std::span<const float> scores, const SampleOptions& options, double uniform) {
  TALLY_CHECK(!scores.empty() && options.temperature >= 0);
  if (options.temperature == 0)
    return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) -
                                    scores.begin());
  const float least = threshold(scores, options.top_k);
  const double best = *std::max_element(scores.begin(), scores.end());
  std::vector<double> weights(scores.size());
  double sum = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] >= least) weights[i] = std::exp((scores[i] - best) / options.temperature);
    sum += weights[i];
  }
  double left = uniform * sum;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    chosen = i;
    left -= weights[i];
    if (left < 0) break;
  }
  return chosen;
}

std::vector<std::int64_t> sample(Gpt& model, std::vector<std::int64_t> prompt,
                                 const SampleOptions& options,
                                 const std::function<void(std::int64_t)>& on_symbol) {
  const torch::NoGradGuard no_gradients;
  const bool trained = model.is_training();
  model.eval();
  const at::Device device = model.parameters().front().device();
  const auto context = static_cast<std::size_t>(model.shape().context);
  Rng rng(options.seed);
  std::vector<std::int64_t> written;
  for (std::int64_t i = 0; i < options.length; ++i) {
    if (prompt.size() > context)
      prompt.erase(prompt.begin(), prompt.end() - static_cast<std::ptrdiff_t>(context));
    const auto length = static_cast<std::int64_t>(prompt.size());
    const at::Tensor input = torch::from_blob(prompt.data(), {1, length}, at::kLong).to(device);
    const at::Tensor scores =
        model.forward(input)[0][length - 1].to(at::kCPU, at::kFloat).contiguous();
    const std::span<const float> row(scores.data_ptr<float>(),
                                     static_cast<std::size_t>(scores.numel()));
    prompt.push_back(static_cast<std::int64_t>(pick(row, options, rng.uniform())));
    written.push_back(prompt.back());
    if (on_symbol) on_symbol(prompt.back());
  }
  model.train(trained);
  return written;
}

}  // namespace tally::recipes
