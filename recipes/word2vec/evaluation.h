#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "recipes/word2vec/questions.h"
#include "recipes/word2vec/vectors.h"

namespace tally::word2vec {

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
  Score semantic;   // of sections whose name does not begin with "gram"
  Score syntactic;  // of the others
  Score total;
  std::uint64_t unknown = 0;  // questions with a word that has no vector: not asked
};

// As word2vec's compute-accuracy: among the first `vocabulary` words (0: all), in lower case, the
// answer to "a b c ?" is the word whose vector has the largest cosine with b - a + c, all three of
// unit length and not an answer themselves.
AnalogyResult answer_analogies(const Vectors& vectors, const AnalogyQuestions& questions,
                               std::size_t vocabulary);

struct SimilarityResult {
  double correlation = 0;   // Spearman's, of cosines and scores; 0 where it is not defined
  std::uint64_t found = 0;  // pairs whose words both have vectors
  std::uint64_t total = 0;
};
SimilarityResult compare_similarities(const Vectors& vectors,
                                      const std::vector<SimilarPair>& pairs);

// Spearman's rank correlation: Pearson's of the ranks, equal values sharing the mean of theirs. 0
// for fewer than two values, or if all of one side are equal. Both are equally long.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace tally::word2vec
