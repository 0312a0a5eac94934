#include "apps/tally/bench_word2vec_command.h"

#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/tally/build_info.h"
#include "apps/tally/word2vec_options.h"
#include "base/cpu.h"
#include "bench/word2vec/contest.h"
#include "data/input_file.h"
#include "group/host.h"
#include "process/child_process.h"
#include "process/interrupt.h"
#include "process/progress.h"
#include "process/temp_dir.h"

namespace tally::app {
namespace {

constexpr std::size_t kWordsPerLine = 1000;

constexpr const char* kFooter = R"(
Examples:
  tally bench word2vec --data imdb
  tally bench word2vec --data novels.txt --similarity EN-WS-353-ALL.txt.gz --analogy questions-words.txt.gz

The text is written once as lower-case words, and both programs train on that file with the same settings. Every round
has another seed, and the other program first. bench/word2vec/README.md says what is counted.)";

struct Options {
  std::string data = "imdb";
  std::string against = "fasttext";
  int seeds = 3;
  std::string similarity;
  std::string analogy;
  std::string json;
  bench::Word2vecTask task;
};

Result<bench::Word2vecQuestions> read_questions(const Options& options) {
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

class Bench {
 public:
  Bench(const Options& options, const bench::Word2vecPrograms& programs,
        bench::Word2vecQuestions questions)
      : options_(options), programs_(programs), questions_(std::move(questions)) {}

  Result<bench::Word2vecContest> run() {
    const bool alone = programs_.fasttext.empty();
    for (int round = 0; round < options_.seeds; ++round) {
      bench::Word2vecTask task = options_.task;
      task.text = programs_.folder + "/text.txt";
      task.seed = static_cast<std::uint64_t>(round) + 1;
      const bool ours_first = alone || round % 2 == 0;
      if (ours_first) TALLY_TRY(take("tally", bench::run_tally_word2vec, task, contest_.tally));
      if (!alone) TALLY_TRY(take("fasttext", bench::run_fasttext, task, contest_.fasttext));
      if (!ours_first) TALLY_TRY(take("tally", bench::run_tally_word2vec, task, contest_.tally));
    }
    return std::move(contest_);
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

  const Options& options_;
  const bench::Word2vecPrograms& programs_;
  const bench::Word2vecQuestions questions_;
  bench::Word2vecContest contest_;
  process::Progress progress_;
};

nlohmann::ordered_json json_of(const bench::Word2vecRun& run) {
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

bool save_json(const Options& options, const bench::Word2vecContest& contest) {
  if (options.json.empty()) return true;
  nlohmann::ordered_json line;
  line["bench"] = "word2vec";
  line["commit"] = kCommit;
  line["host"] = group::host_name();
  line["cores"] = usable_cores();
  line["data"] = options.data;
  line["threads"] = options.task.threads;
  line["epochs"] = options.task.epochs;
  line["dimension"] = options.task.dimension;
  for (const bench::Word2vecRun& run : contest.tally) line["tally"].push_back(json_of(run));
  for (const bench::Word2vecRun& run : contest.fasttext) line["fasttext"].push_back(json_of(run));
  std::ofstream file(options.json, std::ios::app);
  file << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  file.close();
  if (!file) fmt::print(stderr, "cannot write {}\n", options.json);
  return static_cast<bool>(file);
}

Result<bench::Word2vecContest> contest_of(const Options& options) {
  TALLY_TRY(bench::Word2vecQuestions questions, read_questions(options));
  bench::Word2vecPrograms programs{.tally = process::own_program()};
  if (options.against == "fasttext") {
    const auto found = process::find_program("fasttext");
    if (!found)
      return Error{.code = ErrorCode::kSystem,
                   .message =
                       "there is no fasttext: install the package fasttext, or give "
                       "--against none"};
    programs.fasttext = *found;
  }
  TALLY_TRY(const auto folder, process::TempDir::make());
  programs.folder = folder->path();
  TALLY_TRY(write_text(options.data, programs.folder + "/text.txt"));
  return Bench(options, programs, std::move(questions)).run();
}

int run(const Options& options) {
  const process::InterruptGuard guard;
  const auto contest = contest_of(options);
  if (process::interrupted() != 0) return process::kInterruptedExitCode;
  if (!contest) {
    fmt::print(stderr, "tally bench word2vec: {}\n", contest.error().message);
    return 1;
  }
  fmt::print("word2vec on {}, {} threads, {} epochs, dimension {}; medians of {} seeds\n",
             options.data, options.task.threads, options.task.epochs, options.task.dimension,
             options.seeds);
  fmt::print("{}", contest_text(*contest));
  return save_json(options, *contest) ? 0 : 1;
}

}  // namespace

void add_bench_word2vec_command(CLI::App& bench, int& exit_code) {
  CLI::App& command = *bench.add_subcommand("word2vec", "Word vectors beside fasttext's");
  command.footer(kFooter);
  const auto o = std::make_shared<Options>();
  command.add_option("--data", o->data, "A text by name, or a file or folder")
      ->type_name("NAME|PATH")
      ->capture_default_str();
  command.add_option("--against", o->against, "fasttext, none")
      ->check(CLI::IsMember({"fasttext", "none"}))
      ->capture_default_str();
  command.add_option("--threads", o->task.threads, "Of fasttext; workers of tally")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--epochs", o->task.epochs, "Passes over the text")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 20))
      ->capture_default_str();
  command.add_option("--seeds", o->seeds, "Rounds, each with a seed of its own")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--rate", o->task.rate, "Learning rate of both")
      ->check(CLI::Range(1e-6, 10.0))
      ->capture_default_str();
  command.add_option("--similarity", o->similarity, "Ask for pairs as in WordSim-353")
      ->type_name("FILE");
  command.add_option("--analogy", o->analogy, "Ask questions as in word2vec's questions-words.txt")
      ->type_name("FILE");
  command.add_option("--json", o->json, "Append the outcome as one JSON line")->type_name("FILE");
  command.callback([o, &exit_code] { exit_code = run(*o); });
}

}  // namespace tally::app
