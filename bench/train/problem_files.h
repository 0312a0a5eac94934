#pragma once
#include <cstdint>
#include <filesystem>

#include "bench/train/model_facts.h"
#include "tally/error.h"

namespace tally::bench::train {

// Writes the problem for all contenders as files, so that it is bitwise equal in both languages:
//   problem.json      the facts, and names and shapes of the parameters in order
//   weights           consecutive initial parameters, float32
//   inputs, targets   in the order of make_samples(): float32 or int64, and int64
Result<void> write_problem(const std::filesystem::path& folder, const ModelFacts& facts, int ranks,
                           std::uint64_t seed);

}  // namespace tally::bench::train
