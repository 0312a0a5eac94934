#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tally::word2vec {

// What a word is.
enum class Words : std::uint8_t {
  // Letters, lower-cased, with apostrophes inside; everything else separates. Bytes beyond ASCII
  // are letters as they are.
  kLower,
  // What stands between white space.
  kPlain,
};

// Longer ones are no words, and left out.
inline constexpr std::size_t kMaxWordBytes = 100;

// Walks through a text word by word. The end of a line ends a sentence, and so does what next() is
// asked after the last.
class WordReader final {
 public:
  WordReader(std::span<const std::byte> text, Words words) : text_(text), words_(words) {}

  enum class Item : std::uint8_t { kWord, kLineEnd, kEnd };
  // After kWord, word() has it until the next call.
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

// Part `part` of `parts` of a text, about equally long; none begins or ends inside a word.
std::span<const std::byte> part_of(std::span<const std::byte> text, std::size_t part,
                                   std::size_t parts);

// The words of a text with one space between them and a new line after every `words_per_line`,
// which is positive: one form for programs that cut texts differently.
std::string normalised(std::span<const std::byte> text, Words words, std::size_t words_per_line);

}  // namespace tally::word2vec
