#include "recipes/word2vec/negative_sampler.h"

#include <cmath>

#include "base/check.h"

namespace tally::word2vec {
namespace {

constexpr double kExponent = 0.75;
constexpr double kRange = 4294967296.0;

}  // namespace

// Every entry has room for the mean weight. A word with less fills its own entry in part, and a
// word with more fills the rest of it.
NegativeSampler::NegativeSampler(std::span<const std::uint64_t> counts) : entries_(counts.size()) {
  TALLY_CHECK(!counts.empty());
  std::vector<double> weights;
  double sum = 0;
  for (const std::uint64_t count : counts) {
    weights.push_back(std::pow(static_cast<double>(count), kExponent));
    sum += weights.back();
  }
  std::vector<WordId> small, large;
  for (WordId id = 0; id < weights.size(); ++id) {
    weights[id] *= static_cast<double>(weights.size()) / sum;
    (weights[id] < 1 ? small : large).push_back(id);
    // Entries that rounding leaves over are full.
    entries_[id] = {.threshold = 0xFFFFFFFF, .other = id};
  }
  while (!small.empty() && !large.empty()) {
    const WordId less = small.back();
    const WordId more = large.back();
    small.pop_back();
    entries_[less] = {.threshold = static_cast<std::uint32_t>(weights[less] * kRange),
                      .other = more};
    weights[more] -= 1 - weights[less];
    if (weights[more] >= 1) continue;
    large.pop_back();
    small.push_back(more);
  }
}

}  // namespace tally::word2vec
