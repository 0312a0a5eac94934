#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "recipes/word2vec/evaluation.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::bench {

// What both programs are told.
struct Word2vecTask {
  std::string text;  // words in lower case, separated by white space
  int threads = 2;
  std::uint64_t epochs = 1;
  int dimension = 100;
  int window = 5;
  int negatives = 5;
  double sample = 1e-4;
  int min_count = 5;
  double rate = 0.025;
  std::uint64_t seed = 1;
};

// What came of one training.
struct Word2vecRun {
  double words_per_s = 0;  // while it trained, by wall clock, all threads together
  double program_s = 0;    // from the start of the program to its end
  double processor_s = 0;  // that its processes computed in that time
  std::optional<word2vec::AnalogyResult> analogies;
  std::optional<word2vec::SimilarityResult> similarity;
};

struct Word2vecPrograms {
  std::string tally;
  std::string fasttext;
  std::string folder;  // for what they write; the caller's
  Duration timeout = std::chrono::hours(6);
};

// Each trains once and leaves its vectors in folder/vectors.bin or folder/vectors.vec, whose name
// is the second value. kSystem with what was printed if it fails.
struct Word2vecOutcome {
  Word2vecRun run;
  std::string vectors;
};
Result<Word2vecOutcome> run_tally_word2vec(const Word2vecPrograms& programs,
                                           const Word2vecTask& task);
Result<Word2vecOutcome> run_fasttext(const Word2vecPrograms& programs, const Word2vecTask& task);

// The last figure of "words/sec/thread: N" in what fasttext prints while it trains; nothing if
// there is none.
std::optional<double> fasttext_speed(const std::string& printed);

// What the vectors are asked; empty: nothing.
struct Word2vecQuestions {
  std::optional<word2vec::AnalogyQuestions> analogies;
  std::optional<std::vector<word2vec::SimilarPair>> pairs;
};
Result<void> ask(const std::string& vectors, const Word2vecQuestions& questions, Word2vecRun& run);

struct Word2vecComparison {
  std::vector<Word2vecRun> tally;
  std::vector<Word2vecRun> fasttext;  // empty if it does not take part
};

// One line for each program with the medians, the ratio last.
std::string comparison_text(const Word2vecComparison& comparison);

}  // namespace tally::bench
