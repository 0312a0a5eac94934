#include "base/nearest_word.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"

namespace tally {
namespace {

// Only the beginning of a word is compared, so that long input costs little.
constexpr std::size_t kMostLetters = 64;
// A shorter beginning of a word says too little.
constexpr std::size_t kFewestLetters = 3;

// Optimal string alignment: the last three rows of the table of distances between prefixes.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = last;
    last = row;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({change, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known) {
  TALLY_CHECK(!known.empty());
  word = word.substr(0, kMostLetters);
  return *std::min_element(known.begin(), known.end(), [word](auto a, auto b) {
    return distance(word, a) < distance(word, b);
  });
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  if (word.empty() || word.size() > kMostLetters || known.empty()) return "";
  std::string_view guess = nearest_word(word, known);
  const bool close = 3 * distance(word, guess) <= std::max(word.size(), guess.size());
  if (!close) {
    const auto longer = std::find_if(known.begin(), known.end(), [word](std::string_view full) {
      return word.size() >= kFewestLetters && full.starts_with(word);
    });
    if (longer == known.end()) return "";
    guess = *longer;
  }
  return fmt::format("; did you mean {}?", guess);
}

std::string unknown_word(std::string_view word, std::string_view what,
                         std::span<const std::string_view> known) {
  return fmt::format("'{}' is no {}; nearest: {} (known: {})", word, what,
                     nearest_word(word, known), fmt::join(known, ", "));
}

}  // namespace tally
