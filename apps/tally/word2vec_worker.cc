#include "apps/tally/word2vec_options.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/tally/build_info.h"
#include "apps/tally/command_line.h"
#include "base/errors.h"
#include "data/input_file.h"
#include "group/host.h"
#include "process/interrupt.h"
#include "recipes/word2vec/vocabulary.h"

namespace tally::app {
namespace {

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::clamp(seconds, 0.0, 1e9));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

// "950", "12.3k", "4.56M".
std::string short_number(double number) {
  if (number < 1000) return fmt::format("{:.0f}", number);
  const double scaled = number < 999.5e3   ? number / 1e3
                        : number < 999.5e6 ? number / 1e6
                                           : number / 1e9;
  const char unit = number < 999.5e3 ? 'k' : number < 999.5e6 ? 'M' : 'G';
  return fmt::format("{:.{}f}{}", scaled, scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0, unit);
}

// Returns "epoch 2/5  38 %  1.23M words/s  loss 2.310  rate 0.0180  left 0:12", shortened to
// `columns` (0: unlimited).
std::string word2vec_progress_line(const word2vec::Standing& standing, std::uint64_t epochs,
                                   int columns) {
  const double share =
      standing.total > 0 ? static_cast<double>(standing.words) / static_cast<double>(standing.total)
                         : 1;
  const auto epoch = std::min(
      epochs, 1 + static_cast<std::uint64_t>(std::floor(share * static_cast<double>(epochs))));
  std::vector<std::string> parts = {
      fmt::format("epoch {}/{}", epoch, epochs), fmt::format("{:.0f} %", 100 * share),
      short_number(standing.words_per_s) + " words/s", fmt::format("loss {:.3f}", standing.loss),
      fmt::format("rate {:.4f}", standing.rate)};
  if (standing.words_per_s > 0 && standing.total >= standing.words)
    parts.push_back("left " + clock_text(static_cast<double>(standing.total - standing.words) /
                                         standing.words_per_s));
  std::string line;
  for (const std::string& part : parts) {
    const std::string longer = line.empty() ? part : line + "  " + part;
    if (columns > 0 && static_cast<int>(longer.size()) >= columns) break;
    line = longer;
  }
  return line;
}

// Without a terminal: time between lines.
constexpr Duration kLineEvery = std::chrono::seconds(10);

// Output of rank 0 on stdout.
class Talk {
 public:
  Talk(const Word2vecOptions& options, bool silent) : options_(options), silent_(silent) {}

