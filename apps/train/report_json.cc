#include <chrono>
#include <cmath>

#include <nlohmann/json.hpp>

#include "apps/train/report.h"

namespace tally::app {
namespace {

using Json = nlohmann::ordered_json;

double seconds_of(Duration time) { return std::chrono::duration<double>(time).count(); }

// A missing value is absent; JSON has no text for values that are not finite.
void put(Json& object, const char* name, const std::optional<double>& value) {
  if (!value) return;
  object[name] = std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json point_json(const RecordPoint& point) {
  Json json{{"step", point.step}, {"epoch", point.epoch}, {"at_s", point.at_s}};
  put(json, "train_loss", point.train_loss);
  put(json, "test_loss", point.test_loss);
  put(json, "accuracy", point.accuracy);
  put(json, "auc", point.auc);
  put(json, "samples_per_s", point.samples_per_s);
  put(json, "rate", point.rate);
  return json;
}

Json times_json(const WorkerTimes& times) {
  return {{"rank", times.rank},
          {"host", times.host},
          {"compute_s", seconds_of(times.compute)},
          {"communicate_s", seconds_of(times.communicate)},
          {"wait_s", seconds_of(times.wait)},
          {"data_s", seconds_of(times.data)}};
}

}  // namespace

nlohmann::ordered_json to_json(const TrainingRecord& record) {
  Json json{{"recipe", record.recipe},
            {"data", record.data},
            {"started", record.started},
            {"outcome", record.outcome},
            {"unit", record.unit},
            {"workers", record.workers},
            {"parameters", record.parameters},
            {"steps", record.steps},
            {"epochs", record.epochs},
            {"samples", record.samples},
            {"elapsed_s", seconds_of(record.elapsed)}};
  put(json, "train_loss", record.train_loss);
  put(json, "test_loss", record.test_loss);
  put(json, "accuracy", record.accuracy);
  put(json, "best_accuracy", record.best_accuracy);
  put(json, "best_test_loss", record.best_test_loss);
  if (record.best_test_loss) json["best_step"] = record.best_step;
  put(json, "auc", record.auc);
  put(json, "rmse", record.rmse);
  put(json, "majority_accuracy", record.majority_accuracy);
  put(json, "samples_per_s", record.samples_per_s);
  if (!record.command.empty()) json["command"] = record.command;
  json["configuration"] = Json::object();
  for (const RecordRow& row : record.configuration) json["configuration"][row.key] = row.value;
  for (const char* const list : {"points", "times", "events"}) json[list] = Json::array();
  for (const RecordPoint& point : record.points) json["points"].push_back(point_json(point));
  for (const WorkerTimes& times : record.times) json["times"].push_back(times_json(times));
  if (!record.parts.empty()) json["parts"] = record.parts;
  if (!record.lost_workers.empty()) {
    for (const LostWorker& lost : record.lost_workers)
      json["lost_workers"].push_back({{"rank", lost.rank},
                                      {"after_step", lost.after_step},
                                      {"until_step", lost.until_step},
                                      {"samples", lost.samples}});
    json["lost_samples"] = lost_samples(record);
  }
  json["staleness"] = record.staleness;
  json["dropped_gradients"] = record.dropped_gradients;
  if (record.discarded_updates > 0) json["discarded_updates"] = record.discarded_updates;
  if (!record.divergence.empty()) json["divergence"] = record.divergence;
  if (record.model_memory_bytes > 0) json["model_memory_bytes"] = record.model_memory_bytes;
  put(json, "steps_per_s", record.steps_per_s);
  for (const RecordEvent& event : record.events)
    json["events"].push_back({{"step", event.step}, {"text", event.text}});
  if (!record.final_text.empty()) json["final_text"] = record.final_text;
  return json;
}

}  // namespace tally::app
