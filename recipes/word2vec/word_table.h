#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tally::word2vec {

// Words to numbers from 0 on, in the order of their coming: a hash table with open addresses over
// one block of characters, several times as fast as a map of strings. Threads: as a vector.
class WordTable final {
 public:
  WordTable();

  // The number of a word that is there; nothing for others.
  std::optional<std::uint32_t> find(std::string_view word) const;
  // The same, and puts it there if it is not.
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

  std::vector<Slot> slots_;  // a power of two of them, at most half full
  std::vector<char> text_;
  std::vector<std::size_t> ends_;  // of each word in the text
};

}  // namespace tally::word2vec
