#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tally::recipes {

class Gpt;

struct SampleOptions {
  std::int64_t length = 400;  // symbols to write
  double temperature = 0.8;   // above 0; 1: as the model scores them, less: likelier ones oftener
  std::int64_t top_k = 0;     // only that many best symbols may come; 0: all
  std::uint64_t seed = 1;
};

// The symbol at which `uniform`, from [0, 1), lands among the probabilities softmax(scores /
// temperature) of the top_k best ones. Symbols are gone through in their order. At least one score
// is finite.
std::size_t pick(std::span<const float> scores, const SampleOptions& options, double uniform);

// Symbols that follow `prompt` (one at least), each drawn from what the model says of those before
// it. The same seed gives the same symbols on the same machine.
std::vector<std::int64_t> sample(Gpt& model, std::vector<std::int64_t> prompt,
                                 const SampleOptions& options);

}  // namespace tally::recipes
