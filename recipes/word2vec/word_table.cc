#include "recipes/word2vec/word_table.h"

#include "base/check.h"

namespace tally::word2vec {
namespace {

constexpr std::size_t kFirstSlots = 1 << 12;

// FNV-1a (Fowler, Noll, Vo), its upper half mixed into the lower.
std::uint32_t hash_of(std::string_view word) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char letter : word) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 0x100000001B3ULL;
  }
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

}  // namespace

WordTable::WordTable() : slots_(kFirstSlots) {}

std::string_view WordTable::word(std::uint32_t number) const {
  const std::size_t begin = number == 0 ? 0 : ends_[number - 1];
  return {text_.data() + begin, ends_[number] - begin};
}

// Returns the slot of the word, or the free slot for it.
std::size_t WordTable::slot_of(std::string_view word, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash & mask;
  while (slots_[slot].number != kEmpty &&
         (slots_[slot].hash != hash || this->word(slots_[slot].number) != word))
    slot = (slot + 1) & mask;
  return slot;
}

std::optional<std::uint32_t> WordTable::find(std::string_view word) const {
  const std::uint32_t number = slots_[slot_of(word, hash_of(word))].number;
  return number == kEmpty ? std::nullopt : std::optional(number);
}

std::uint32_t WordTable::add(std::string_view word) {
  const std::uint32_t hash = hash_of(word);
  std::size_t slot = slot_of(word, hash);
  if (slots_[slot].number != kEmpty) return slots_[slot].number;
  TALLY_CHECK(ends_.size() < kEmpty);
  if (2 * (ends_.size() + 1) > slots_.size()) {
    grow();
    slot = slot_of(word, hash);
  }
  const auto number = static_cast<std::uint32_t>(ends_.size());
  text_.insert(text_.end(), word.begin(), word.end());
  ends_.push_back(text_.size());
  slots_[slot] = {.hash = hash, .number = number};
  return number;
}

void WordTable::grow() {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(2 * old.size(), Slot{});
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& taken : old) {
    if (taken.number == kEmpty) continue;
    std::size_t slot = taken.hash & mask;
    while (slots_[slot].number != kEmpty) slot = (slot + 1) & mask;
    slots_[slot] = taken;
  }
}

}  // namespace tally::word2vec
