#include "apps/tally/commands.h"

#include <memory>
#include <string>

#include <fmt/format.h>

#include "data/input_file.h"
#include "recipes/word2vec/evaluation.h"

namespace tally::app {
namespace {

constexpr const char* kEvalFooter = R"(
`tally eval RUN [--data NAME|PATH]` evaluates a trained model; RUN is the folder of `tally train
--checkpoint`, and `tally eval RUN --help` has the options.

Examples:
  tally eval runs/lenet
  tally eval analogy --vectors imdb.bin --questions questions-words.txt.gz
  tally eval similarity --vectors imdb.bin --pairs EN-WS-353-ALL.txt.gz

Vectors are in word2vec's text or binary format, questions and pairs as their authors publish them;
all files may be compressed with gzip. Words are compared in lower case.)";

// Options of both commands; the texts are names of files.
struct EvalOptions {
  std::string vectors;
  std::string questions;  // analogy
  std::string pairs;      // similarity
  // analogy: number of words; the default is that of word2vec's demo-word-accuracy.sh
  std::size_t vocabulary = 30000;
};

// Returns "percentage  correct/asked".
std::string score_text(const word2vec::Score& score) {
  const double percent = score.asked > 0 ? 100.0 * static_cast<double>(score.correct) /
                                               static_cast<double>(score.asked)
                                         : 0;
  return fmt::format("{:5.1f} %  {}/{}", percent, score.correct, score.asked);
}

Result<void> show_analogies(const EvalOptions& options) {
  TALLY_TRY(const data::Bytes text, data::read_file(options.questions));
  TALLY_TRY(const auto questions, word2vec::parse_analogies(text, options.questions));
  TALLY_TRY(const word2vec::Vectors vectors, word2vec::load_vectors(options.vectors));
  const auto result = word2vec::answer_analogies(vectors, questions, options.vocabulary);
  for (const auto& section : result.sections)
    if (section.score.asked > 0) fmt::print("{:<28} {}\n", section.name, score_text(section.score));
  fmt::print("{:<28} {}\n", "semantic", score_text(result.semantic));
  fmt::print("{:<28} {}\n", "syntactic", score_text(result.syntactic));
  fmt::print("{:<28} {}\n", "total", score_text(result.total));
  fmt::print("{} questions have a word without a vector, and were not asked\n", result.unknown);
  return {};
}

Result<void> show_similarity(const EvalOptions& options) {
  TALLY_TRY(const data::Bytes text, data::read_file(options.pairs));
  TALLY_TRY(const auto pairs, word2vec::parse_pairs(text, options.pairs));
  TALLY_TRY(const word2vec::Vectors vectors, word2vec::load_vectors(options.vectors));
  const auto result = word2vec::compare_similarities(vectors, pairs);
  fmt::print("rank correlation {:.4f}, {}/{} pairs found\n", result.correlation, result.found,
             result.total);
  return {};
}

void add_vectors_option(Command& command, EvalOptions& options) {
  command.add("--vectors", &options.vectors, "Word vectors of `tally train word2vec`",
              {.value = "FILE", .required = true});
}

}  // namespace

void add_eval_command(Command top) {
  Command eval =
      top.add_command("eval", "Evaluate a trained model (tally eval RUN), or word vectors");
  eval.require_command();
  eval.footer(kEvalFooter);
  const auto options = std::make_shared<EvalOptions>();

  Command analogy = eval.add_command("analogy", "Questions of the form a : b = c : ?");
  add_vectors_option(analogy, *options);
  analogy.add("--questions", &options->questions,
              "Lines of four words; \": NAME\" begins a section",
              {.value = "FILE", .required = true});
  analogy.add("--vocabulary", &options->vocabulary, "Use the N most frequent words only; 0: all",
              {.least = 0});
  analogy.action([options] { return exit_code_of(show_analogies(*options), "tally eval"); });

  Command similarity =
      eval.add_command("similarity", "Rank correlation of cosines with the judgement of people");
  add_vectors_option(similarity, *options);
  similarity.add("--pairs", &options->pairs, "Lines of two words and a number",
                 {.value = "FILE", .required = true});
  similarity.action([options] { return exit_code_of(show_similarity(*options), "tally eval"); });
}

}  // namespace tally::app
