#include "apps/train/train_commands.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "apps/tally/data_fetch.h"
#include "apps/tally/launch/worker_job.h"
#include "apps/tally/outputs.h"
#include "apps/train/device.h"
#include "apps/train/preparation.h"
#include "apps/train/train_options.h"
#include "base/cpu.h"
#include "process/child_process.h"
#include "process/exec.h"
#include "recipes/catalogue.h"
#include "tally/job.h"

namespace tally::app {
namespace {

constexpr const char* kTrainFooter = R"(
Examples:
  tally train lenet --data fashion-mnist --workers 2 --report report.html
  tally train gpt --data moby-dick --layers 4 --width 128 --context 64
  tally train resnet18 --data cifar10 --device cuda --precision bfloat16 --epochs 30
  tally train lenet --checkpoint runs/lenet --checkpoint-every "2 epochs"
  tally train lenet --checkpoint runs/lenet --resume --epochs 12

The command starts its workers; under `tally run`, mpirun, srun or torchrun it joins that job
instead. After one Ctrl-C the workers finish their step, and save it if there is a --checkpoint; a
second Ctrl-C ends them immediately. In a short line of progress, 80/12/5/3% are the shares of time
for compute, communication, waiting and data.

Exit codes: 0 success; 1 something failed, or the result is wrong; 2 wrong usage, nothing was
started; 130 interrupted; others as for `tally run`.)";

void print_recipes(std::FILE* to, const std::vector<std::unique_ptr<recipes::Recipe>>& recipes) {
  fmt::print(to, "tally train RECIPE [OPTIONS], where RECIPE is one of:\n");
  for (const auto& recipe : recipes)
    fmt::print(to, "  {:<10} {}\n", recipe->name(), recipe->description());
  fmt::print(to, "`tally train RECIPE --help` has its options.\n");
}

int default_workers(const TrainOptions& options) {
  if (uses_cuda(options.device)) return cuda_devices();
  return usable_cores();
}

// OpenBLAS starts its threads when it is loaded, before main(). The launcher must have no threads
// but its own, so that signals reach its main thread: it executes itself again without them. The
// workers get the number of their threads by variables.
void without_blas_threads(const std::vector<std::string>& words) {
  constexpr const char* kVariable = "OPENBLAS_NUM_THREADS";
  if (std::getenv(kVariable) != nullptr) return;
  ::setenv(kVariable, "1", 1);
  std::vector<std::string> command = {"tally-train", "train"};
  command.insert(command.end(), words.begin(), words.end());
  const std::vector<char*> arguments = process::pointers_to(command);
  ::execv("/proc/self/exe", arguments.data());
}

// `tally` beside this program starts faster, because it does not load libtorch.
std::string agent_program() {
  const std::filesystem::path tally =
      std::filesystem::path(process::own_program()).parent_path() / "tally";
  return ::access(tally.c_str(), X_OK) == 0 ? tally.string() : "";
}

class TrainLauncher {
 public:
  TrainLauncher(recipes::Recipe& recipe, const TrainOptions& options,
                std::vector<std::string> words)
      : recipe_(recipe), options_(options), words_(std::move(words)) {
    if (options_.workers == 0) options_.workers = default_workers(options_);
  }

  // Checks everything before a process is started.
  Result<void> check() {
    TALLY_TRY(check_device(options_.device));
    TALLY_TRY(check_outputs(options_));
    TALLY_TRY(const Preparation prepared,
              prepare(options_, recipe_, options_.workers, data_cache_folder()));
    servers_ = prepared.servers;
    has_servers_ = prepared.plan.home == plan::Home::kServer;
    if (has_servers_ && prepared.servers.kind != ServerChoice::Kind::kNone &&
        options_.plan.find("home=") == std::string::npos)
      fmt::print(stderr, "tally train: --servers {}: the plan is home=server\n", options_.servers);
    if (!prepared.record_steps.empty()) {
      auto fits =
          check_record_size(prepared.record_steps.size(), parameters_of(recipe_, *prepared.train));
      if (!fits) fits.error().message.insert(0, "--record-gradients: ");
      TALLY_TRY(std::move(fits));
    }
    if (!prepared.resume) return {};
    TALLY_TRY(const auto reader, checkpoint::Reader::open(prepared.resume->checkpoint));
    TALLY_TRY(reader->verify());
    // Rows on servers are not in checkpoints; the trainer compares the rest.
    if (!has_servers_)
      TALLY_TRY(check_tensors(reader->tensors(), tensors_of(recipe_, *prepared.train)));
    resume_step_ = prepared.resume->step;
    return {};
  }

  int launch() {
    const int cores = usable_cores() / options_.workers;
    const std::string threads =
        std::to_string(options_.threads > 0 ? options_.threads : std::max(1, cores));
    launch::WorkerJob job{
        .recipe = recipe_.name(),
        .command = worker_command(),
        .workers = options_.workers,
        .quiet = options_.quiet,
        .variables = {{"OMP_NUM_THREADS", threads}, {"OPENBLAS_NUM_THREADS", threads}},
        .agent_program = agent_program(),
        .goes_on_without_failed = has_servers_};
    if (servers_.kind == ServerChoice::Kind::kProcesses)
      job.servers = {.servers = servers_.count,
                     .replicas = options_.replicas,
                     .snapshots = snapshots_folder(options_.checkpoint),
                     .program = agent_program()};
    job.is_news = [](const std::string& event) { return !event.ends_with("it left"); };
    return launch::run_workers(job);
  }

 private:
  std::vector<std::string> worker_command() {
    std::vector<std::string> command = {process::own_program(), "train"};
    for (const std::string& word : words_)
      if (word.rfind("--resume", 0) != 0) command.push_back(word);
    // All workers resume from the checkpoint that was verified.
    if (resume_step_) command.push_back(fmt::format("--resume={}", *resume_step_));
    return command;
  }

  recipes::Recipe& recipe_;
  TrainOptions options_;
  const std::vector<std::string> words_;
  ServerChoice servers_;
  bool has_servers_ = false;
  std::optional<std::uint64_t> resume_step_;
};

int refuse(const Error& error) { return fail("tally train", error, kWrongUsage); }

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
  const auto joins = launch::is_rank();
  if (!joins) return refuse(joins.error());
  if (*joins) return run_worker(options, recipe);
  without_blas_threads(words);
  set_threads(1);
  TrainLauncher launcher(recipe, options, words);
  if (const auto checked = launcher.check(); !checked) return refuse(checked.error());
  return launcher.launch();
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
  fmt::print(stderr, "tally train: there is no recipe {}\n", word);
  print_recipes(stderr, recipes);
  return kWrongUsage;
}

}  // namespace tally::app
