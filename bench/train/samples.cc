#include "bench/train/samples.h"

#include "base/rng.h"

namespace tally::bench::train {
namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

// Each class has a pattern: values are shifted up or down by a half.
void add_image(const ModelFacts& facts, std::int64_t label, Rng& rng, std::vector<float>& out) {
  Rng pattern(static_cast<std::uint64_t>(label) * 7919 + 1);
  const std::int64_t count = product(facts.input);
  for (std::int64_t i = 0; i < count; ++i) {
    // The sum of four uniform numbers is approximately normal, with a variance of 1/3.
    const double noise = rng.uniform() + rng.uniform() + rng.uniform() + rng.uniform() - 2;
    const double shift = (pattern.next() & 1) != 0 ? 0.5 : -0.5;
    out.push_back(static_cast<float>(noise + shift));
  }
}

// The next symbol is one of three that depend on this one.
void add_text(const ModelFacts& facts, Rng& rng, Samples& samples) {
  const auto symbols = static_cast<std::uint64_t>(facts.classes);
  std::uint64_t symbol = rng.below(symbols);
  for (std::int64_t i = 0; i < facts.input.front(); ++i) {
    samples.symbols.push_back(static_cast<std::int64_t>(symbol));
    symbol = (symbol * 7 + 3 + rng.below(3)) % symbols;
    samples.targets.push_back(static_cast<std::int64_t>(symbol));
  }
}

}  // namespace

Samples make_samples(const ModelFacts& facts, int ranks, std::uint64_t seed) {
  Rng rng(seed);
  Samples samples;
  const std::int64_t count = kBatches * ranks * facts.batch;
  for (std::int64_t i = 0; i < count; ++i) {
    if (facts.family == Family::kGpt) {
      add_text(facts, rng, samples);
      continue;
    }
    const auto label =
        static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(facts.classes)));
    add_image(facts, label, rng, samples.inputs);
    samples.targets.push_back(label);
  }
  return samples;
}

}  // namespace tally::bench::train
