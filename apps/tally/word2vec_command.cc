#include "apps/tally/word2vec_command.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/tally/launch/console.h"
#include "apps/tally/launch/launcher.h"
#include "apps/tally/launch/overseer.h"
#include "apps/tally/word2vec_options.h"
#include "apps/tally/word2vec_worker.h"
#include "base/cpu.h"
#include "process/child_process.h"
#include "process/server_processes.h"
#include "tally/job.h"

namespace tally::app {
namespace {

constexpr int kWrongUsage = 2;
// For the words under way and the writing of the vectors.
constexpr auto kGrace = std::chrono::seconds(30);

constexpr const char* kFooter = R"(
Examples:
  tally data get imdb
  tally train word2vec --workers 2 --output imdb.bin
  tally train word2vec --data novel.txt.gz --dimension 200 --window 8 --epochs 15 --output novel.txt
  tally run --hosts a:8,b:8 -- tally train word2vec --data text.txt --plan "update=average:200" --output v.bin
  tally train word2vec --workers 4 --servers 2 --plan "home=server update=ssp:4" --output imdb.bin
  tally eval analogy --vectors imdb.bin --questions questions-words.txt

Starts its workers itself; under `tally run`, mpirun, srun or torchrun it joins that job instead. The workers of a
host train one pair of tables in shared memory, without waiting for each other; with home=server the rows live with
parameter servers. Ctrl-C once: they stop, and the vectors are
written as they are; twice: at once.

Exit codes: 0 trained; 1 something failed; 2 wrong usage, nothing was started; 130 interrupted. Others are those of
`tally run`.)";

// Whether somebody else has started this process as a rank.
Result<bool> is_rank() {
  TALLY_TRY(const JobOptions job,
            options_from([](const char* name) -> const char* { return std::getenv(name); }));
  return job.launcher != "none" || std::getenv("RANK") != nullptr;
}

// Of the terminal that stdout is; 0 if it is none.
int terminal_columns() {
  const char* const kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  if (dumb || ::isatty(STDOUT_FILENO) != 1) return 0;
  winsize size{};
  const bool told = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return told ? size.ws_col : 80;
}

// Whoever comes, and leaves in good order, is no news.
bool is_news(const std::string& sentence) {
  return sentence.find(" joined") == std::string::npos &&
         sentence.find(": it left") == std::string::npos;
}

// Servers that live as long as the workers do, with the job's secret. What happens to them is told
// until the workers have ended.
void start_servers_with(launch::LaunchHooks& hooks, int count,
                        std::unique_ptr<process::ServerProcesses>& servers,
                        std::atomic<bool>& is_over) {
  hooks.before_start = [count, &servers, &is_over, before = hooks.before_start](
                           const launch::JobStart& start,
                           launch::Console& console) -> Result<launch::Variables> {
    TALLY_TRY(launch::Variables variables, before(start, console));
    TALLY_TRY(servers,
              process::ServerProcesses::start({.servers = count, .secret = start.secret},
                                              [&is_over, &console](const std::string& sentence) {
                                                if (!is_over && is_news(sentence))
                                                  console.say(sentence);
                                              }));
    variables.emplace_back("TALLY_DIRECTORY", servers->directory());
    return variables;
  };
  hooks.ended = [&servers, &is_over] {
    is_over = true;
    servers.reset();
  };
}

int launch(const Word2vecOptions& options, const std::vector<std::string>& words) {
  const int live = options.quiet ? 0 : terminal_columns();
  std::vector<std::string> command = {process::own_program()};
  command.insert(command.end(), words.begin(), words.end());
  if (live > 0) command.push_back(fmt::format("--live={}", live));
  std::error_code failed;
  launch::LaunchOptions launch{
      .command = command,
      .places = {{.host = "localhost",
                  .first = 0,
                  .count = options.workers > 0 ? options.workers : usable_cores()}},
      .job = fmt::format("train-word2vec-{}", ::getpid()),
      .speaker = "tally train",
      .folder = std::filesystem::current_path(failed).string(),
      .prefixes = false,
      .live = live > 0,
      .grace = kGrace};
  launch::Overseer overseer(launch.watch, /*verbose=*/false);
  launch.hooks = overseer.hooks();
  std::atomic<bool> is_over = false;
  std::unique_ptr<process::ServerProcesses> servers;
  if (options.settings.rule.uses_servers() && options.directory.empty())
    start_servers_with(launch.hooks, std::max(options.servers, 1), servers, is_over);
  return launch::run_job(launch);
}

int run(Word2vecOptions& options, const std::vector<std::string>& words) {
  const auto refuse = [](const std::string& message) {
    fmt::print(stderr, "tally train: {}\n", message);
    return kWrongUsage;
  };
  const auto joins = is_rank();
  if (!joins) return refuse(joins.error().message);
  if (const auto checked = complete(options); !checked) return refuse(checked.error().message);
  return *joins ? run_word2vec_worker(options) : launch(options, words);
}

}  // namespace

void add_word2vec_command(CLI::App& train, const std::vector<std::string>& words, int& exit_code) {
  CLI::App& command =
      *train.add_subcommand("word2vec", fmt::format("Train {}", kWord2vecDescription));
  command.footer(kFooter);
  const auto options = std::make_shared<Word2vecOptions>();
  add_word2vec_options(command, *options);
  command.callback([options, &words, &exit_code] { exit_code = run(*options, words); });
}

}  // namespace tally::app
