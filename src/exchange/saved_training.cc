#include "exchange/saved_training.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "base/errors.h"
#include "checkpoint/json.h"

namespace tally::exchange {
namespace {

using nlohmann::json;

// Throws a json::exception, or std::out_of_range for an unknown parameter.
Result<SavedTraining> training_from(const json& trainer, const TrainedModel& model) {
  const OptimizerSpec& own = model.optimizers.front();
  const auto optimizer = parse_optimizer(trainer.at("optimizer").get<std::string>());
  if (optimizer.has_value() && optimizer->kind != own.kind)
    return make_error(ErrorCode::kMismatch,
                      "the checkpoint is of another optimizer: expected {}, found {}",
                      to_string(own), to_string(*optimizer));
  SavedTraining training;
  training.schedule_state = trainer.at("schedule_state").get<std::string>();
  if (trainer.contains("loss_scale")) {
    const double scale = trainer.at("loss_scale").get<double>();
    if (!(scale > 0)) return corrupt("the checkpoint's loss scale is {}, must be above 0", scale);
    training.loss_scale = scale;
    training.good_updates = trainer.value("good_updates", std::uint64_t{0});
  }
  SavedCourse& course = training.course;
  course.steps = trainer.at("steps").get<std::uint64_t>();
  std::map<std::string, std::size_t> index_of;
  for (std::size_t p = 0; p < model.parameters.size(); ++p) index_of[model.parameters[p].name] = p;
  for (const json& name : trainer.at("order"))
    course.order.push_back(index_of.at(name.get<std::string>()));
  std::vector<std::size_t> sorted = course.order;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return corrupt("the checkpoint's order of parameters has a duplicate");
  course.parameter_steps.resize(model.parameters.size());
  for (const auto& [name, steps] : trainer.at("parameter_steps").items())
    course.parameter_steps[index_of.at(name)] = steps.get<std::uint64_t>();
  for (const json& shard : trainer.value("shards", json::array()))
    training.shards.push_back({.done = {.epoch = shard.at("epoch").get<std::uint64_t>(),
                                        .samples = shard.at("samples").get<std::uint64_t>()},
                               .order = {.size = shard.at("size").get<std::uint64_t>(),
                                         .seed = shard.at("seed").get<std::uint64_t>(),
                                         .shuffle = shard.at("shuffle").get<bool>()}});
  return training;
}

}  // namespace

std::string to_text(const SavedTraining& training, const TrainedModel& model) {
  const SavedCourse& course = training.course;
  json parameter_steps = json::object();
  json order = json::array();
  for (std::size_t p = 0; p < model.parameters.size(); ++p)
    parameter_steps[model.parameters[p].name] = course.parameter_steps[p];
  for (const std::size_t p : course.order) order.push_back(model.parameters[p].name);
  json trainer = {{"steps", course.steps},
                  {"optimizer", to_string(model.optimizers.front())},
                  {"schedule", training.schedule},
                  {"schedule_state", training.schedule_state},
                  {"parameter_steps", parameter_steps},
                  {"order", order}};
  if (training.loss_scale) {
    trainer["loss_scale"] = *training.loss_scale;
    trainer["good_updates"] = training.good_updates;
  }
  if (!course.snapshot.empty()) trainer["snapshot"] = course.snapshot;
  for (const data::SavedShard& shard : training.shards)
    trainer["shards"].push_back({{"epoch", shard.done.epoch},
                                 {"samples", shard.done.samples},
                                 {"size", shard.order.size},
                                 {"seed", shard.order.seed},
                                 {"shuffle", shard.order.shuffle}});
  return json{{"trainer", trainer}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<SavedTraining> parse_training(const std::string& text, const TrainedModel& model) {
  try {
    return training_from(json::parse(text).at("trainer"), model);
  } catch (const json::exception& error) {
    return corrupt("the checkpoint's state: {}", error.what());
  } catch (const std::out_of_range&) {
    return corrupt("the checkpoint's state names an unknown parameter");
  }
}

}  // namespace tally::exchange
