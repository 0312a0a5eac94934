#include "apps/train/train_commands.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/tally/data_fetch.h"
#include "apps/tally/launch/launcher.h"
#include "apps/tally/launch/remote.h"
#include "apps/tally/outputs.h"
#include "apps/train/continuation.h"
#include "apps/train/device.h"
#include "apps/train/device_texts.h"
#include "apps/train/model_state.h"
#include "apps/train/preparation.h"
#include "apps/train/train_options.h"
#include "apps/train/use/initial_weights.h"
#include "base/cpu.h"
#include "base/errors.h"
#include "base/nearest_word.h"
#include "process/child_process.h"
#include "recipes/catalogue.h"
#include "server/snapshot/saved_tables.h"

namespace tally::app {
namespace {

constexpr const char* kTrainFooter = R"(
Examples:
  tally train lenet --data fashion-mnist --workers 2 --report report.html
  tally train gpt --data moby-dick --layers 4 --width 128 --context 64
  tally train resnet18 --data cifar10 --device cuda --precision bfloat16 --epochs 30
  tally train lenet --checkpoint runs/lenet --checkpoint-every "2 epochs"
  tally train lenet --checkpoint runs/lenet --resume --epochs 12
  tally train lenet --checkpoint runs/lenet --resume=auto
  tally train lenet --hosts a:2,b:2

The command starts its workers; under `tally run`, mpirun, srun or torchrun it joins that job
instead. After one Ctrl-C the workers finish their step, and save it if there is a --checkpoint; the
command that continues is printed. A second Ctrl-C ends them immediately.

Exit codes: 0 success; 1 something failed, or the result is wrong; 2 wrong usage, nothing was
started; 3 the training has diverged: the loss is not a number, or the accuracy is that of
guessing although the model was better before; 130 interrupted; others as for `tally run`.)";

void print_recipes(std::FILE* to, const std::vector<std::unique_ptr<recipes::Recipe>>& recipes) {
  fmt::print(to, "tally train RECIPE [OPTIONS], where RECIPE is one of:\n");
  for (const auto& recipe : recipes)
    fmt::print(to, "  {:<10} {}\n", recipe->name(), recipe->description());
  fmt::print(to, "`tally train RECIPE --help` has its options.\n");
}

// `tally` beside this program starts faster, because it does not load libtorch.
std::string agent_program() {
  const std::string tally = process::program_beside("tally");
  return ::access(tally.c_str(), X_OK) == 0 ? tally : "";
}

// Checks that the sparse tables of the checkpoint can continue in the home of the plan, and that
// their snapshot is whole. Servers elsewhere may have it where only they see it.
Result<void> check_rows(const checkpoint::Reader& reader, const recipes::Recipe& recipe,
                        const Preparation& prepared) {
  const bool has_servers = prepared.plan.home == plan::Home::kServer;
  const std::vector<std::string> tables = sparse_tables_of(recipe, *prepared.train);
  auto fits = server::check_home_of_rows(reader, tables, has_servers);
  if (fits && has_servers && !tables.empty() &&
      prepared.servers.kind != ServerChoice::Kind::kElsewhere)
    if (const auto opened = server::SavedTables::open(reader, server::table_of_embedding(""));
        !opened)
      fits = opened.error();
  if (!fits) fits.error().message.insert(0, "--resume: ");
  return fits;
}

// "; it was trained with --width 8": the options of the recipe in which the checkpoint differs.
std::string other_options(const std::string& state, recipes::Recipe& recipe) {
  const auto saved = model_state_of(state);
  if (!saved) return "";
  std::string words;
  const auto now = values_of(recipe);
  for (const auto& [name, value] : saved->options)
    if (const auto found = now.find(name); found == now.end() || found->second != value)
      words += fmt::format(" --{} {}", name, value);
  return words.empty() ? "" : "; it was trained with" + words;
}

// Checks everything before a process is started. The result has no data, which only the workers
// need.
Result<Preparation> check(const TrainOptions& options, recipes::Recipe& recipe,
                          const WorkerCounts& workers, const std::vector<std::string>& devices) {
  // The workers of other hosts check their own GPUs.
  if (!options.hosts.given()) {
    for (const std::string& device : devices) {
      TALLY_TRY(check_device(device));
      TALLY_TRY(check_precision(options.precision, device));
    }
    TALLY_TRY(check_graphs(options.graphs, devices));
  }
  TALLY_TRY(check_outputs(options));
  TALLY_TRY(Preparation prepared, prepare(options, recipe, workers, data_cache_folder()));
  const bool has_servers = prepared.plan.home == plan::Home::kServer;
  if (has_servers && prepared.servers.kind != ServerChoice::Kind::kNone &&
      options.plan.find("home=") == std::string::npos)
    fmt::print(stderr, "tally train: --servers {}: the plan is home=server\n", options.servers);
  if (!prepared.record_steps.empty()) {
    auto fits =
        check_record_size(prepared.record_steps.size(), parameters_of(recipe, *prepared.train));
    if (!fits) fits.error().message.insert(0, "--record-gradients: ");
    TALLY_TRY(std::move(fits));
  }
  if (!options.init.empty() && !prepared.resume) {
    auto fits = check_initial_weights(options.init, recipe, prepared.train->preprocessing(),
                                      prepared.plan.home);
    if (!fits) fits.error().message.insert(0, "--init: ");
    TALLY_TRY(std::move(fits));
  }
  if (prepared.resume) {
    TALLY_TRY(const auto reader, checkpoint::Reader::open(prepared.resume->checkpoint));
    TALLY_TRY(reader->verify());
    TALLY_TRY(check_rows(*reader, recipe, prepared));
    // Rows on servers are not in checkpoints; the trainer compares the rest.
    if (!has_servers) {
      auto fits = check_tensors(reader->tensors(), tensors_of(recipe, *prepared.train));
      if (!fits) fits.error().message += other_options(reader->state(), recipe);
      TALLY_TRY(std::move(fits));
    }
  }
  prepared.train.reset();
  prepared.test.reset();
  return prepared;
}

int refuse(const Error& error) { return fail("tally train", error, kWrongUsage); }

// Divides the cores of this host among the workers. On several hosts each host does that itself.
void set_thread_variables(const TrainOptions& options, bool has_gpus, launch::LaunchOptions& job) {
  // `tally` may have set it for this process, which is only the launcher.
  ::unsetenv("OPENBLAS_NUM_THREADS");
  if (options.threads == 0 && options.hosts.given()) return;
  const int cores = usable_cores();
  const int each = options.threads > 0 ? options.threads : std::max(1, cores / options.workers);
  const std::string threads = std::to_string(each);
  job.variables = {{"OMP_NUM_THREADS", threads}, {"OPENBLAS_NUM_THREADS", threads}};
  if (!options.hosts.given() && !has_gpus && options.workers * each > cores)
    fmt::print(stderr,
               "tally train: {} workers x {} threads share {} cores: fewer would be as fast\n",
               options.workers, each, cores);
}

int launch_workers(const TrainOptions& options, const std::string& recipe,
                   const std::vector<std::string>& words, const std::vector<std::string>& devices,
                   const Preparation& prepared) {
  const bool elsewhere = !options.hosts.remote_tally.empty();
  std::vector<std::string> command = {
      elsewhere ? options.hosts.remote_tally : process::own_program(), "train"};
  for (const std::string& word : words)
    if (word.rfind("--resume", 0) != 0) command.push_back(word);
  // All workers resume from the checkpoint that was verified.
  if (prepared.resume) command.push_back(fmt::format("--resume={}", prepared.resume->step));
  // Workers do not know which of the hosts is theirs.
  const std::string by_worker = fmt::format("{}", fmt::join(devices, ","));
  if (options.device.find(',') != std::string::npos && by_worker != options.device)
    command.push_back("--device=" + by_worker);
  launch::LaunchOptions job =
      launch::worker_job(recipe, std::move(command), options.workers, options.quiet);
  if (!options.job.empty()) job.job = options.job;
  if (options.hosts.given()) {
    const auto placed = set_hosts(options.hosts, options.workers, job);
    if (!placed) return refuse(placed.error());
    if (!elsewhere) job.remote_tally = agent_program();
  }
  set_thread_variables(options, any_uses_cuda(devices), job);
  job.agent_program = agent_program();
  job.watch.lost_after = *launch::parse_time(options.lost_after);  // checked with the options
  job.goes_on_without_failed = prepared.plan.home == plan::Home::kServer;
  if (prepared.servers.kind == ServerChoice::Kind::kProcesses)
    job.servers = {.servers = prepared.servers.count,
                   .replicas = options.replicas,
                   .snapshots = snapshots_folder(options.checkpoint),
                   .program = agent_program()};
  job.max_restarts = options.max_restarts;
  job.final_code = kDivergedExitCode;
  job.is_news = [](const std::string& event) {
    // The coordinator reports silent workers.
    const bool of_silent_worker =
        event.starts_with("the worker") && (event.find("its process lives") != std::string::npos ||
                                            event.find("is heard of again") != std::string::npos);
    return !event.ends_with("it left") && !of_silent_worker;
  };
  const auto before = newest_checkpoint(options.checkpoint);
  const int code = launch::run_job(job);
  if (code == 0) return 0;
  EarlyEnd end{.interrupted = code == launch::kSignalExitBase + SIGINT ||
                              code == launch::kSignalExitBase + SIGTERM,
               .folder = options.checkpoint,
               .words = words};
  const auto after = newest_checkpoint(options.checkpoint);
  // A checkpoint that was there before counts only if the training has resumed from it.
  if (after && (after != before || prepared.resume)) end.saved = after->step;
  if (const std::string text = continuation_of(end); !text.empty())
    fmt::print(stderr, "tally train: {}\n", text);
  return code;
}

// Returns the command line as a shell reads it, without the option that the launcher adds.
std::string shell_text(const std::vector<std::string>& words) {
  std::string text = "tally train";
  for (const std::string& word : words)
    if (!word.starts_with("--live=")) text += fmt::format(" {}", launch::quoted(word));
  return text;
}

int run_recipe(recipes::Recipe& recipe, const std::vector<std::string>& words) {
  CommandLine line("Train " + recipe.description(), "tally train " + recipe.name());
  Command top = line.top();
  top.footer(kTrainFooter);
  TrainOptions options;
  add_train_options(top, options, recipe);
  bool parsed = false;
  top.action([&parsed] {
    parsed = true;
    return 0;
  });
  const auto exit_code = line.run({words.begin() + 1, words.end()});
  if (!parsed) return exit_code.value_or(kWrongUsage);
  for (const char* const option : {"--checkpoint-every", "--keep", "--resume"})
    if (top.given(option) && options.checkpoint.empty())
      return refuse(invalid("{}: needs --checkpoint DIR", option));
  options.command = shell_text(words);
  const auto joins = launch::is_rank();
  if (!joins) return refuse(joins.error());
  // After a restart of the job its newest checkpoint is the state of the training. Before the job
  // has begun to write there, the folder only has checkpoints of earlier runs.
  if (*joins && launch::is_restart() && !options.checkpoint.empty() &&
      checkpoint::last_run(options.checkpoint) == launch::run_name())
    options.resume = "auto";
  if (*joins) return run_worker(options, recipe);
  set_threads(1);
  WorkerCounts workers{.here = 0};
  const std::vector<std::string> device_words = *parse_devices(options.device);  // was checked
  std::vector<int> on_hosts;
  if (options.hosts.given()) {
    launch::LaunchOptions places;
    const auto placed = set_hosts(options.hosts, options.workers, places);
    if (!placed) return refuse(placed.error());
    options.workers = places.size();
    // This host may be none of them; the host with the most workers needs the most memory.
    for (const launch::HostRanks& place : places.places) {
      workers.here = std::max(workers.here, place.count);
      on_hosts.push_back(place.count);
    }
  }
  if (options.workers == 0 && device_words.size() > 1)
    options.workers = static_cast<int>(device_words.size());
  if (options.workers == 0) {
    if (const auto found = check_device(options.device); !found) return refuse(found.error());
    options.workers = uses_cuda(options.device) ? cuda_devices() : usable_cores();
  }
  if (on_hosts.empty()) on_hosts.push_back(options.workers);
  const auto devices = devices_of_workers(device_words, on_hosts);
  if (!devices) return refuse(invalid("--device {}: {}", options.device, devices.error().message));
  workers.all = options.workers;
  if (workers.here == 0) workers.here = options.workers;
  const auto prepared = check(options, recipe, workers, *devices);
  if (!prepared) return refuse(prepared.error());
  if (!prepared->completion.empty()) {
    fmt::print("{}\n", prepared->completion);
    return 0;
  }
  return launch_workers(options, recipe.name(), words, *devices, *prepared);
}

}  // namespace

int run_train_command(const std::vector<std::string>& words) {
  const auto recipes = recipes::all_recipes();
  const std::string word = words.empty() ? "--list" : words.front();
  if (word == "--list" || word == "--help" || word == "-h") {
    print_recipes(stdout, recipes);
    if (word != "--list") fmt::print("{}\n", kTrainFooter);
    return 0;
  }
  for (const auto& recipe : recipes)
    if (recipe->name() == word) return run_recipe(*recipe, words);
  if (word.starts_with('-')) {
    fmt::print(stderr, "tally train: {}: the recipe stands before its options\n", word);
  } else {
    std::vector<std::string> names = {"word2vec"};
    for (const auto& recipe : recipes) names.push_back(recipe->name());
    fmt::print(stderr, "tally train: there is no recipe {}{}\n", word,
               did_you_mean(word, std::vector<std::string_view>(names.begin(), names.end())));
  }
  print_recipes(stderr, recipes);
  return kWrongUsage;
}

}  // namespace tally::app
