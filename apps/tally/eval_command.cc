#include "apps/tally/eval_command.h"

#include <memory>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "data/input_file.h"
#include "recipes/word2vec/evaluation.h"

namespace tally::app {
namespace {

constexpr const char* kFooter = R"(
Examples:
  tally eval analogy --vectors imdb.bin --questions questions-words.txt.gz
  tally eval similarity --vectors imdb.bin --pairs EN-WS-353-ALL.txt.gz

Vectors are in word2vec's text or binary format, questions and pairs as their authors publish them; each may be packed
with gzip. Words are compared in lower case.)";

struct Options {
  std::string vectors;
  std::string questions;
  std::string pairs;
  std::size_t vocabulary = 30000;
};

std::string score_text(const word2vec::Score& score) {
  const double percent = score.asked > 0 ? 100.0 * static_cast<double>(score.correct) /
                                               static_cast<double>(score.asked)
                                         : 0;
  return fmt::format("{:5.1f} %  {}/{}", percent, score.correct, score.asked);
}

Result<void> show_analogies(const Options& options) {
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

Result<void> show_similarity(const Options& options) {
  TALLY_TRY(const data::Bytes text, data::read_file(options.pairs));
  TALLY_TRY(const auto pairs, word2vec::parse_pairs(text, options.pairs));
  TALLY_TRY(const word2vec::Vectors vectors, word2vec::load_vectors(options.vectors));
  const auto result = word2vec::compare_similarities(vectors, pairs);
  fmt::print("rank correlation {:.4f}, {}/{} pairs found\n", result.correlation, result.found,
             result.total);
  return {};
}

int code_of(const Result<void>& outcome) {
  if (outcome) return 0;
  fmt::print(stderr, "tally eval: {}\n", outcome.error().message);
  return 1;
}

void add_vectors_option(CLI::App& command, Options& options) {
  command
      .add_option("--vectors", options.vectors, "Of words, as `tally train word2vec` writes them")
      ->required()
      ->type_name("FILE");
}

}  // namespace

void add_eval_command(CLI::App& parent, int& exit_code) {
  CLI::App& eval = *parent.add_subcommand("eval", "See how good word vectors are");
  eval.require_subcommand(1);
  eval.footer(kFooter);
  const auto o = std::make_shared<Options>();

  CLI::App& analogy = *eval.add_subcommand("analogy", "Questions of the kind a : b = c : ?");
  add_vectors_option(analogy, *o);
  analogy
      .add_option("--questions", o->questions, "Lines of four words; \": NAME\" begins a section")
      ->required()
      ->type_name("FILE");
  analogy
      .add_option("--vocabulary", o->vocabulary,
                  "Only so many words, the most frequent ones, are known; 0: all")
      ->capture_default_str();
  analogy.callback([o, &exit_code] { exit_code = code_of(show_analogies(*o)); });

  CLI::App& similarity =
      *eval.add_subcommand("similarity", "Cosines beside what people say, as rank correlation");
  add_vectors_option(similarity, *o);
  similarity.add_option("--pairs", o->pairs, "Lines of two words and a number")
      ->required()
      ->type_name("FILE");
  similarity.callback([o, &exit_code] { exit_code = code_of(show_similarity(*o)); });
}

}  // namespace tally::app
