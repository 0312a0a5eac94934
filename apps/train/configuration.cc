#include "apps/train/configuration.h"

#include <variant>

#include <fmt/format.h>

#include "apps/tally/build_info.h"

namespace tally::app {

std::vector<RecordRow> configuration_of(const TrainOptions& options, recipes::Recipe& recipe,
                                        const Preparation& prepared, const SetupFacts& facts) {
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  std::vector<RecordRow> rows = {{"recipe", recipe.name()},
                                 {"data", options.data.empty() ? "made data" : options.data},
                                 {"training samples", text(prepared.train->size())},
                                 {"test samples", text(prepared.test->size())},
                                 {"workers", text(facts.workers)},
                                 {"batch per worker", text(options.batch)},
                                 {"accumulated batches", text(options.accumulate)},
                                 {"steps", text(prepared.control.total_steps)},
                                 {"optimizer", with_rate(prepared.optimizer)},
                                 {"rate", text(prepared.optimizer.rate)},
                                 {"schedule", prepared.schedule.text()},
                                 {"plan", plan::to_string(prepared.plan)},
                                 {"seed", text(options.seed)},
                                 {"precision", options.precision},
                                 {"device", facts.device},
                                 {"threads per worker", text(facts.threads)}};
  if (!prepared.data_facts.empty()) rows.insert(rows.begin() + 2, {"read as", prepared.data_facts});
  if (options.clip_norm > 0) rows.push_back({"clip norm", text(options.clip_norm)});
  if (options.clip_value > 0) rows.push_back({"clip value", text(options.clip_value)});
  if (options.tf32) rows.push_back({"tf32", "on"});
  if (facts.channels_last) rows.push_back({"channels last", "on"});
  if (options.graphs) rows.push_back({"graphs", "on"});
  if (options.shard_state) rows.push_back({"shard state", "on"});
  if (options.balance != "even") rows.push_back({"balance", options.balance});
  for (const recipes::RecipeOption& option : recipe.options())
    rows.push_back(
        {option.name, std::visit([&text](auto* value) { return text(*value); }, option.value)});
  rows.push_back({"host", facts.host});
  rows.push_back({"libtorch", facts.torch});
  rows.push_back({"tally", fmt::format("{} ({})", kVersion, kCommit)});
  return rows;
}

}  // namespace tally::app
