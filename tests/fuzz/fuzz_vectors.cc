// Untrusted word vectors and question files: accepted files have as many words and numbers as they
// say, all finite.
#include <cmath>
#include <span>
#include <string_view>

#include "base/check.h"
#include "fuzz_entry.h"
#include "recipes/word2vec/evaluation.h"
#include "recipes/word2vec/vectors.h"

namespace {

std::vector<std::uint8_t> seed(std::string_view text) { return {text.begin(), text.end()}; }

template <typename T>
void check_refusal(const tally::Result<T>& result) {
  TALLY_CHECK(result.has_value() || result.error().code == tally::ErrorCode::kCorrupt);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally::word2vec;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto questions = parse_analogies(bytes, "questions");
  check_refusal(questions);
  if (questions.has_value())
    for (const Analogy& question : questions->questions)
      TALLY_CHECK(question.section < questions->sections.size());
  check_refusal(parse_pairs(bytes, "pairs"));
  const auto vectors = parse_vectors(bytes, "vectors");
  check_refusal(vectors);
  if (!vectors.has_value()) return 0;
  TALLY_CHECK(vectors->values.size() == vectors->words.size() * vectors->dimension);
  for (const std::string& word : vectors->words) TALLY_CHECK(!word.empty());
  for (const float value : vectors->values) TALLY_CHECK(std::isfinite(value));
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  return {{},
          seed("2 3\nthe 0.5 -1 2e-3\nof 1 2 3\n"),
          seed(std::string_view("2 2\na \0\0\x80\x3F\0\0\0\xBF\nb \0\0\x80\x3E\0\0\0\x40\n", 26)),
          seed("18446744073709551615 65536\na 1\n"),
          seed(": capital\nAthens Greece Oslo Norway\n"),
          seed("tiger cat 7.35\nlove sex 6.77\n")};
}
