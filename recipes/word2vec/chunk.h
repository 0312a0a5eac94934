#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "recipes/word2vec/vocabulary.h"
#include "tally/error.h"

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

// One centre word: the inputs of the chunk that predict, and the outputs that are predicted, the
// right one first.
struct Centre {
  std::uint32_t first_input = 0;
  std::uint32_t input_count = 0;
  std::uint32_t first_output = 0;
  std::uint32_t output_count = 0;
};

// Centre words that are trained together, so that all rows they need are known beforehand.
struct Chunk {
  std::vector<Centre> centres;
  std::vector<WordId> inputs;
  std::vector<WordId> outputs;
  // Words of the text, including those that were randomly left out.
  std::uint64_t words = 0;

  void clear();
};

struct ChunkOptions {
  int window = 5;     // at most kMaxWindow
  int negatives = 5;  // at most kMaxNegatives
};
inline constexpr int kMaxWindow = 32;
inline constexpr int kMaxNegatives = 63;

// Longest sentence, in words that are kept.
inline constexpr std::size_t kMaxSentence = 1000;
// A chunk is complete with this many centres; the current sentence is finished.
inline constexpr std::size_t kChunkCentres = 1000;

// Turns a range of a text into chunks, pass after pass, as word2vec does: a word is kept with its
// keep probability. Each kept word is a centre once; its neighbours are up to `window` - b words
// away in the same sentence, with a random b from 0 to `window` - 1. All neighbours of a centre
// share its negatives; a draw that is the centre itself is left out. Threads: one.
class ChunkSource final {
 public:
  // The caller owns all arguments. `text` as returned by Vocabulary::encode().
  ChunkSource(std::span<const WordId> text, std::span<const double> keep,
              const NegativeSampler& negatives, const ChunkOptions& options, std::uint64_t seed);

  // Returns the next sentences; false, with an empty chunk, at the end of a pass. The next call
  // begins another pass.
  bool next(Chunk& chunk);
  // Returns the words of a whole pass.
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

// The rows that a chunk names: row n of a table begins at n * stride. Aligned to 64 bytes, padded
// with zeros (see kernel/skipgram/skipgram.h).
struct RowTables {
  float* inputs = nullptr;
  float* outputs = nullptr;
  std::size_t stride = 0;
};

// Storage of the rows: memory that all workers of a host share, or parameter servers. Threads: one.
class Rows {
 public:
  virtual ~Rows() = default;

  // Makes the rows of a chunk ready for reading and writing. May replace the words of the chunk by
  // row numbers. One chunk at a time.
  virtual Result<RowTables> fetch(Chunk& chunk) = 0;
  // The rows of the last fetch() have been trained.
  virtual Result<void> commit() = 0;
};

}  // namespace tally::word2vec
