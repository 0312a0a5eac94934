#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "recipes/word2vec/text.h"
#include "recipes/word2vec/word_table.h"
#include "tally/error.h"

namespace tally::word2vec {

using WordId = std::uint32_t;
// In a corpus: a sentence ends here. No word has this number.
inline constexpr WordId kSentenceEnd = 0xFFFFFFFF;
// More different words in a text are refused.
inline constexpr std::size_t kMaxWords = std::size_t{1} << 26;

// The words of a text that are there often enough, the most frequent first; equally frequent ones
// in the order of their bytes. Threads: safe, for it never changes.
class Vocabulary final {
 public:
  struct Options {
    Words words = Words::kLower;
    std::uint64_t min_count = 5;
  };
  // kInvalid if no word is left; kExhausted beyond kMaxWords different words.
  static Result<Vocabulary> of_text(std::span<const std::byte> text, const Options& options);

  std::size_t size() const { return words_.size(); }
  const std::string& word(WordId id) const { return words_[id]; }
  const std::vector<std::string>& words() const { return words_; }
  std::span<const std::uint64_t> counts() const { return counts_; }
  // How many words of the text are in the vocabulary.
  std::uint64_t total_count() const { return total_; }

  // The text as numbers, other words left out, with kSentenceEnd at the ends of lines.
  std::vector<WordId> encode(std::span<const std::byte> text) const;

 private:
  Words kind_ = Words::kLower;
  WordTable table_;
  std::vector<std::string> words_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

// With which probability each word is kept when it comes up in the text, so that frequent ones do
// not take all the time: (sqrt(f / (t T)) + 1) (t T) / f, at most 1, where f is its count, T the
// sum of all counts and t is `sample`. All 1 if that is 0.
std::vector<double> keep_probabilities(std::span<const std::uint64_t> counts, double sample);

}  // namespace tally::word2vec
