#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

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

}  // namespace tally::word2vec
