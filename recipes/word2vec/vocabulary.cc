#include "recipes/word2vec/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/errors.h"

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

namespace {

struct Counted {
  WordTable table;
  std::vector<std::uint64_t> counts;
};

Result<Counted> count_words(std::span<const std::byte> text, Words words) {
  Counted counted;
  WordReader reader(text, words);
  for (;;) {
    const WordReader::Item item = reader.next();
    if (item == WordReader::Item::kEnd) return counted;
    if (item != WordReader::Item::kWord) continue;
    const std::uint32_t number = counted.table.add(reader.word());
    if (number == counted.counts.size()) counted.counts.push_back(0);
    ++counted.counts[number];
    if (counted.counts.size() > kMaxWords)
      return make_error(ErrorCode::kExhausted, "more than {} different words", kMaxWords);
  }
}

}  // namespace

Result<Vocabulary> Vocabulary::of_text(std::span<const std::byte> text, const Options& options) {
  TALLY_TRY(const Counted counted, count_words(text, options.words));
  std::vector<std::uint32_t> kept;
  for (std::uint32_t number = 0; number < counted.counts.size(); ++number)
    if (counted.counts[number] >= options.min_count) kept.push_back(number);
  if (kept.empty())
    return invalid("no word is there {} times or more (--min-count)", options.min_count);
  std::sort(kept.begin(), kept.end(), [&counted](std::uint32_t a, std::uint32_t b) {
    if (counted.counts[a] != counted.counts[b]) return counted.counts[a] > counted.counts[b];
    return counted.table.word(a) < counted.table.word(b);
  });
  Vocabulary vocabulary;
  vocabulary.kind_ = options.words;
  for (const std::uint32_t number : kept) {
    vocabulary.table_.add(counted.table.word(number));
    vocabulary.words_.emplace_back(counted.table.word(number));
    vocabulary.counts_.push_back(counted.counts[number]);
    vocabulary.total_ += counted.counts[number];
  }
  return vocabulary;
}

std::vector<WordId> Vocabulary::encode(std::span<const std::byte> text) const {
  std::vector<WordId> ids;
  WordReader reader(text, kind_);
  for (;;) {
    const WordReader::Item item = reader.next();
    if (item == WordReader::Item::kEnd) return ids;
    if (item == WordReader::Item::kWord) {
      if (const auto id = table_.find(reader.word())) ids.push_back(*id);
    } else if (!ids.empty() && ids.back() != kSentenceEnd) {
      ids.push_back(kSentenceEnd);
    }
  }
}

std::vector<double> keep_probabilities(std::span<const std::uint64_t> counts, double sample) {
  std::vector<double> keep(counts.size(), 1);
  if (sample <= 0) return keep;
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = sample * total;
    const auto count = static_cast<double>(counts[i]);
    keep[i] = std::min(1.0, (std::sqrt(count / expected) + 1) * expected / count);
  }
  return keep;
}

}  // namespace tally::word2vec
