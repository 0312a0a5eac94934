#include "recipes/word2vec/chunk.h"

#include <algorithm>
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

namespace {

constexpr double kKeepRange = 9223372036854775808.0;  // 2^63

}  // namespace

void Chunk::clear() {
  centres.clear();
  inputs.clear();
  outputs.clear();
  words = 0;
}

ChunkSource::ChunkSource(std::span<const WordId> text, std::span<const double> keep,
                         const NegativeSampler& negatives, const ChunkOptions& options,
                         std::uint64_t seed)
    : text_(text), negatives_(negatives), options_(options), rng_(seed) {
  TALLY_CHECK(options.window >= 1 && options.window <= kMaxWindow);
  TALLY_CHECK(options.negatives >= 0 && options.negatives <= kMaxNegatives);
  for (const double probability : keep)
    keep_below_.push_back(static_cast<std::uint64_t>(probability * kKeepRange));
  words_ =
      text.size() - static_cast<std::uint64_t>(std::count(text.begin(), text.end(), kSentenceEnd));
}

bool ChunkSource::next(Chunk& chunk) {
  chunk.clear();
  if (at_ == text_.size()) {
    at_ = 0;
    return false;
  }
  while (at_ < text_.size() && chunk.centres.size() < kChunkCentres) {
    read_sentence(chunk);
    for (std::size_t at = 0; at < sentence_.size(); ++at) add_centre(at, chunk);
  }
  return true;
}

void ChunkSource::read_sentence(Chunk& chunk) {
  constexpr auto kCertain = static_cast<std::uint64_t>(kKeepRange);
  sentence_.clear();
  while (at_ < text_.size() && sentence_.size() < kMaxSentence) {
    const WordId id = text_[at_++];
    if (id == kSentenceEnd) return;
    ++chunk.words;
    const std::uint64_t limit = keep_below_[id];
    if (limit >= kCertain || (rng_.next() >> 1) < limit) sentence_.push_back(id);
  }
}

void ChunkSource::add_centre(std::size_t at, Chunk& chunk) {
  const auto window = static_cast<std::size_t>(options_.window);
  const std::size_t reach = window - rng_.below(window);
  const std::size_t begin = at > reach ? at - reach : 0;
  const std::size_t end = std::min(sentence_.size(), at + reach + 1);
  if (end - begin == 1) return;
  Centre centre{.first_input = static_cast<std::uint32_t>(chunk.inputs.size()),
                .input_count = static_cast<std::uint32_t>(end - begin - 1),
                .first_output = static_cast<std::uint32_t>(chunk.outputs.size())};
  for (std::size_t i = begin; i < end; ++i)
    if (i != at) chunk.inputs.push_back(sentence_[i]);
  const WordId right = sentence_[at];
  chunk.outputs.push_back(right);
  for (int n = 0; n < options_.negatives; ++n) {
    const WordId wrong = negatives_.draw(rng_);
    if (wrong != right) chunk.outputs.push_back(wrong);
  }
  centre.output_count = static_cast<std::uint32_t>(chunk.outputs.size()) - centre.first_output;
  chunk.centres.push_back(centre);
}

}  // namespace tally::word2vec
