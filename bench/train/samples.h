#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bench/train/model_facts.h"

namespace tally::bench::train {

// How many different batches each rank has; training goes through them again and again.
inline constexpr std::int64_t kBatches = 8;

// Made-up samples with something to learn in them. Batch by batch, in each rank by rank, in it
// sample by sample: a global batch lies together, and rank r takes the r-th part of it.
struct Samples {
  std::vector<float> inputs;          // mlp, cnn: around 0, by class
  std::vector<std::int64_t> symbols;  // gpt: each follows from the one before, up to some chance
  std::vector<std::int64_t> targets;
};

// The same for the same arguments on every machine. Pure.
Samples make_samples(const ModelFacts& facts, int ranks, std::uint64_t seed);

}  // namespace tally::bench::train
