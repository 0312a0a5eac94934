#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "apps/tally/commands.h"
#include "apps/tally/launch/worker_job.h"
#include "apps/tally/word2vec_options.h"
#include "base/cpu.h"
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

int start_workers(const Word2vecOptions& options, const std::vector<std::string>& words) {
  launch::WorkerJob job{.recipe = "word2vec",
                        .command = {process::own_program()},
                        .workers = options.workers > 0 ? options.workers : usable_cores(),
                        .quiet = options.quiet};
  job.command.insert(job.command.end(), words.begin(), words.end());
  if (options.settings.rule.uses_servers() && options.directory.empty())
    job.servers = {.servers = std::max(options.servers, 1)};
  job.is_news = [](const std::string& event) {
    return event.find(" joined") == std::string::npos &&
           event.find(": it left") == std::string::npos;
  };
  return launch::run_workers(job);
}

int run_word2vec(Word2vecOptions& options, const std::vector<std::string>& words) {
  const auto joins = launch::is_rank();
  if (!joins) return fail("tally train", joins.error(), kWrongUsage);
  if (const auto checked = complete(options); !checked)
    return fail("tally train", checked.error(), kWrongUsage);
  return *joins ? run_word2vec_worker(options) : start_workers(options, words);
}

}  // namespace

void add_word2vec_command(Command train, const std::vector<std::string>& words) {
  Command command = train.add_command("word2vec", fmt::format("Train {}", kWord2vecDescription));
  command.footer(kWord2vecFooter);
  const auto options = std::make_shared<Word2vecOptions>();
  add_word2vec_options(command, *options);
  command.action([options, &words] { return run_word2vec(*options, words); });
}

}  // namespace tally::app
