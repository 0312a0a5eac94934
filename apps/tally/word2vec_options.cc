#include "apps/tally/word2vec_options.h"

#include <fmt/format.h>

#include "apps/tally/data_fetch.h"
#include "apps/tally/outputs.h"
#include "apps/tally/watch_target.h"
#include "data/locate.h"

namespace tally::app {
namespace {

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

}  // namespace

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

Result<void> complete(Word2vecOptions& options) {
  options.settings.words =
      options.words == "plain" ? word2vec::Words::kPlain : word2vec::Words::kLower;
  TALLY_TRY(options.settings.rule, word2vec::parse_update_rule(options.plan));
  if (!options.settings.rule.uses_servers() && (options.servers > 0 || !options.directory.empty()))
    return Error{.code = ErrorCode::kInvalid,
                 .message = "--servers and --directory go with --plan home=server"};
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

Result<std::vector<std::filesystem::path>> text_files(const std::string& data) {
  TALLY_TRY(const data::Location location, data::locate(data, data_cache_folder()));
  if (location.kind == data::Kind::kText) return location.train;
  return Error{
      .code = ErrorCode::kInvalid,
      .message = fmt::format("--data {}: need a text, not {}", data, to_string(location.kind))};
}

}  // namespace tally::app
