#include "apps/train/train_commands.h"

#include "apps/tally/bench_scaffold.h"
#include "bench/codec/codec_list.h"
#include "bench/compress/comparison.h"

namespace tally::app {
namespace {

namespace bc = bench::compress;

constexpr const char* kCompressFooter = R"(
Examples:
  tally bench compress --json compress.jsonl
  tally bench compress --models mlp --links 1gbit --codecs none,int8,topk:0.01,auto --steps 20
  tally bench compress --models gpt --plans "codec=none;codec=auto:from=int8/topk:0.01"
  tally bench compress --accuracy --codecs none,int8,sign --epochs 6

Two hosts are simulated on this machine by network namespaces; the link between them has a limited
speed in each direction. This needs root. One worker on each host trains a model of `tally bench
train` with each plan in turn. --accuracy trains a recipe on both hosts instead and reports its
accuracy with each plan. bench/compress/README.md explains the results.

Exit codes: 0 success; 1 something failed; 2 wrong usage, or no root; 130 interrupted.)";

struct CompressOptions {
  std::vector<std::string> models = {"mlp", "gpt"};
  std::string codecs = "none,bf16,int8,sign,topk:0.01,dgc:0.001,warmup=0,powersgd:2,auto";
  std::string plans;
  int deadline_s = 300;
  bc::PlanComparisonOptions comparison = {.links = {"100mbit", "1gbit", "none"},
                                          .timing = {.rounds = 3}};
  bool accuracy = false;
  bc::AccuracyOptions training;
  std::string json;
};

std::vector<std::string> plans_of(const CompressOptions& options) {
  if (!options.plans.empty()) return *bc::parse_plans(options.plans);
  std::vector<std::string> plans = *bench::codecs::parse_codec_list(options.codecs);
  for (std::string& plan : plans) plan.insert(0, "codec=");
  return plans;
}

Result<bench::Report> run_compress(const CompressOptions& options, process::Progress& progress) {
  TALLY_TRY(const auto hosts, bc::Hosts::make());
  if (options.accuracy) {
    bc::AccuracyOptions training = options.training;
    training.plans = plans_of(options);
    TALLY_TRY(hosts->shape(options.comparison.links.back()));
    return compare_accuracy(training, *hosts, progress);
  }
  bc::PlanComparisonOptions comparison = options.comparison;
  comparison.plans = plans_of(options);
  comparison.timing.command_timeout = std::chrono::seconds(options.deadline_s);
  for (const std::string& name : options.models)
    comparison.models.push_back(*bench::train::find_model(name));
  return report_on(compare_plans(comparison, *hosts, progress), comparison.threads);
}

void add_compared(Command& command, CompressOptions& o) {
  command.add(
      "--models", &o.models, "Models of `tally bench train`: mlp, cnn, gpt",
      {.value = "NAME,...",
       .check = [](const std::string& text) { return problem_of(bench::train::find_model(text)); },
       .commas = true});
  command.add("--links", &o.comparison.links, "Speed in each direction; none: unlimited",
              {.value = "RATE,...",
               .check = [](const std::string& text) { return problem_of(bc::check_link(text)); },
               .commas = true});
  command.add("--codecs", &o.codecs, "As in a plan; the first is the baseline",
              {.value = "LIST", .check = [](const std::string& text) {
                 return problem_of(bench::codecs::parse_codec_list(text));
               }});
  command.add("--plans", &o.plans, "Whole plans instead, separated by ;",
              {.value = "PLANS",
               .check = [](const std::string& text) { return problem_of(bc::parse_plans(text)); },
               .excludes = {"--codecs"}});
}

void add_measurement(Command& command, CompressOptions& o) {
  command.add("--threads", &o.comparison.threads, "Threads of each worker",
              {.least = 1, .most = 1024});
  command.add("--steps", &o.comparison.timing.steps, "Timed steps of each plan in a round",
              {.least = 1, .most = 250});
  command.add("--rounds", &o.comparison.timing.rounds, "Rounds; each measures all plans",
              {.least = 1, .most = 10000});
  command.add("--deadline", &o.deadline_s, "Seconds after which a plan counts as hung",
              {.least = 1, .most = 3600});
  add_json_option(command, &o.json, " per model, link and plan");
}

void add_accuracy(Command& command, CompressOptions& o) {
  command.add("--accuracy", &o.accuracy,
              "Train a recipe to its end instead, over the last of --links");
  command.add("--recipe", &o.training.recipe, "Recipe to train",
              {.value = "NAME", .needs = "--accuracy"});
  command.add("--data", &o.training.data, "Dataset of the recipe",
              {.value = "NAME|PATH", .needs = "--accuracy"});
  command.add("--epochs", &o.training.epochs, "Passes over the data",
              {.least = 1, .most = 10000, .needs = "--accuracy"});
  command.add("--seeds", &o.training.seeds, "Trainings of each plan",
              {.least = 1, .most = 100, .needs = "--accuracy"});
  command.add("--workers", &o.training.workers, "On both hosts together; an even number",
              {.least = 2,
               .most = 1024,
               .check = [](const std::string& text) -> std::string {
                 return (text.back() - '0') % 2 == 0 ? "" : "half of the workers run on each host";
               },
               .needs = "--accuracy"});
  command.add("--train-option", &o.training.more, "A further word for `tally train`; repeatable",
              {.needs = "--accuracy"});
}

}  // namespace

int run_compress_command(const std::vector<std::string>& words) {
  CommandLine line("Gain of codecs between two hosts, by the speed of the link",
                   "tally bench compress");
  Command top = line.top();
  top.footer(kCompressFooter);
  CompressOptions options;
  add_compared(top, options);
  add_measurement(top, options);
  add_accuracy(top, options);
  top.action([&options] {
    // No root is wrong usage.
    return run_bench(
        "compress", options.json, [&](auto& progress) { return run_compress(options, progress); },
        kWrongUsage);
  });
  return line.run(words).value_or(kWrongUsage);
}

}  // namespace tally::app
