#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tally::word2vec {

// The definition of a word.
enum class Words : std::uint8_t {
  // Letters in lower case, with apostrophes inside; everything else separates. Bytes beyond ASCII
  // are letters.
  kLower,
  // Text between white space.
  kPlain,
};

// Longer words are left out.
inline constexpr std::size_t kMaxWordBytes = 100;

// Reads a text word by word. The end of a line or of the text ends a sentence.
class WordReader final {
 public:
  WordReader(std::span<const std::byte> text, Words words) : text_(text), words_(words) {}

  enum class Item : std::uint8_t { kWord, kLineEnd, kEnd };
  // After kWord, word() returns the word until the next call.
  Item next();
  std::string_view word() const { return {buffer_, size_}; }

 private:
  bool is_part(unsigned char byte) const;

  std::span<const std::byte> text_;
  const Words words_;
  std::size_t at_ = 0;
  char buffer_[kMaxWordBytes] = {};
  std::size_t size_ = 0;
};

// Returns part `part` of `parts` of a text, about equally long; no part begins or ends inside a
// word.
std::span<const std::byte> part_of(std::span<const std::byte> text, std::size_t part,
                                   std::size_t parts);

// Returns the words of a text with one space between them and a newline after every
// `words_per_line` words: one form for programs that split texts differently.
std::string normalised(std::span<const std::byte> text, Words words, std::size_t words_per_line);

}  // namespace tally::word2vec
