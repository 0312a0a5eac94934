#include "recipes/word2vec/questions.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace tally::word2vec {
namespace {

std::string lower_text(std::string_view word) {
  std::string result(word);
  for (char& letter : result)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return result;
}

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r\v\f";
  std::vector<std::string_view> words;
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(kSpace), line.size()));
    if (line.empty()) return words;
    words.push_back(line.substr(0, line.find_first_of(kSpace)));
    line.remove_prefix(words.back().size());
  }
}

Error wrong_line(const std::string& name, std::size_t number, std::string_view expected) {
  return {.code = ErrorCode::kCorrupt,
          .message = fmt::format("{}: line {}: expected {}", name, number, expected)};
}

// Calls `take` with the words of each non-empty line and its number from 1; ends with the first
// error.
template <typename Take>
Result<void> each_line(std::span<const std::byte> bytes, Take take) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto words = words_of(line);
    if (!words.empty()) TALLY_TRY(take(words, number));
  }
  return {};
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = code == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

Result<AnalogyQuestions> parse_analogies(std::span<const std::byte> bytes,
                                         const std::string& name) {
  AnalogyQuestions result;
  const auto take = [&](const std::vector<std::string_view>& words,
                        std::size_t number) -> Result<void> {
    if (words[0] == ":") {
      if (words.size() != 2) return wrong_line(name, number, "one name of a section");
      result.sections.emplace_back(words[1]);
      return {};
    }
    if (words.size() != 4) return wrong_line(name, number, "four words, or ': SECTION'");
    if (result.sections.empty()) result.sections.emplace_back("questions");
    Analogy question{.section = result.sections.size() - 1};
    std::transform(words.begin(), words.end(), question.words.begin(), lower);
    result.questions.push_back(std::move(question));
    return {};
  };
  TALLY_TRY(each_line(bytes, take));
  return result;
}

Result<std::vector<SimilarPair>> parse_pairs(std::span<const std::byte> bytes,
                                             const std::string& name) {
  std::vector<SimilarPair> pairs;
  const auto take = [&](const std::vector<std::string_view>& words,
                        std::size_t number) -> Result<void> {
    if (words[0].front() == '#') return {};
    const auto score = words.size() == 3 ? number_of(words[2]) : std::nullopt;
    if (!score) return wrong_line(name, number, "two words and a number");
    pairs.push_back(
        {.first = lower_text(words[0]), .second = lower_text(words[1]), .score = *score});
    return {};
  };
  TALLY_TRY(each_line(bytes, take));
  return pairs;
}

}  // namespace tally::word2vec
