#include "bench/word2vec/comparison.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "bench/common/statistics.h"
#include "process/child_process.h"
#include "process/interrupt.h"

namespace tally::bench {

namespace {

constexpr Duration kPoll = std::chrono::milliseconds(200);

struct Finished {
  std::string printed;
  double seconds = 0;
  double processor_seconds = 0;
};

// Returns the processor time of ended children and their descendants.
double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Returns the last lines of the output.
std::string tail_of(const std::string& printed) {
  constexpr std::size_t kMost = 600;
  return printed.size() > kMost ? printed.substr(printed.size() - kMost) : printed;
}

Result<Finished> run_to_end(const std::vector<std::string>& command, const std::string& log,
                            Duration timeout) {
  std::filesystem::remove(log);
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  const double computed = processor_seconds();
  const Deadline by = clock.after(timeout);
  TALLY_TRY(const auto child, process::ChildProcess::start({.command = command, .log_file = log}));
  std::optional<process::ExitStatus> status;
  while (!status) {
    status = child->wait(earlier(by, clock.after(kPoll)));
    if (!status && process::interrupted() != 0)
      return Error{.code = ErrorCode::kClosed, .message = "interrupted"};
    if (!status && by.passed(clock.now()))
      return Error{.code = ErrorCode::kTimeout, .message = command.front() + " takes too long"};
  }
  Finished finished{.printed = file_contents(log).value_or(""),
                    .seconds = std::chrono::duration<double>(clock.now() - begin).count(),
                    .processor_seconds = processor_seconds() - computed};
  if (status->ok()) return finished;
  return Error{.code = ErrorCode::kSystem,
               .message = fmt::format("{} {}: {}", command.front(), to_string(*status),
                                      tail_of(finished.printed))};
}

}  // namespace

Result<Word2vecOutcome> run_tally_word2vec(const Word2vecPrograms& programs,
                                           const Word2vecTask& task) {
  const std::string vectors = programs.folder + "/vectors.bin";
  const std::string json = programs.folder + "/result.json";
  std::filesystem::remove(json);
  const auto text = [](auto value) { return fmt::format("{}", value); };
  TALLY_TRY(const Finished finished, run_to_end({programs.tally,
                                                 "train",
                                                 "word2vec",
                                                 "--data",
                                                 task.text,
                                                 "--words",
                                                 "plain",
                                                 "--workers",
                                                 text(task.threads),
                                                 "--epochs",
                                                 text(task.epochs),
                                                 "--dimension",
                                                 text(task.dimension),
                                                 "--window",
                                                 text(task.window),
                                                 "--negative",
                                                 text(task.negatives),
                                                 "--sample",
                                                 text(task.sample),
                                                 "--min-count",
                                                 text(task.min_count),
                                                 "--rate",
                                                 text(task.rate),
                                                 "--seed",
                                                 text(task.seed),
                                                 "--output",
                                                 vectors,
                                                 "--json",
                                                 json,
                                                 "--no-progress"},
                                                programs.folder + "/tally.log", programs.timeout));
  const auto result =
      nlohmann::json::parse(file_contents(json).value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!result.is_object() || !result.contains("words_per_s") || !result["words_per_s"].is_number())
    return Error{.code = ErrorCode::kSystem,
                 .message = "tally reported no speed: " + tail_of(finished.printed)};
  return Word2vecOutcome{.run = {.words_per_s = result["words_per_s"].get<double>(),
                                 .program_s = finished.seconds,
                                 .processor_s = finished.processor_seconds},
                         .vectors = vectors};
}

std::optional<double> fasttext_speed(const std::string& printed) {
  constexpr std::string_view kLabel = "words/sec/thread:";
  const std::size_t found = printed.rfind(kLabel);
  if (found == std::string::npos) return std::nullopt;
  std::size_t begin = found + kLabel.size();
  while (begin < printed.size() && printed[begin] == ' ') ++begin;
  double speed = 0;
  const auto parsed =
      std::from_chars(printed.data() + begin, printed.data() + printed.size(), speed);
  return parsed.ec == std::errc() && speed > 0 ? std::optional(speed) : std::nullopt;
}

Result<Word2vecOutcome> run_fasttext(const Word2vecPrograms& programs, const Word2vecTask& task) {
  const std::string stem = programs.folder + "/vectors";
  const auto text = [](auto value) { return fmt::format("{}", value); };
  TALLY_TRY(const Finished finished,
            run_to_end({programs.fasttext,
                        "skipgram",
                        "-input",
                        task.text,
                        "-output",
                        stem,
                        "-minn",
                        "0",
                        "-maxn",
                        "0",
                        "-dim",
                        text(task.dimension),
                        "-ws",
                        text(task.window),
                        "-neg",
                        text(task.negatives),
                        "-t",
                        text(task.sample),
                        "-minCount",
                        text(task.min_count),
                        "-lr",
                        text(task.rate),
                        "-epoch",
                        text(task.epochs),
                        "-thread",
                        text(task.threads),
                        "-seed",
                        text(task.seed),
                        "-verbose",
                        "2"},
                       programs.folder + "/fasttext.log", programs.timeout));
  // fasttext also writes a model, which is not needed.
  std::error_code ignored;
  std::filesystem::remove(stem + ".bin", ignored);
  const auto speed = fasttext_speed(finished.printed);
  if (!speed)
    return Error{.code = ErrorCode::kSystem,
                 .message = "fasttext reported no speed: " + tail_of(finished.printed)};
  return Word2vecOutcome{.run = {.words_per_s = *speed * task.threads,
                                 .program_s = finished.seconds,
                                 .processor_s = finished.processor_seconds},
                         .vectors = stem + ".vec"};
}

Result<void> ask(const std::string& vectors, const Word2vecQuestions& questions, Word2vecRun& run) {
  if (!questions.analogies && !questions.pairs) return {};
  constexpr std::size_t kVocabulary = 30000;
  TALLY_TRY(const word2vec::Vectors loaded, word2vec::load_vectors(vectors));
  if (questions.analogies)
    run.analogies = word2vec::answer_analogies(loaded, *questions.analogies, kVocabulary);
  if (questions.pairs) run.similarity = word2vec::compare_similarities(loaded, *questions.pairs);
  return {};
}

namespace {

using Figure = std::function<double(const Word2vecRun&)>;

std::vector<double> figures(const std::vector<Word2vecRun>& runs, const Figure& figure) {
  std::vector<double> values;
  for (const Word2vecRun& run : runs) values.push_back(figure(run));
  return values;
}

double percent(const word2vec::Score& score) {
  return score.asked > 0
             ? 100 * static_cast<double>(score.correct) / static_cast<double>(score.asked)
             : 0;
}

// Returns "8.9 % (8.7 to 9.1)": median and range of all runs.
std::string range_text(const std::vector<double>& values, int digits, std::string_view unit) {
  return fmt::format("{0:.{3}f}{4} ({1:.{3}f} to {2:.{3}f})", median(values), quantile(values, 0),
                     quantile(values, 1), digits, unit);
}

std::string program_text(std::string_view name, const std::vector<Word2vecRun>& runs) {
  const auto speed = figures(runs, [](const Word2vecRun& r) { return r.words_per_s / 1e3; });
  const auto whole = figures(runs, [](const Word2vecRun& r) { return r.program_s; });
  const auto computed = figures(runs, [](const Word2vecRun& r) { return r.processor_s; });
  std::string text = fmt::format("{:<9} {} thousand words/s\n", name, range_text(speed, 0, ""));
  text += fmt::format("          whole program {} s; processor time {} s\n",
                      range_text(whole, 1, ""), range_text(computed, 1, ""));
  if (runs.front().analogies) {
    const auto total =
        figures(runs, [](const Word2vecRun& r) { return percent(r.analogies->total); });
    const auto semantic =
        figures(runs, [](const Word2vecRun& r) { return percent(r.analogies->semantic); });
    const auto syntactic =
        figures(runs, [](const Word2vecRun& r) { return percent(r.analogies->syntactic); });
    text += fmt::format("          analogies {} of {}; semantic {}, syntactic {}\n",
                        range_text(total, 1, " %"), runs.front().analogies->total.asked,
                        range_text(semantic, 1, " %"), range_text(syntactic, 1, " %"));
  }
  if (runs.front().similarity) {
    const auto rank = figures(runs, [](const Word2vecRun& r) { return r.similarity->correlation; });
    text += fmt::format("          similarity {}, {}/{} pairs found\n", range_text(rank, 3, ""),
                        runs.front().similarity->found, runs.front().similarity->total);
  }
  return text;
}

}  // namespace

std::string comparison_text(const Word2vecComparison& comparison) {
  std::string text;
  if (comparison.tally.empty()) return text;
  text += program_text("tally", comparison.tally);
  if (comparison.fasttext.empty()) return text;
  text += program_text("fasttext", comparison.fasttext);
  std::vector<double> speeds, computed;
  for (std::size_t i = 0; i < comparison.tally.size() && i < comparison.fasttext.size(); ++i) {
    speeds.push_back(comparison.tally[i].words_per_s / comparison.fasttext[i].words_per_s);
    computed.push_back(comparison.fasttext[i].processor_s /
                       std::max(comparison.tally[i].processor_s, 1e-9));
  }
  text +=
      fmt::format("          fasttext computes {} times as long\n", range_text(computed, 2, ""));
  return text + fmt::format("ratio     {} times fasttext's words/s, median of {} rounds\n",
                            range_text(speeds, 2, ""), speeds.size());
}

}  // namespace tally::bench
