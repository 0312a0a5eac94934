#include "apps/train/train_commands.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "apps/tally/bench_scaffold.h"
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

All contenders train the same model from the same weights with the same samples; the losses of 20
steps must agree before a contender is timed. DDP is PyTorch's, run by the interpreter of --python.
bench/train/README.md explains the measurement.)";

struct TrainBenchOptions {
  std::vector<std::string> models = {"mlp", "cnn", "gpt"};
  std::string against = "ddp";
  std::string bucket = "0";
  int deadline_s = 300;
  bt::ComparisonOptions comparison;
  std::string json;
};

bench::Report run_train_bench(const TrainBenchOptions& options, process::Progress& progress) {
  bt::ComparisonOptions comparison = options.comparison;
  comparison.workers.bucket_bytes = *parse_bytes(options.bucket);
  comparison.against_ddp = options.against == "ddp";
  comparison.timing.command_timeout = std::chrono::seconds(options.deadline_s);
  for (const std::string& name : options.models) comparison.models.push_back(*bt::find_model(name));
  return report_on(compare(comparison, progress), comparison.workers);
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
  command.add("--plan", &o->plan);
  command.action([o] {
    return exit_code_of(
        bt::run_torch_worker(*o, [](const char* name) { return std::getenv(name); }));
  });
}

void add_bench_command(Command& top) {
  Command command =
      top.add_command("bench", "Training of tally beside PyTorch's DDP and one worker, in one run");
  command.footer(kTrainBenchFooter);
  const auto o = std::make_shared<TrainBenchOptions>();
  command.add("--model", &o->models, "Models to train: mlp, cnn, gpt",
              {.value = "NAME,...",
               .check = [](const std::string& name) { return problem_of(bt::find_model(name)); },
               .commas = true});
  command.add("--ranks", &o->comparison.workers.ranks, "Workers of tally and of DDP",
              {.least = 1, .most = 1024});
  command.add("--against", &o->against, "Peer", {.choices = {"ddp", "none"}});
  command.add("--threads", &o->comparison.workers.threads, "Threads of each worker",
              {.least = 1, .most = 1024});
  command.add("--steps", &o->comparison.timing.steps, "Timed steps of each contender in a round",
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
    return run_bench("train", o->json,
                     [&](auto& progress) { return run_train_bench(*o, progress); });
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
