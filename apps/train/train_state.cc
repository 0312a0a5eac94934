#include "apps/train/train_state.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace tally::app {
namespace {

using nlohmann::json;

constexpr const char* kKey = "train";

Error bad(const std::string& what) { return corrupt("the state of the checkpoint {}", what); }

void put_number(json& object, const char* name, const std::optional<double>& value) {
  if (value) object[name] = *value;
}

std::optional<double> number(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

}  // namespace

Result<std::string> with_train_state(std::string_view trainer_state, const TrainState& state) {
  json whole = json::parse(trainer_state, nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object()) return bad("is not a JSON object");
  json course = {{"without_improvement", state.control.without_improvement}};
  put_number(course, "best_loss", state.control.best_loss);
  put_number(course, "best_accuracy", state.control.best_accuracy);
  whole[kKey] = {{"recipe", state.recipe},
                 {"data", state.data},
                 {"read",
                  {{"target", state.read.target},
                   {"classes", state.read.classes},
                   {"bytes", state.read.bytes},
                   {"validation", state.read.validation}}},
                 {"seed", state.seed},
                 {"epoch", state.position.epoch},
                 {"samples", state.position.samples},
                 {"course", course}};
  const bool differ = std::any_of(state.positions.begin(), state.positions.end(),
                                  [&](const auto& each) { return each != state.position; });
  if (differ)
    for (const data::Position& each : state.positions)
      whole[kKey]["positions"].push_back({{"epoch", each.epoch}, {"samples", each.samples}});
  // Names come from the command line and may be invalid UTF-8.
  return whole.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<TrainState> train_state_of(std::string_view text) {
  const json whole = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object()) return bad("is not a JSON object");
  const auto found = whole.find(kKey);
  if (found == whole.end() || !found->is_object())
    return bad("has nothing of a training in it: it was not written by `tally train`");
  TrainState state;
  for (const auto& [name, value] : {std::pair{"recipe", &state.recipe}, {"data", &state.data}}) {
    const auto entry = found->find(name);
    if (entry == found->end() || !entry->is_string()) return bad(fmt::format("has no {}", name));
    *value = entry->get<std::string>();
  }
  for (const auto& [name, value] : {std::pair{"seed", &state.seed},
                                    {"epoch", &state.position.epoch},
                                    {"samples", &state.position.samples}}) {
    const auto entry = found->find(name);
    if (entry == found->end() || !entry->is_number_unsigned())
      return bad(fmt::format("has no {}", name));
    *value = entry->get<std::uint64_t>();
  }
  // Absent if all workers are at one position.
  const json positions = found->value("positions", json::array());
  if (!positions.is_array()) return bad("has positions that are not an array");
  for (const json& each : positions) {
    const auto count = [&each](const char* name) -> std::optional<std::uint64_t> {
      const auto entry = each.is_object() ? each.find(name) : each.end();
      if (entry == each.end() || !entry->is_number_unsigned()) return std::nullopt;
      return entry->get<std::uint64_t>();
    };
    const auto epoch = count("epoch");
    const auto samples = count("samples");
    if (!epoch || !samples) return bad("has a position without epoch or samples");
    state.positions.push_back({*epoch, *samples});
  }
  if (state.positions.empty()) state.positions.push_back(state.position);
  // Absent in checkpoints of earlier versions, which had no such options.
  const json read = found->value("read", json::object());
  if (!read.is_object()) return bad("has options of the data that are not an object");
  try {
    state.read = {.target = read.value("target", ""),
                  .classes = read.value("classes", false),
                  .bytes = read.value("bytes", false),
                  .validation = read.value("validation", "")};
  } catch (const json::exception&) {
    return bad("has options of the data with wrong types");
  }
  const auto course = found->find("course");
  if (course == found->end() || !course->is_object()) return bad("has no course");
  state.control.best_loss = number(*course, "best_loss");
  state.control.best_accuracy = number(*course, "best_accuracy");
  state.control.without_improvement =
      static_cast<std::uint64_t>(number(*course, "without_improvement").value_or(0));
  return state;
}

}  // namespace tally::app
