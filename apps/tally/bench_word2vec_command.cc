#include "apps/tally/commands.h"

#include <fstream>
#include <memory>

#include <fmt/format.h>

#include "apps/tally/bench_scaffold.h"
#include "apps/tally/word2vec_options.h"
#include "base/errors.h"
#include "bench/word2vec/comparison.h"
#include "data/input_file.h"
#include "process/child_process.h"
#include "process/temp_dir.h"

namespace tally::app {
namespace {

constexpr std::size_t kWordsPerLine = 1000;

constexpr const char* kBenchWord2vecFooter = R"(
Examples:
  tally bench word2vec --data imdb
  tally bench word2vec --data novels.txt --similarity EN-WS-353-ALL.txt.gz
  tally bench word2vec --data novels.txt --analogy questions-words.txt.gz

The text is written once as lower-case words, and both programs train on that file with the same
settings. Every round has another seed and begins with the other program. bench/word2vec/README.md
explains the figures.)";

struct Word2vecBenchOptions {
  std::string data = "imdb";
  std::string against = "fasttext";
  int seeds = 3;
  std::string similarity;
  std::string analogy;
  std::string json;
  bench::Word2vecTask task;
};

Result<bench::Word2vecQuestions> read_questions(const Word2vecBenchOptions& options) {
  bench::Word2vecQuestions questions;
  if (!options.analogy.empty()) {
    TALLY_TRY(const data::Bytes bytes, data::read_file(options.analogy));
    TALLY_TRY(questions.analogies, word2vec::parse_analogies(bytes, options.analogy));
  }
  if (!options.similarity.empty()) {
    TALLY_TRY(const data::Bytes bytes, data::read_file(options.similarity));
    TALLY_TRY(questions.pairs, word2vec::parse_pairs(bytes, options.similarity));
  }
  return questions;
}

Result<void> write_text(const std::string& data, const std::string& file) {
  TALLY_TRY(const auto files, text_files(data));
  std::ofstream stream(file, std::ios::binary);
  for (const auto& part : files) {
    TALLY_TRY(const data::Bytes bytes, data::read_file(part));
    stream << word2vec::normalised(bytes, word2vec::Words::kLower, kWordsPerLine);
  }
  stream.close();
  if (!stream) return system_failure("cannot write " + file);
  return {};
}

class Word2vecBench {
 public:
  Word2vecBench(const Word2vecBenchOptions& options, process::Progress& progress)
      : options_(options), progress_(progress) {}

  Result<bench::Report> run() {
    TALLY_TRY(questions_, read_questions(options_));
    if (options_.against == "fasttext") {
      const auto found = process::find_program("fasttext");
      if (!found)
        return system_failure(
            "fasttext is not installed: install the package fasttext, or give "
            "--against none");
      programs_.fasttext = *found;
    }
    TALLY_TRY(const auto folder, process::TempDir::make());
    programs_.folder = folder->path();
    TALLY_TRY(write_text(options_.data, programs_.folder + "/text.txt"));
    const bool alone = programs_.fasttext.empty();
    for (int round = 0; round < options_.seeds; ++round) {
      bench::Word2vecTask task = options_.task;
      task.text = programs_.folder + "/text.txt";
      task.seed = static_cast<std::uint64_t>(round) + 1;
      const bool ours_first = alone || round % 2 == 0;
      if (ours_first) TALLY_TRY(take("tally", bench::run_tally_word2vec, task, comparison_.tally));
      if (!alone) TALLY_TRY(take("fasttext", bench::run_fasttext, task, comparison_.fasttext));
      if (!ours_first) TALLY_TRY(take("tally", bench::run_tally_word2vec, task, comparison_.tally));
    }
    return report();
  }

 private:
  using Program = Result<bench::Word2vecOutcome> (*)(const bench::Word2vecPrograms&,
                                                     const bench::Word2vecTask&);
  Result<void> take(const std::string& name, Program program, const bench::Word2vecTask& task,
                    std::vector<bench::Word2vecRun>& runs) {
    progress_.stage(fmt::format("seed {} of {}: {}", task.seed, options_.seeds, name));
    TALLY_TRY(bench::Word2vecOutcome outcome, program(programs_, task));
    TALLY_TRY(bench::ask(outcome.vectors, questions_, outcome.run));
    runs.push_back(std::move(outcome.run));
    return {};
  }

  bench::Report report() const {
    const bench::Word2vecTask& task = options_.task;
    bench::Json line{{"data", options_.data},
                     {"threads", task.threads},
                     {"epochs", task.epochs},
                     {"dimension", task.dimension}};
    line.update(json_of(comparison_));
    return {.table = fmt::format("word2vec on {}, {} threads, {} epochs, dimension {}; medians of "
                                 "{} seeds\n{}",
                                 options_.data, task.threads, task.epochs, task.dimension,
                                 options_.seeds, comparison_text(comparison_)),
            .lines = {std::move(line)}};
  }

  const Word2vecBenchOptions& options_;
  process::Progress& progress_;
  bench::Word2vecPrograms programs_{.tally = process::own_program()};
  bench::Word2vecQuestions questions_;
  bench::Word2vecComparison comparison_;
};

}  // namespace

void add_bench_word2vec_command(Command bench) {
  Command command = bench.add_command("word2vec", "Word vectors of tally beside those of fasttext");
  command.footer(kBenchWord2vecFooter);
  const auto o = std::make_shared<Word2vecBenchOptions>();
  command.add("--data", &o->data, "A text by name, or a file or folder", {.value = "NAME|PATH"});
  command.add("--against", &o->against, "Peer", {.choices = {"fasttext", "none"}});
  command.add("--threads", &o->task.threads, "Threads of fasttext; workers of tally",
              {.least = 1, .most = 1024});
  command.add("--epochs", &o->task.epochs, "Passes over the text", {.least = 1, .most = 1 << 20});
  command.add("--seeds", &o->seeds, "Rounds, each with its own seed", {.least = 1, .most = 1000});
  command.add("--rate", &o->task.rate, "Learning rate of both programs",
              {.least = 1e-6, .most = 10});
  command.add("--similarity", &o->similarity, "Evaluate on pairs in the format of WordSim-353",
              {.value = "FILE"});
  command.add("--analogy", &o->analogy,
              "Evaluate on analogies in word2vec's questions-words format", {.value = "FILE"});
  add_json_option(command, &o->json, "");
  command.action([o] {
    return run_bench("word2vec", o->json,
                     [&](auto& progress) { return Word2vecBench(*o, progress).run(); });
  });
}

}  // namespace tally::app
