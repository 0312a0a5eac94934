#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/tally/command_line.h"
#include "apps/tally/data_fetch.h"
#include "apps/train/evaluation.h"
#include "apps/train/report_parts.h"
#include "apps/train/train_commands.h"
#include "apps/train/use/trained_model.h"
#include "base/counted.h"
#include "base/errors.h"
#include "data/open_like.h"
#include "data/scaled_targets.h"

namespace tally::app {
namespace {

constexpr const char* kEvalRunFooter = R"(
Examples:
  tally eval runs/lenet                       on the test part of the training data
  tally eval runs/houses --data houses2.csv   on other data with the same columns
  tally eval analogy --help                   word vectors have their own commands

RUN is the folder of `tally train --checkpoint`, of which the newest checkpoint is used, or one of
its checkpoints. Without --data the command evaluates the same samples as the training did. With
--data it evaluates the test part of these data, or all of them if they have none, prepared with the
scales and classes of the training.

Exit codes: 0 success; 1 something failed; 2 wrong usage.)";

struct EvalCommand {
  std::string run;
  std::string data;
  std::string device = "auto";
  std::uint64_t batch = 64;
  bool json = false;
};

bool is_same(const std::string& path, const std::string& other) {
  std::error_code ignored;
  return path == other || std::filesystem::equivalent(path, other, ignored);
}

Result<std::unique_ptr<data::Dataset>> open_evaluated(const EvalCommand& command,
                                                      const TrainedModel& trained) {
  if (!command.data.empty()) {
    const data::Preprocessing& like = trained.state.preprocessing;
    TALLY_TRY(const data::Location location,
              data::locate_like(command.data, data_cache_folder(), like));
    if (location.test.empty() && is_same(command.data, trained.training.data))
      fmt::print(stderr,
                 "tally eval: {} has the name of the training data: if it is the same file, the "
                 "model was trained on most of these samples; without --data only the held-out "
                 "ones are evaluated\n",
                 command.data);
    return data::open_like(location, like, data::Targets::kNeeded);
  }
  TALLY_TRY(const data::ReadOptions read, read_options_of(trained.training.read));
  auto test = trained.recipe->open({.data = trained.training.data,
                                    .cache = data_cache_folder(),
                                    .train = false,
                                    .seed = trained.training.seed,
                                    .read = read});
  if (!test)
    test.error().message =
        fmt::format("the training data: {}; name other data with --data", test.error().message);
  if (test && trained.task == recipes::Task::kRegression)
    return data::scale_targets(std::move(*test), trained.state.preprocessing.target_scale);
  return test;
}

void print_score(const EvalCommand& command, const TrainedModel& trained, const Score& score,
                 std::uint64_t samples) {
  if (command.json) {
    nlohmann::json line = {{"step", trained.step}, {"samples", samples}, {"loss", score.loss}};
    if (score.accuracy) line["accuracy"] = *score.accuracy;
    if (score.auc) line["auc"] = *score.auc;
    if (score.rmse) line["rmse"] = *score.rmse;
    if (score.r2) line["r2"] = *score.r2;
    fmt::print("{}\n", line.dump());
    return;
  }
  fmt::print("{} of step {} on {}: loss {:.4f}", trained.state.recipe, trained.step,
             counted(samples, "sample"), score.loss);
  if (score.accuracy) fmt::print(", accuracy {:.2f} %", 100 * *score.accuracy);
  if (score.auc) fmt::print(", AUC {:.4f}", *score.auc);
  if (score.rmse) fmt::print(", RMSE {}", number_text(*score.rmse));
  if (score.r2) fmt::print(", R2 {:.4f}", *score.r2);
  fmt::print("\n");
}

Result<void> run_eval(const EvalCommand& command) {
  TALLY_TRY(const at::Device device, device_for(command.device));
  TALLY_TRY(const TrainedModel trained, load_model(command.run, device));
  TALLY_TRY(const auto dataset, open_evaluated(command, trained));
  if (dataset->size() == 0) return invalid("{}: no samples", command.data);
  const Score score = evaluate_alone(*trained.model, *dataset, trained.task, command.batch, device);
  print_score(command, trained, score, dataset->size());
  return {};
}

}  // namespace

int run_eval_command(const std::vector<std::string>& words) {
  CommandLine line("Evaluate a trained model", "tally eval");
  Command top = line.top();
  top.footer(kEvalRunFooter);
  EvalCommand command;
  top.add("RUN", &command.run, "Folder of `tally train --checkpoint`", {.required = true});
  top.add("--data", &command.data, "A dataset by name or path; default: that of the training",
          {.value = "NAME|PATH"});
  top.add("--json", &command.json, "Print one line of JSON");
  top.add("--batch", &command.batch, "Samples to compute at a time", {.least = 1, .most = 1 << 20});
  top.add("--device", &command.device, "auto: CUDA if available",
          {.choices = {"auto", "cpu", "cuda"}});
  top.action([&] { return guarded("tally eval", [&] { return run_eval(command); }); });
  return line.run(words).value_or(kWrongUsage);
}

}  // namespace tally::app
