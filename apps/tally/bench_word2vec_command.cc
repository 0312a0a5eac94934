#include "apps/tally/commands.h"

#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/tally/build_info.h"
#include "apps/tally/word2vec_options.h"
#include "bench/common/report.h"
#include "bench/word2vec/comparison.h"
#include "data/input_file.h"
#include "process/child_process.h"
#include "process/interrupt.h"
#include "process/progress.h"
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
  if (!stream) return Error{.code = ErrorCode::kSystem, .message = "cannot write " + file};
  return {};
}

class Word2vecBench {
 public:
  Word2vecBench(const Word2vecBenchOptions& options, const bench::Word2vecPrograms& programs,
                bench::Word2vecQuestions questions)
      : options_(options), programs_(programs), questions_(std::move(questions)) {}

  Result<bench::Word2vecComparison> run() {
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
    return std::move(comparison_);
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

  const Word2vecBenchOptions& options_;
  const bench::Word2vecPrograms& programs_;
  const bench::Word2vecQuestions questions_;
  bench::Word2vecComparison comparison_;
  process::Progress progress_;
};

nlohmann::ordered_json run_json(const bench::Word2vecRun& run) {
  nlohmann::ordered_json line;
  line["words_per_s"] = run.words_per_s;
  line["program_s"] = run.program_s;
  line["processor_s"] = run.processor_s;
  const auto score = [](const word2vec::Score& s) {
    return nlohmann::ordered_json{{"correct", s.correct}, {"asked", s.asked}};
  };
  if (run.analogies) {
    line["analogies"] = score(run.analogies->total);
    line["semantic"] = score(run.analogies->semantic);
    line["syntactic"] = score(run.analogies->syntactic);
  }
  if (run.similarity) line["similarity"] = run.similarity->correlation;
  return line;
}

nlohmann::ordered_json word2vec_line(const Word2vecBenchOptions& options,
                                     const bench::Word2vecComparison& comparison) {
  nlohmann::ordered_json line = bench::json_line("word2vec", bench::host_facts(kCommit));
  line["data"] = options.data;
  line["threads"] = options.task.threads;
  line["epochs"] = options.task.epochs;
  line["dimension"] = options.task.dimension;
  for (const bench::Word2vecRun& run : comparison.tally) line["tally"].push_back(run_json(run));
  for (const bench::Word2vecRun& run : comparison.fasttext)
    line["fasttext"].push_back(run_json(run));
  return line;
}

Result<bench::Word2vecComparison> comparison_of(const Word2vecBenchOptions& options) {
  TALLY_TRY(bench::Word2vecQuestions questions, read_questions(options));
  bench::Word2vecPrograms programs{.tally = process::own_program()};
  if (options.against == "fasttext") {
    const auto found = process::find_program("fasttext");
    if (!found)
      return Error{.code = ErrorCode::kSystem,
                   .message =
                       "fasttext is not installed: install the package fasttext, or give "
                       "--against none"};
    programs.fasttext = *found;
  }
  TALLY_TRY(const auto folder, process::TempDir::make());
  programs.folder = folder->path();
  TALLY_TRY(write_text(options.data, programs.folder + "/text.txt"));
  return Word2vecBench(options, programs, std::move(questions)).run();
}

int run_word2vec_bench(const Word2vecBenchOptions& options) {
  const process::InterruptGuard guard;
  const auto comparison = comparison_of(options);
  if (process::interrupted() != 0) return process::kInterruptedExitCode;
  if (!comparison) return fail("tally bench word2vec", comparison.error());
  const std::string title = fmt::format(
      "word2vec on {}, {} threads, {} epochs, dimension {}; medians of {} seeds\n", options.data,
      options.task.threads, options.task.epochs, options.task.dimension, options.seeds);
  return bench::publish(title + comparison_text(*comparison), options.json, [&](std::ostream& out) {
    out << word2vec_line(options, *comparison)
               .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
        << "\n";
  });
}

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
  command.add("--json", &o->json, "Append one JSON line; - is stdout", {.value = "FILE"});
  command.action([o] { return run_word2vec_bench(*o); });
}

}  // namespace tally::app
