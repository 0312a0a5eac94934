#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::word2vec {

// "a is to b as c is to d", in lower case.
struct Analogy {
  std::array<std::string, 4> words;
  std::size_t section = 0;
};

struct AnalogyQuestions {
  std::vector<std::string> sections;
  std::vector<Analogy> questions;
};

// Parses the format of word2vec's questions-words.txt: ": name" begins a section, other lines have
// four words. Lines before the first section are in a section "questions". kCorrupt with the wrong
// line.
Result<AnalogyQuestions> parse_analogies(std::span<const std::byte> bytes, const std::string& name);

// Two words in lower case and their similarity according to people.
struct SimilarPair {
  std::string first, second;
  double score = 0;
};

// Parses lines of two words and a number, separated by white space; empty lines and lines that
// begin with # are skipped. kCorrupt with the wrong line.
Result<std::vector<SimilarPair>> parse_pairs(std::span<const std::byte> bytes,
                                             const std::string& name);

}  // namespace tally::word2vec
