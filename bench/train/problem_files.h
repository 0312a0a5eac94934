#pragma once
#include <cstdint>
#include <filesystem>

#include "bench/train/model_facts.h"
#include "tally/error.h"

namespace tally::bench::train {

// Writes what all contenders train as files, so that it is the same to the bit in both languages:
//   problem.json  the facts, and names and shapes of the parameters in order
//   weights       initial parameters behind each other, float32
//   inputs, targets   as make_samples() orders them: float32 or int64, and int64
Result<void> write_problem(const std::filesystem::path& folder, const ModelFacts& facts, int ranks,
                           std::uint64_t seed);

}  // namespace tally::bench::train
