#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/common/report.h"
#include "recipes/word2vec/evaluation.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::bench {

// The settings of both programs.
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

// Result of one training.
struct Word2vecRun {
  double words_per_s = 0;  // during training, by wall clock, all threads together
  double program_s = 0;    // from the start of the program to its end
  double processor_s = 0;  // processor time of its processes
  std::optional<word2vec::AnalogyResult> analogies;
  std::optional<word2vec::SimilarityResult> similarity;
};

struct Word2vecPrograms {
  std::string tally;
  std::string fasttext;
  std::string folder;  // for output files; owned by the caller
  Duration timeout = std::chrono::hours(6);
};

// A run with the path of its vectors, folder/vectors.bin or folder/vectors.vec. kSystem with the
// output if a program fails.
struct Word2vecOutcome {
  Word2vecRun run;
  std::string vectors;
};
Result<Word2vecOutcome> run_tally_word2vec(const Word2vecPrograms& programs,
                                           const Word2vecTask& task);
Result<Word2vecOutcome> run_fasttext(const Word2vecPrograms& programs, const Word2vecTask& task);

// Returns the last figure of "words/sec/thread: N" in fasttext's output; nothing if there is none.
std::optional<double> fasttext_speed(const std::string& printed);

// Evaluations of the vectors; empty: none.
struct Word2vecQuestions {
  std::optional<word2vec::AnalogyQuestions> analogies;
  std::optional<std::vector<word2vec::SimilarPair>> pairs;
};
Result<void> ask(const std::string& vectors, const Word2vecQuestions& questions, Word2vecRun& run);

struct Word2vecComparison {
  std::vector<Word2vecRun> tally;
  std::vector<Word2vecRun> fasttext;  // empty if only tally was run
};

// All runs of both programs as JSON, by the name of the program.
Json json_of(const Word2vecComparison& comparison);
// Returns one line per program with the medians, then the ratio.
std::string comparison_text(const Word2vecComparison& comparison);

}  // namespace tally::bench
