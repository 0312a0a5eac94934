#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "recipes/word2vec/negative_sampler.h"
#include "recipes/word2vec/vocabulary.h"

namespace tally::word2vec {

// One centre word: which of the chunk's inputs predict, and which of its outputs are predicted, the
// right one first.
struct Centre {
  std::uint32_t first_input = 0;
  std::uint32_t input_count = 0;
  std::uint32_t first_output = 0;
  std::uint32_t output_count = 0;
};

// Some centre words that are trained together: what all of them need is known before the first is.
struct Chunk {
  std::vector<Centre> centres;
  std::vector<WordId> inputs;
  std::vector<WordId> outputs;
  // Of the text, those that were left out by chance as well.
  std::uint64_t words = 0;

  void clear();
};

struct ChunkOptions {
  int window = 5;     // at most kMaxWindow
  int negatives = 5;  // at most kMaxNegatives
};
inline constexpr int kMaxWindow = 32;
inline constexpr int kMaxNegatives = 63;

// Most words of a sentence, of those that are not left out.
inline constexpr std::size_t kMaxSentence = 1000;
// A chunk is full when it has so many centres; the sentence under way is finished.
inline constexpr std::size_t kChunkCentres = 1000;

// Turns a range of a text into chunks, pass after pass, as word2vec does: a word stays with its
// keep probability; of those that stay, each is a centre once, its neighbours being those up to
// `window` - b words away in the same sentence, b from 0 to `window` - 1 by chance. All neighbours
// of a centre share its negatives; a draw that is the centre itself is left out. Threads: one.
class ChunkSource final {
 public:
  // All of them stay the caller's. `text` as Vocabulary::encode() has it.
  ChunkSource(std::span<const WordId> text, std::span<const double> keep,
              const NegativeSampler& negatives, const ChunkOptions& options, std::uint64_t seed);

  // The next sentences; false, with nothing, at the end of a pass. The call after that begins
  // another one.
  bool next(Chunk& chunk);
  // Words of a whole pass.
  std::uint64_t words() const { return words_; }

 private:
  void read_sentence(Chunk& chunk);
  void add_centre(std::size_t at, Chunk& chunk);

  const std::span<const WordId> text_;
  const NegativeSampler& negatives_;
  const ChunkOptions options_;
  std::vector<std::uint64_t> keep_below_;  // of 2^63
  std::uint64_t words_ = 0;
  Rng rng_;
  std::size_t at_ = 0;
  std::vector<WordId> sentence_;
};

}  // namespace tally::word2vec
