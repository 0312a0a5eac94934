#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "apps/tally/commands.h"
#include "apps/tally/data_fetch.h"
#include "apps/tally/launch/launcher.h"
#include "apps/tally/outputs.h"
#include "apps/tally/watch_target.h"
#include "apps/tally/word2vec_options.h"
#include "base/cpu.h"
#include "base/errors.h"
#include "data/locate.h"
#include "process/child_process.h"

namespace tally::app {
namespace {

constexpr const char* kWord2vecFooter = R"(
Examples:
  tally data get imdb
  tally train word2vec --workers 2 --output imdb.bin
  tally train word2vec --data novel.txt.gz --dimension 200 --window 8 --epochs 15 --output novel.txt
  tally run --hosts a:8,b:8 -- tally train word2vec --plan "update=average:200" --output v.bin
  tally train word2vec --workers 4 --servers 2 --plan "home=server update=ssp:4" --output imdb.bin
  tally eval analogy --vectors imdb.bin --questions questions-words.txt

The command starts its workers; under `tally run`, mpirun, srun or torchrun it joins that job
instead. The workers of a host train one pair of tables in shared memory without waiting for each
other; with home=server the rows are on parameter servers. After one Ctrl-C the workers stop and
the current vectors are written; a second Ctrl-C ends them immediately.

Exit codes: 0 success; 1 something failed; 2 wrong usage, nothing was started; 130 interrupted;
others as for `tally run`.)";

constexpr int kMostWorkers = 4096;
constexpr double kMany = 1e12;

void add_training_options(Command& command, word2vec::Settings& s) {
  command.add("--dimension", &s.dimension, "Numbers of a vector", {.least = 1, .most = 4096});
  command.add("--window", &s.window, "Largest distance of the context words of a word",
              {.least = 1, .most = word2vec::kMaxWindow});
  command.add("--negative", &s.negatives, "Random words (negative samples) for each word",
              {.least = 1, .most = word2vec::kMaxNegatives});
  command.add("--sample", &s.sample,
              "Words more frequent than this share of the text are randomly left out; 0: never",
              {.least = 0});
  command.add("--min-count", &s.min_count, "Rarer words are left out", {.least = 1, .most = kMany});
  command.add("--epochs", &s.epochs, "Passes over the text", {.least = 1, .most = 1 << 20});
  command.add("--rate", &s.rate, "Learning rate at the start; it decreases linearly to 0",
              {.least = 0, .above_least = true});
  command.add("--seed", &s.seed, "Seed of all random numbers");
}

void add_word2vec_options(Command& command, Word2vecOptions& o) {
  command.add("--data", &o.data,
              "A text by name (see `tally data list`), or a file or folder of your own",
              {.value = "NAME|PATH"});
  command.add("--words", &o.words,
              "lower: letters in lower case, with apostrophes inside; plain: text between white "
              "space. The end of a line ends a sentence",
              {.choices = {"lower", "plain"}});
  command.add("--workers", &o.workers, "Processes to start; default: one for each core",
              {.least = 1, .most = kMostWorkers});
  command.add("--servers", &o.servers, "With home=server: server processes that hold the rows",
              {.least = 1, .most = kMostWorkers});
  command.add("--directory", &o.directory,
              "With home=server: address of the directory of running servers (see `tally serve`)",
              {.value = "HOST:PORT"});
  command.add("--server-secret", &o.server_secret,
              "With --directory: the secret file of these servers",
              {.value = "FILE", .needs = "--directory"});
  add_training_options(command, o.settings);
  command.add("--plan", &o.plan,
              "How several hosts train together: \"update=average:MS\" averages their tables "
              "every MS milliseconds (default 500), \"update=local:WORDS\" after WORDS words of a "
              "worker. With parameter servers: \"home=server update=asp\", or \"update=ssp:S\", "
              "where no worker is more than S chunks ahead");
  command.add("--output", &o.output,
              "Write the vectors to FILE: word2vec's text format for .txt and .vec, binary for "
              ".bin",
              {.value = "FILE"});
  command.add("--json", &o.json, "Append the result to FILE as one line of JSON",
              {.value = "FILE"});
  command.add("--no-progress", &o.quiet, "Print the summary only");
  command.add("--live", &o.live_columns, "", {.hidden = true});  // from the launcher to its workers
}

// Converts texts to settings, and checks what can be checked without reading the data. kInvalid or
// kSystem with the reason.
Result<void> complete(Word2vecOptions& options) {
  options.settings.words =
      options.words == "plain" ? word2vec::Words::kPlain : word2vec::Words::kLower;
  TALLY_TRY(options.settings.rule, word2vec::parse_update_rule(options.plan));
  if (!options.settings.rule.uses_servers() && (options.servers > 0 || !options.directory.empty()))
    return invalid("--servers and --directory go with --plan home=server");
  auto secret = secret_in(options.server_secret);
  if (!secret) secret.error().message.insert(0, "--server-secret: ");
  TALLY_TRY(options.directory_secret, std::move(secret));
  if (!options.output.empty()) {
    TALLY_TRY(word2vec::format_of_name(options.output));
    TALLY_TRY(check_writable_file("--output", options.output));
  }
  if (!options.json.empty()) TALLY_TRY(check_writable_file("--json", options.json));
  TALLY_TRY(text_files(options.data));
  return {};
}

int start_workers(const Word2vecOptions& options, const std::vector<std::string>& words) {
  std::vector<std::string> command = {process::own_program()};
  command.insert(command.end(), words.begin(), words.end());
  launch::LaunchOptions job =
      launch::worker_job("word2vec", std::move(command),
                         options.workers > 0 ? options.workers : usable_cores(), options.quiet);
  if (options.settings.rule.uses_servers() && options.directory.empty())
    job.servers = {.servers = std::max(options.servers, 1)};
  job.is_news = [](const std::string& event) {
    return event.find(" joined") == std::string::npos &&
           event.find(": it left") == std::string::npos;
  };
  return launch::run_job(job);
}

int run_word2vec(Word2vecOptions& options, const std::vector<std::string>& words) {
  const auto joins = launch::is_rank();
  if (!joins) return fail("tally train", joins.error(), kWrongUsage);
  if (const auto checked = complete(options); !checked)
    return fail("tally train", checked.error(), kWrongUsage);
  return *joins ? run_word2vec_worker(options) : start_workers(options, words);
}

}  // namespace

Result<std::vector<std::filesystem::path>> text_files(const std::string& data) {
  TALLY_TRY(const data::Location location, data::locate(data, data_cache_folder()));
  if (location.kind == data::Kind::kText) return location.train;
  return invalid("--data {}: need a text, not {}", data, to_string(location.kind));
}

void add_word2vec_command(Command train, const std::vector<std::string>& words) {
  Command command = train.add_command("word2vec", fmt::format("Train {}", kWord2vecDescription));
  command.footer(kWord2vecFooter);
  const auto options = std::make_shared<Word2vecOptions>();
  add_word2vec_options(command, *options);
  command.action([options, &words] { return run_word2vec(*options, words); });
}

}  // namespace tally::app
