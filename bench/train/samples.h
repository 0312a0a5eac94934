#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/train/model_facts.h"
#include "tally/error.h"

namespace tally::bench::train {

// Number of different batches of each rank; training repeats them.
inline constexpr std::int64_t kBatches = 8;

// Generated samples that can be learned, ordered by batch, then rank, then sample: a global batch
// is contiguous, and rank r takes its r-th part.
struct Samples {
  std::vector<float> inputs;          // mlp, cnn: around 0, by class
  std::vector<std::int64_t> symbols;  // gpt: each depends on the one before, with some randomness
  std::vector<std::int64_t> targets;
};

// Returns the same samples for the same arguments on every machine. Pure.
Samples make_samples(const ModelFacts& facts, int ranks, std::uint64_t seed);

// Writes the problem for all contenders as files, so that it is bitwise equal in both languages:
//   problem.json      the facts, and names and shapes of the parameters in order
//   weights           consecutive initial parameters, float32
//   inputs, targets   in the order of make_samples(): float32 or int64, and int64
Result<void> write_problem(const std::filesystem::path& folder, const ModelFacts& facts, int ranks,
                           std::uint64_t seed);

}  // namespace tally::bench::train
