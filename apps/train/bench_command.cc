#include "apps/train/train_commands.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/tally/bench_scaffold.h"
#include "apps/train/device.h"
#include "base/errors.h"
#include "base/units.h"
#include "bench/train/comparison.h"
#include "bench/train/torch_worker.h"

namespace tally::app {
namespace {

namespace bt = bench::train;

constexpr const char* kTrainBenchFooter = R"(
Examples:
  tally bench train --model mlp,cnn,gpt --ranks 2 --against ddp --json train.jsonl
  tally bench train --model mlp --bucket 4MiB --rounds 10
  tally bench train --device cuda --model resnet18,gpt10m --ranks 1 --against torch,ddp --graphs
  tally bench train --device cuda --model mlp --ranks 4 --against ddp

All contenders train the same model from the same weights with the same samples; the losses of 20
steps must agree before a contender is timed. The interpreter of --python runs PyTorch: torch is a
plain loop of one process, ddp is DistributedDataParallel with NCCL where each worker has a GPU, and
with Gloo elsewhere. bench/train/README.md explains the measurement.

Exit codes: 0 success; 1 something failed; 2 wrong usage, or no GPU; 130 interrupted.)";

constexpr int kStepsOnCpu = 10;
constexpr int kStepsOnGpu = 50;

struct TrainBenchOptions {
  std::vector<std::string> models = {"mlp", "cnn", "gpt"};
  std::vector<std::string> against = {"ddp"};
  std::string bucket = "0";
  int steps = 0;  // 0: by the device
  int deadline_s = 300;
  bt::ComparisonOptions comparison;
  std::string json;
};

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Result<void> check(const bt::ComparisonOptions& options) {
  const bt::Computation& computation = options.workers.computation;
  TALLY_TRY(check_device(computation.device));
  if (computation.on_gpu()) return {};
  if (options.with_graphs) return invalid("--graphs: needs --device cuda");
  if (computation.tf32) return invalid("--tf32: needs --device cuda");
  return {};
}

Result<bench::Report> run_train_bench(const TrainBenchOptions& options,
                                      process::Progress& progress) {
  TALLY_TRY(check(options.comparison));
  bt::ComparisonOptions comparison = options.comparison;
  comparison.workers.bucket_bytes = *parse_bytes(options.bucket);
  comparison.against_torch = has(options.against, "torch");
  comparison.against_ddp = has(options.against, "ddp");
  comparison.timing.steps = options.steps > 0                         ? options.steps
                            : comparison.workers.computation.on_gpu() ? kStepsOnGpu
                                                                      : kStepsOnCpu;
  comparison.timing.command_timeout = std::chrono::seconds(options.deadline_s);
  for (const std::string& name : options.models) comparison.models.push_back(*bt::find_model(name));
  return report_on(compare(comparison, progress), comparison.workers);
}

void add_computation(Command& command, bt::Computation& computation) {
  command.add("--device", &computation.device, "Device of all contenders",
              {.choices = {"cpu", "cuda"}});
  command.add("--precision", &computation.precision,
              "bfloat16: by autocast; parameters stay float32",
              {.choices = {"float32", "bfloat16"}});
  command.add("--tf32", &computation.tf32,
              "TF32 in matrix products, too; PyTorch's default is convolutions only");
  command.add("--channels-last", &computation.channels_last,
              "Pictures with the channels as the last dimension in memory");
}

void add_worker_command(Command& top) {
  Command command = top.add_hidden_command("bench-worker");
  const auto o = std::make_shared<bt::TorchWorkerOptions>();
  command.add("--folder", &o->folder, "", {.required = true});
  command.add("--problem", &o->problem, "", {.required = true});
  command.add("--contender", &o->contender, "", {.required = true});
  command.add("--threads", &o->threads, "", {.least = 1, .most = 1024});
  command.add("--parts", &o->parts, "", {.least = 1, .most = 1024});
  command.add("--bucket", &o->bucket_bytes);
  command.add("--in-place", &o->in_place);
  command.add("--graphs", &o->graphs);
  add_computation(command, o->computation);
  command.add("--plan", &o->plan);
  command.action([o] {
    return exit_code_of(
        bt::run_torch_worker(*o, [](const char* name) { return std::getenv(name); }));
  });
}

void add_bench_command(Command& top) {
  Command command = top.add_command(
      "bench", "Training of tally beside PyTorch, its DDP and one worker, in one run");
  command.footer(kTrainBenchFooter);
  const auto o = std::make_shared<TrainBenchOptions>();
  command.add("--model", &o->models, "Models to train: mlp, cnn, gpt, resnet18, gpt10m",
              {.value = "NAME,...",
               .check = [](const std::string& name) { return problem_of(bt::find_model(name)); },
               .commas = true});
  command.add("--ranks", &o->comparison.workers.ranks, "Workers of tally and of DDP",
              {.least = 1, .most = 1024});
  command.add("--against", &o->against, "Contenders in Python: torch, ddp, or none",
              {.value = "NAME,...", .choices = {"torch", "ddp", "none"}, .commas = true});
  add_computation(command, o->comparison.workers.computation);
  command.add("--graphs", &o->comparison.with_graphs, "Another contender: tally with CUDA graphs");
  command.add("--threads", &o->comparison.workers.threads, "Threads of each worker",
              {.least = 1, .most = 1024});
  command.add("--steps", &o->steps,
              fmt::format("Timed steps of each contender in a round; default {}, on a GPU {}",
                          kStepsOnCpu, kStepsOnGpu),
              {.least = 1, .most = 250});
  command.add("--rounds", &o->comparison.timing.rounds, "Rounds; each measures all contenders",
              {.least = 1, .most = 10000});
  command.add("--bucket", &o->bucket, "Size of tally's buckets; 0: the default of the trainer",
              {.value = "SIZE",
               .check = [](const std::string& text) { return problem_of(parse_bytes(text)); }});
  command.add("--in-place", &o->comparison.workers.in_place,
              "Let tally update parameters in place");
  command.add("--deadline", &o->deadline_s, "Seconds after which a contender counts as hung",
              {.least = 1, .most = 3600});
  command.add("--python", &o->comparison.workers.python, "Interpreter with torch",
              {.value = "PATH"});
  add_json_option(command, &o->json, " per contender and model");
  command.action([o] {
    return run_bench(
        "train", o->json, [&](auto& progress) { return run_train_bench(*o, progress); },
        kWrongUsage);
  });
  add_worker_command(top);
}

}  // namespace

int run_bench_command(const std::vector<std::string>& words) {
  CommandLine line("The program of `tally bench train`.", "tally");
  Command top = line.top();
  top.require_command();
  add_bench_command(top);
  return line.run(words).value_or(kWrongUsage);
}

}  // namespace tally::app
