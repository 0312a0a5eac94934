#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/word2vec/text.h"
#include "tally/error.h"

namespace tally::word2vec {

// Numbers words from 0 in the order of insertion: a hash table with open addressing over one block
// of characters, several times as fast as a map of strings. Threads: as a vector.
class WordTable final {
 public:
  WordTable();

  // Returns the number of a known word; nothing for others.
  std::optional<std::uint32_t> find(std::string_view word) const;
  // Returns the number of a word and inserts it if it is new.
  std::uint32_t add(std::string_view word);
  std::size_t size() const { return ends_.size(); }
  // Valid until the next add().
  std::string_view word(std::uint32_t number) const;

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t number = kEmpty;
  };
  static constexpr std::uint32_t kEmpty = 0xFFFFFFFF;

  std::size_t slot_of(std::string_view word, std::uint32_t hash) const;
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::vector<char> text_;
  std::vector<std::size_t> ends_;  // of each word in the text
};

using WordId = std::uint32_t;
// Marks the end of a sentence in an encoded text. No word has this number.
inline constexpr WordId kSentenceEnd = 0xFFFFFFFF;
// Texts with more distinct words are refused.
inline constexpr std::size_t kMaxWords = std::size_t{1} << 26;

// The sufficiently frequent words of a text, the most frequent first; equally frequent words in
// byte order. Threads: safe, because it is immutable.
class Vocabulary final {
 public:
  struct Options {
    Words words = Words::kLower;
    std::uint64_t min_count = 5;
  };
  // kInvalid if no word is left; kExhausted beyond kMaxWords distinct words.
  static Result<Vocabulary> of_text(std::span<const std::byte> text, const Options& options);

  std::size_t size() const { return words_.size(); }
  const std::string& word(WordId id) const { return words_[id]; }
  const std::vector<std::string>& words() const { return words_; }
  std::span<const std::uint64_t> counts() const { return counts_; }
  // Returns how many words of the text are in the vocabulary.
  std::uint64_t total_count() const { return total_; }

  // Returns the text as word numbers without unknown words, with kSentenceEnd at line ends.
  std::vector<WordId> encode(std::span<const std::byte> text) const;

 private:
  Words kind_ = Words::kLower;
  WordTable table_;
  std::vector<std::string> words_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

// Returns the probability with which each occurrence of a word is kept, so that frequent words do
// not dominate: (sqrt(f / (t T)) + 1) (t T) / f, at most 1, where f is the count of the word, T the
// sum of all counts and t is `sample`. All 1 if `sample` is 0.
std::vector<double> keep_probabilities(std::span<const std::uint64_t> counts, double sample);

}  // namespace tally::word2vec
