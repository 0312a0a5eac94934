#include "apps/tally/word2vec_options.h"

#include <unistd.h>

#include <cmath>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/tally/data_cache.h"
#include "apps/tally/watch_target.h"
#include "data/locate.h"

namespace tally::app {
namespace {

constexpr int kMostWorkers = 4096;

// CLI11's own says in 300 digits how large a number may be.
CLI::Validator positive(bool zero_too) {
  return {[zero_too](const std::string& text) -> std::string {
            double value = 0;
            if (!CLI::detail::lexical_cast(text, value) || !std::isfinite(value))
              return text + " is no number";
            if (value > 0 || (zero_too && value == 0)) return "";
            return fmt::format("{} must be {}", text, zero_too ? "at least 0" : "above 0");
          },
          ""};
}

Result<void> check_output(const std::string& option, const std::filesystem::path& file) {
  std::error_code failed;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  std::string why;
  if (std::filesystem::is_directory(file, failed))
    why = "this is a folder, not a file";
  else if (!std::filesystem::is_directory(folder, failed))
    why = fmt::format("there is no folder {}", folder.string());
  else if (::access(std::filesystem::exists(file, failed) ? file.c_str() : folder.c_str(), W_OK) !=
           0)
    why = "it may not be written";
  if (why.empty()) return {};
  return Error{.code = ErrorCode::kSystem,
               .message = fmt::format("{} {}: {}", option, file.string(), why)};
}

void add_training_options(CLI::App& command, word2vec::Settings& s) {
  command.add_option("--dimension", s.dimension, "Numbers of a vector")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--window", s.window, "Furthest neighbours that a word is learned from")
      ->check(CLI::Range(1, word2vec::kMaxWindow))
      ->capture_default_str();
  command.add_option("--negative", s.negatives, "Words drawn by chance for each word")
      ->check(CLI::Range(1, word2vec::kMaxNegatives))
      ->capture_default_str();
  command
      .add_option(
          "--sample", s.sample,
          "Words more frequent than this share of the text are left out now and then; 0: never")
      ->check(positive(true))
      ->capture_default_str();
  command.add_option("--min-count", s.min_count, "Rarer words are left out")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
      ->capture_default_str();
  command.add_option("--epochs", s.epochs, "Passes over the text")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 20))
      ->capture_default_str();
  command
      .add_option("--rate", s.rate, "Learning rate at the beginning; falls in a line to nothing")
      ->check(positive(false))
      ->capture_default_str();
  command.add_option("--seed", s.seed, "Of all that is by chance")->capture_default_str();
}

}  // namespace

void add_word2vec_options(CLI::App& command, Word2vecOptions& o) {
  command
      .add_option("--data", o.data,
                  "A text by name (see `tally data list`), or a file or folder of your own")
      ->type_name("NAME|PATH")
      ->capture_default_str();
  command
      .add_option(
          "--words", o.words,
          "lower: letters, lower-cased, with apostrophes inside; plain: what stands between "
          "white space. The end of a line ends a sentence")
      ->check(CLI::IsMember({"lower", "plain"}))
      ->capture_default_str();
  command.add_option("--workers", o.workers, "Processes to start; default: one for each core")
      ->check(CLI::Range(1, kMostWorkers));
  command
      .add_option("--servers", o.servers, "With home=server: processes to start that have the rows")
      ->check(CLI::Range(1, kMostWorkers));
  auto* const directory =
      command
          .add_option(
              "--directory", o.directory,
              "With home=server: servers that run already, by the address of their directory "
              "(see `tally serve`)")
          ->type_name("HOST:PORT");
  command
      .add_option("--server-secret", o.server_secret,
                  "With --directory: the file that their --secret-file names")
      ->type_name("FILE")
      ->needs(directory);
  add_training_options(command, o.settings);
  command
      .add_option("--plan", o.plan,
                  "How several hosts train together: \"update=average:MS\" averages their tables "
                  "every so many milliseconds (default 500), \"update=local:WORDS\" after so many "
                  "words of a worker. Or rows live with parameter servers: \"home=server "
                  "update=asp\"; \"update=ssp:S\": nobody is more than S chunks ahead")
      ->type_name("TEXT");
  command
      .add_option(
          "--output", o.output,
          "Write the vectors to FILE: word2vec's text format for .txt and .vec, binary for .bin")
      ->type_name("FILE");
  command.add_option("--json", o.json, "Append the result to FILE as one line of JSON")
      ->type_name("FILE");
  command.add_flag("--no-progress", o.quiet, "The summary only");
  command.add_option("--live", o.live_columns)->group("");  // from us to our workers
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
    TALLY_TRY(check_output("--output", options.output));
  }
  if (!options.json.empty()) TALLY_TRY(check_output("--json", options.json));
  TALLY_TRY(text_files(options.data));
  return {};
}

Result<std::vector<std::filesystem::path>> text_files(const std::string& data) {
  TALLY_TRY(const data::Location location, data::locate(data, data_cache_folder()));
  if (location.kind == data::Kind::kText) return location.train;
  return Error{.code = ErrorCode::kInvalid,
               .message = fmt::format("{} is no text but {}", data, to_string(location.kind))};
}

}  // namespace tally::app
