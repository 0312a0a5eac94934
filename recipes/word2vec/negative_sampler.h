#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "recipes/word2vec/vocabulary.h"

namespace tally::word2vec {

// Draws words with probabilities proportional to count^0.75, exact up to 2^-32, by the alias method
// (Walker 1977; Vose 1991): one draw reads one entry. Threads: safe.
class NegativeSampler final {
 public:
  // At least one count; none is 0.
  explicit NegativeSampler(std::span<const std::uint64_t> counts);

  WordId draw(Rng& rng) const {
    const std::uint64_t random = rng.next();
    const std::uint64_t place = ((random >> 32) * entries_.size()) >> 32;
    const Entry& entry = entries_[place];
    return static_cast<std::uint32_t>(random) < entry.threshold ? static_cast<WordId>(place)
                                                                : entry.other;
  }

 private:
  // The word of this number below the threshold, the other word above.
  struct Entry {
    std::uint32_t threshold = 0;
    WordId other = 0;
  };
  std::vector<Entry> entries_;
};

}  // namespace tally::word2vec
