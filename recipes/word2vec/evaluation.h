#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "recipes/word2vec/vectors.h"
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

struct Score {
  std::uint64_t correct = 0;
  std::uint64_t asked = 0;
  friend bool operator==(const Score&, const Score&) = default;
};

struct AnalogyResult {
  struct Section {
    std::string name;
    Score score;
  };
  std::vector<Section> sections;
  Score semantic;   // sections whose name does not begin with "gram"
  Score syntactic;  // other sections
  Score total;
  std::uint64_t unknown = 0;  // skipped questions with a word that has no vector
};

// As word2vec's compute-accuracy: among the first `vocabulary` words (0: all), in lower case, the
// answer to "a b c ?" is the word whose vector has the largest cosine with b - a + c, all three of
// unit length and excluded as answers.
AnalogyResult answer_analogies(const Vectors& vectors, const AnalogyQuestions& questions,
                               std::size_t vocabulary);

struct SimilarityResult {
  double correlation = 0;   // Spearman's, of cosines and scores; 0 if undefined
  std::uint64_t found = 0;  // pairs whose words both have vectors
  std::uint64_t total = 0;
};
SimilarityResult compare_similarities(const Vectors& vectors,
                                      const std::vector<SimilarPair>& pairs);

// Returns Spearman's rank correlation: Pearson's of the ranks, where equal values share the mean
// rank. 0 for fewer than two values, or if all values of one side are equal. Both are equally long.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace tally::word2vec
