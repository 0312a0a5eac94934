#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bench/train/model_facts.h"

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

}  // namespace tally::bench::train
