#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tally::recipes {

class Gpt;

struct SampleOptions {
  std::int64_t length = 400;  // symbols to generate
  // 1: the model's probabilities; less: likely symbols more often; 0: always the likeliest.
  double temperature = 0.8;
  std::int64_t top_k = 0;  // only the best symbols are drawn; 0: all
  std::uint64_t seed = 1;
};

// Returns the symbol at which `uniform`, from [0, 1), falls in the cumulative probabilities
// softmax(scores / temperature) of the top_k symbols, in the order of symbols. At least one score
// is finite.
std::size_t pick(std::span<const float> scores, const SampleOptions& options, double uniform);

// Generates symbols after `prompt` (at least one), each drawn from the model's prediction. The same
// seed gives the same symbols on the same machine. `on_symbol` is called with each symbol as soon
// as it is drawn.
std::vector<std::int64_t> sample(Gpt& model, std::vector<std::int64_t> prompt,
                                 const SampleOptions& options,
                                 const std::function<void(std::int64_t)>& on_symbol = {});

}  // namespace tally::recipes
