#include "bench/word2vec/comparison.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/file.h"
#include "bench/common/statistics.h"
#include "bench/common/words.h"
#include "process/child_process.h"

namespace tally::bench {

namespace {

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

Result<Finished> run_to_end(const std::vector<std::string>& command, Duration timeout) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  const double computed = processor_seconds();
  TALLY_TRY(std::string printed, process::output_of(command, clock.after(timeout)));
  return Finished{.printed = std::move(printed),
                  .seconds = std::chrono::duration<double>(clock.now() - begin).count(),
                  .processor_seconds = processor_seconds() - computed};
}

// Returns the error of a program that reported no speed, with the last part of its output.
Error no_speed(const std::string& program, const std::string& printed) {
  constexpr std::size_t kMost = 600;
  return {.code = ErrorCode::kSystem,
          .message = program + " reported no speed: " +
                     printed.substr(printed.size() - std::min(printed.size(), kMost))};
}

}  // namespace

Result<Word2vecOutcome> run_tally_word2vec(const Word2vecPrograms& programs,
                                           const Word2vecTask& task) {
  const std::string vectors = programs.folder + "/vectors.bin";
  const std::string json = programs.folder + "/result.json";
  std::filesystem::remove(json);
  const std::vector<std::string> command = words(
      "{} train word2vec --data {} --words plain --workers {} --epochs {} --dimension {} "
      "--window {} --negative {} --sample {} --min-count {} --rate {} --seed {} --output {} "
      "--json {} --no-progress",
      programs.tally, task.text, task.threads, task.epochs, task.dimension, task.window,
      task.negatives, task.sample, task.min_count, task.rate, task.seed, vectors, json);
  TALLY_TRY(const Finished finished, run_to_end(command, programs.timeout));
  const auto result = Json::parse(file_contents(json).value_or(""), nullptr, false);
  if (!result.is_object() || !result.contains("words_per_s") || !result["words_per_s"].is_number())
    return no_speed("tally", finished.printed);
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
  const std::vector<std::string> command = words(
      "{} skipgram -input {} -output {} -minn 0 -maxn 0 -dim {} -ws {} -neg {} -t {} "
      "-minCount {} -lr {} -epoch {} -thread {} -seed {} -verbose 2",
      programs.fasttext, task.text, stem, task.dimension, task.window, task.negatives, task.sample,
      task.min_count, task.rate, task.epochs, task.threads, task.seed);
  TALLY_TRY(const Finished finished, run_to_end(command, programs.timeout));
  // fasttext also writes a model, which is not needed.
  std::error_code ignored;
  std::filesystem::remove(stem + ".bin", ignored);
  const auto speed = fasttext_speed(finished.printed);
  if (!speed) return no_speed("fasttext", finished.printed);
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
  const auto range = [&runs](int digits, std::string_view unit, auto figure) {
    std::vector<double> values;
    for (const Word2vecRun& run : runs) values.push_back(figure(run));
    return range_text(values, digits, unit);
  };
  const auto share = [&](word2vec::Score word2vec::AnalogyResult::*score) {
    return range(1, " %", [&](const Word2vecRun& r) { return percent((*r.analogies).*score); });
  };
  std::string text =
      fmt::format("{:<9} {} thousand words/s\n", name,
                  range(0, "", [](const Word2vecRun& r) { return r.words_per_s / 1e3; }));
  text += fmt::format("          whole program {} s; processor time {} s\n",
                      range(1, "", [](const Word2vecRun& r) { return r.program_s; }),
                      range(1, "", [](const Word2vecRun& r) { return r.processor_s; }));
  if (runs.front().analogies)
    text += fmt::format("          analogies {} of {}; semantic {}, syntactic {}\n",
                        share(&word2vec::AnalogyResult::total), runs.front().analogies->total.asked,
                        share(&word2vec::AnalogyResult::semantic),
                        share(&word2vec::AnalogyResult::syntactic));
  if (runs.front().similarity)
    text +=
        fmt::format("          similarity {}, {}/{} pairs found\n",
                    range(3, "", [](const Word2vecRun& r) { return r.similarity->correlation; }),
                    runs.front().similarity->found, runs.front().similarity->total);
  return text;
}

Json json_of(const Word2vecRun& run) {
  Json line;
  line["words_per_s"] = run.words_per_s;
  line["program_s"] = run.program_s;
  line["processor_s"] = run.processor_s;
  const auto score = [](const word2vec::Score& s) {
    return Json{{"correct", s.correct}, {"asked", s.asked}};
  };
  if (run.analogies) {
    line["analogies"] = score(run.analogies->total);
    line["semantic"] = score(run.analogies->semantic);
    line["syntactic"] = score(run.analogies->syntactic);
  }
  if (run.similarity) line["similarity"] = run.similarity->correlation;
  return line;
}

}  // namespace

Json json_of(const Word2vecComparison& comparison) {
  Json programs;
  for (const Word2vecRun& run : comparison.tally) programs["tally"].push_back(json_of(run));
  for (const Word2vecRun& run : comparison.fasttext) programs["fasttext"].push_back(json_of(run));
  return programs;
}

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
