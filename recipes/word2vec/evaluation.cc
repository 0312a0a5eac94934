#include "recipes/word2vec/evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "base/option_text.h"
#include "kernel/skipgram/skipgram.h"
#include "recipes/word2vec/vocabulary.h"

namespace tally::word2vec {

namespace {

std::string lower_word(std::string_view word) {
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
  return corrupt(fmt::format("{}: line {}: expected {}", name, number, expected));
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
    std::transform(words.begin(), words.end(), question.words.begin(), lower_word);
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
    const auto score = parse_number(words.size() == 3 ? words[2] : "");
    if (!score) return wrong_line(name, number, "two words and a number");
    pairs.push_back(
        {.first = lower_word(words[0]), .second = lower_word(words[1]), .score = *score});
    return {};
  };
  TALLY_TRY(each_line(bytes, take));
  return pairs;
}

namespace {

// The first words of a file with vectors of unit length, in the layout of the kernels.
class UnitVectors {
 public:
  UnitVectors(const Vectors& vectors, std::size_t limit)
      : stride_(kernel::skipgram_stride(vectors.dimension)) {
    const std::size_t count =
        limit == 0 ? vectors.words.size() : std::min(limit, vectors.words.size());
    for (std::size_t word = 0; word < count; ++word) {
      // Of words that differ in case only, the more frequent one is kept.
      if (words_.add(lower_word(vectors.words[word])) != values_.size() / stride_) continue;
      values_.resize(values_.size() + stride_);
      float* const row = values_.data() + values_.size() - stride_;
      const std::span<const float> from = vectors.of(word);
      double squares = 0;
      for (const float value : from) squares += static_cast<double>(value) * value;
      const double length = squares > 0 ? std::sqrt(squares) : 1;
      for (std::size_t i = 0; i < from.size(); ++i) row[i] = static_cast<float>(from[i] / length);
    }
  }

  std::size_t size() const { return values_.size() / stride_; }
  std::size_t stride() const { return stride_; }
  std::optional<std::uint32_t> find(const std::string& word) const { return words_.find(word); }
  float* row(std::size_t word) { return values_.data() + word * stride_; }

 private:
  const std::size_t stride_;
  WordTable words_;
  std::vector<float> values_;
};

// A question whose words all have vectors.
struct Asked {
  std::array<std::uint32_t, 4> words;
  std::size_t section = 0;
};

// Answers up to kSkipgramRows questions.
std::vector<std::uint32_t> answers_to(std::span<const Asked> questions, UnitVectors& vectors) {
  const std::size_t stride = vectors.stride();
  std::vector<float> targets(questions.size() * stride);
  std::vector<float*> target_rows;
  for (std::size_t q = 0; q < questions.size(); ++q) {
    const auto& [a, b, c, d] = questions[q].words;
    target_rows.push_back(targets.data() + q * stride);
    for (std::size_t i = 0; i < stride; ++i)
      target_rows[q][i] = vectors.row(b)[i] - vectors.row(a)[i] + vectors.row(c)[i];
  }
  std::vector<std::uint32_t> best(questions.size(), 0);
  std::vector<float> best_product(questions.size(), -std::numeric_limits<float>::infinity());
  kernel::SkipgramGradients products;
  for (std::size_t begin = 0; begin < vectors.size(); begin += kernel::kSkipgramRows) {
    std::vector<float*> rows;
    for (std::size_t word = begin; word < std::min(begin + kernel::kSkipgramRows, vectors.size());
         ++word)
      rows.push_back(vectors.row(word));
    kernel::skipgram_kernels().products({.inputs = target_rows.data(),
                                         .input_count = target_rows.size(),
                                         .outputs = rows.data(),
                                         .output_count = rows.size(),
                                         .stride = stride},
                                        products);
    for (std::size_t q = 0; q < questions.size(); ++q) {
      const auto& asked = questions[q].words;
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const auto word = static_cast<std::uint32_t>(begin + r);
        const float product = products.values[q * rows.size() + r];
        if (product <= best_product[q]) continue;
        if (word == asked[0] || word == asked[1] || word == asked[2]) continue;
        best_product[q] = product;
        best[q] = word;
      }
    }
  }
  return best;
}

void count(Score& score, bool correct) {
  ++score.asked;
  if (correct) ++score.correct;
}

std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [values](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i)
      ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    begin = end;
  }
  return ranks;
}

}  // namespace

AnalogyResult answer_analogies(const Vectors& vectors, const AnalogyQuestions& questions,
                               std::size_t vocabulary) {
  UnitVectors unit(vectors, vocabulary);
  AnalogyResult result;
  for (const std::string& name : questions.sections) result.sections.push_back({name, {}});
  std::vector<Asked> asked;
  for (const Analogy& question : questions.questions) {
    Asked known{.words = {}, .section = question.section};
    bool all = true;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto word = unit.find(question.words[i]);
      all = all && word.has_value();
      known.words[i] = word.value_or(0);
    }
    if (all)
      asked.push_back(known);
    else
      ++result.unknown;
  }
  for (std::size_t begin = 0; begin < asked.size(); begin += kernel::kSkipgramRows) {
    const auto some =
        std::span(asked).subspan(begin, std::min(kernel::kSkipgramRows, asked.size() - begin));
    const std::vector<std::uint32_t> answers = answers_to(some, unit);
    for (std::size_t i = 0; i < some.size(); ++i) {
      AnalogyResult::Section& section = result.sections[some[i].section];
      const bool correct = answers[i] == some[i].words[3];
      count(section.score, correct);
      count(section.name.rfind("gram", 0) == 0 ? result.syntactic : result.semantic, correct);
      count(result.total, correct);
    }
  }
  return result;
}

SimilarityResult compare_similarities(const Vectors& vectors,
                                      const std::vector<SimilarPair>& pairs) {
  UnitVectors unit(vectors, 0);
  SimilarityResult result{.total = pairs.size()};
  std::vector<double> cosines, scores;
  for (const SimilarPair& pair : pairs) {
    const auto first = unit.find(pair.first);
    const auto second = unit.find(pair.second);
    if (!first || !second) continue;
    double cosine = 0;
    for (std::size_t i = 0; i < unit.stride(); ++i)
      cosine += static_cast<double>(unit.row(*first)[i]) * unit.row(*second)[i];
    cosines.push_back(cosine);
    scores.push_back(pair.score);
  }
  result.found = cosines.size();
  result.correlation = rank_correlation(cosines, scores);
  return result;
}

double rank_correlation(std::span<const double> a, std::span<const double> b) {
  TALLY_CHECK(a.size() == b.size());
  const std::vector<double> ranks_a = ranks_of(a);
  const std::vector<double> ranks_b = ranks_of(b);
  const double mean = (static_cast<double>(a.size()) - 1) / 2;
  double product = 0, squares_a = 0, squares_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += (ranks_a[i] - mean) * (ranks_b[i] - mean);
    squares_a += (ranks_a[i] - mean) * (ranks_a[i] - mean);
    squares_b += (ranks_b[i] - mean) * (ranks_b[i] - mean);
  }
  const double scale = std::sqrt(squares_a * squares_b);
  return scale > 0 ? product / scale : 0;
}

}  // namespace tally::word2vec