  void say(const std::string& line) {
    if (silent_) return;
    erase();
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  void show(const word2vec::Standing& standing) {
    if (silent_ || options_.quiet) return;
    const int columns = options_.live_columns;
    if (columns == 0 && standing.elapsed - last_line_ < kLineEvery) return;
    last_line_ = standing.elapsed;
    const std::string line = word2vec_progress_line(standing, options_.settings.epochs, columns);
    if (columns == 0) return say(line);
    // The launcher passes on a line that ends with a carriage return at once.
    fmt::print("{:<{}}\r", line, columns - 1);
    std::fflush(stdout);
    shown_ = true;
  }

 private:
  void erase() {
    if (shown_) fmt::print("{:<{}}\r", "", options_.live_columns - 1);
    shown_ = false;
  }

  const Word2vecOptions& options_;
  const bool silent_;
  bool shown_ = false;
  Duration last_line_{};
};

struct Text {
  word2vec::Vocabulary vocabulary;
  std::vector<word2vec::WordId> own;  // the part of this rank
};

Result<Text> read_text(const Word2vecOptions& options, Rank rank, int size) {
  TALLY_TRY(const auto files, text_files(options.data));
  data::Bytes bytes;
  for (const std::filesystem::path& file : files) {
    TALLY_TRY(const data::Bytes more, data::read_file(file));
    if (!bytes.empty()) bytes.push_back(std::byte{'\n'});
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  TALLY_TRY(word2vec::Vocabulary vocabulary,
            word2vec::Vocabulary::of_text(
                bytes, {.words = options.settings.words, .min_count = options.settings.min_count}));
  const auto part =
      word2vec::part_of(bytes, static_cast<std::size_t>(rank), static_cast<std::size_t>(size));
  std::vector<word2vec::WordId> own = vocabulary.encode(part);
  return Text{std::move(vocabulary), std::move(own)};
}

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string result_json(const Word2vecOptions& options, int workers, const Text& text,
                        const word2vec::TrainingResult& result) {
  const word2vec::Settings& s = options.settings;
  nlohmann::ordered_json line;
  line["recipe"] = "word2vec";
  line["data"] = options.data;
  line["commit"] = kCommit;
  line["host"] = group::host_name();
  line["cores"] = ::sysconf(_SC_NPROCESSORS_ONLN);
  line["workers"] = workers;
  if (s.rule.uses_servers()) line["servers"] = options.servers;
  line["plan"] = to_string(s.rule);
  line["dimension"] = s.dimension;
  line["window"] = s.window;
  line["negative"] = s.negatives;
  line["sample"] = s.sample;
  line["min_count"] = s.min_count;
  line["epochs"] = s.epochs;
  line["rate"] = s.rate;
  line["seed"] = s.seed;
  line["vocabulary"] = text.vocabulary.size();
  line["text_words"] = text.vocabulary.total_count();
  line["words"] = result.words;
  line["seconds"] = seconds_of(result.elapsed);
  line["words_per_s"] = static_cast<double>(result.words) / seconds_of(result.elapsed);
  line["loss"] = result.loss;
  line["rounds"] = result.rounds;
  line["outcome"] = result.interrupted ? "interrupted" : "completed";
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Reports the result and writes the outputs, on rank 0.
Result<void> conclude(const Word2vecOptions& options, const Text& text, int workers,
                      word2vec::Training& training, const word2vec::TrainingResult& result,
                      Talk& talk) {
  const double seconds = seconds_of(result.elapsed);
  talk.say(fmt::format("{} {} words in {:.1f} s: {} words/s, loss {:.3f}",
                       result.interrupted ? "interrupted after" : "trained",
                       short_number(static_cast<double>(result.words)), seconds,
                       short_number(static_cast<double>(result.words) / seconds), result.loss));
  if (!options.output.empty()) {
    TALLY_TRY(const auto format, word2vec::format_of_name(options.output));
    TALLY_TRY(training.collect());
    TALLY_TRY(word2vec::save_vectors(options.output, format, text.vocabulary.words(),
                                     options.settings.dimension, [&training](std::size_t word) {
                                       return training.vector(static_cast<word2vec::WordId>(word));
                                     }));
    talk.say("vectors in " + options.output);
  }
  if (options.json.empty()) return {};
  std::ofstream file(options.json, std::ios::app);
  file << result_json(options, workers, text, result) << "\n";
  file.close();
  if (!file) return system_failure("cannot write " + options.json);
  talk.say("result appended to " + options.json);
  return {};
}

// Returns the exit code.
Result<int> train_rank(const Word2vecOptions& options, Job& job, const JobOptions& joined) {
  const process::InterruptGuard guard;
  Talk talk(options, job.rank() != 0);
  TALLY_TRY(const Text text, read_text(options, job.rank(), job.size()));
  const word2vec::Settings& s = options.settings;
  talk.say(fmt::format("word2vec on {}: {} different words, {} in the text", options.data,
                       text.vocabulary.size(), text.vocabulary.total_count()));
  TALLY_TRY(const auto rows, rows_of_servers(options, job, joined));
  TALLY_TRY(const auto training,
            word2vec::Training::make(job, text.vocabulary, text.own, s, rows.get()));
  // All ranks have joined: from here on a signal is handled after the current words.
  talk.say(fmt::format(
      "{} workers, {} epochs; dimension {}, window {}, {} negatives, sample {}, rate {}; {}",
      job.size(), s.epochs, s.dimension, s.window, s.negatives, s.sample, s.rate,
      to_string(s.rule)));
  TALLY_TRY(const auto result,
            training->run({.interrupted = [] { return process::interrupted() != 0; },
                           .show = [&talk](const word2vec::Standing& at) { talk.show(at); }}));
  if (job.rank() == 0) TALLY_TRY(conclude(options, text, job.size(), *training, result, talk));
  return result.interrupted ? process::kInterruptedExitCode : 0;
}

}  // namespace

int run_word2vec_worker(const Word2vecOptions& options) {
  const auto fail = [](Rank rank, const std::string& what) {
    fmt::print(stderr, "rank {}: {}\n", rank, what);
    return 1;
  };
  const auto joining = options_from(::getenv);
  if (!joining) return fail(0, plain_text(joining.error()));
  auto job = Job::join(*joining);
  if (!job) return fail(0, plain_text(job.error()));
  const Rank rank = (*job)->rank();
  try {
    const auto code = train_rank(options, **job, *joining);
    if (!code) return fail(rank, plain_text(code.error()));
    (*job)->close();
    return *code;
  } catch (const std::bad_alloc&) {
    return fail(rank, "out of memory: each worker holds the text while it is counted");
  }
}

}  // namespace tally::app
