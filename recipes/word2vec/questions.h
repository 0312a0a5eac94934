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

// The format of word2vec's questions-words.txt: ": name" begins a section, other lines have four
// words. What stands before the first section is in one called "questions". kCorrupt with the line
// that is otherwise.
Result<AnalogyQuestions> parse_analogies(std::span<const std::byte> bytes, const std::string& name);

// Two words, in lower case, and how similar people find them.
struct SimilarPair {
  std::string first, second;
  double score = 0;
};

// Lines of two words and a number, separated by white space; empty lines, and those that begin with
// #, are passed over. kCorrupt with the line that is otherwise.
Result<std::vector<SimilarPair>> parse_pairs(std::span<const std::byte> bytes,
                                             const std::string& name);

}  // namespace tally::word2vec
