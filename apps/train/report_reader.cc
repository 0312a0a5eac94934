#include "apps/train/report_reader.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tally::app {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr double kLongestSeconds = 1e9;
constexpr const char* kRecordHint = "records are the lines that `tally train --json FILE` appends";

// Reads the members of an object. Remembers the first that is missing or has another type.
class Members final {
 public:
  Members(const OrderedJson& object, std::string& fault) : object_(object), fault_(fault) {
    if (!object.is_object()) note("a JSON object");
  }

  // Returns the member if it is present; a missing one is a fault if it is required.
  const OrderedJson* find(const char* name, bool required = false) {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    if (required) note(fmt::format("\"{}\"", name));
    return nullptr;
  }
  void read(const char* name, std::string& value, bool required = false) {
    const OrderedJson* const found = find(name, required);
    if (found == nullptr) return;
    if (!found->is_string()) return note(fmt::format("\"{}\" as a text", name));
    value = found->get<std::string>();
  }
  void read(const char* name, std::optional<double>& value) {
    const OrderedJson* const found = find(name);
    if (found == nullptr) return;
    if (!found->is_number() && !found->is_null())
      return note(fmt::format("\"{}\" as a number", name));
    value = found->is_null() ? std::numeric_limits<double>::quiet_NaN() : found->get<double>();
  }
  void read(const char* name, double& value) {
    std::optional<double> read_value;
    read(name, read_value);
    value = read_value.value_or(value);
  }
  template <typename Integer>
  void read_count(const char* name, Integer& value, bool required = false) {
    const OrderedJson* const found = find(name, required);
    if (found == nullptr) return;
    const bool fits =
        found->is_number_unsigned() && std::in_range<Integer>(found->template get<std::uint64_t>());
    if (!fits) return note(fmt::format("\"{}\" as a count", name));
    value = found->template get<Integer>();
  }
  void read(const char* name, Duration& value) {
    double seconds = 0;
    read(name, seconds);
    if (!(seconds >= 0 && seconds <= kLongestSeconds))
      return note(fmt::format("\"{}\" as seconds", name));
    value = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }
  // Calls `add` with the members of each element of an array.
  template <typename Add>
  void each(const char* name, bool required, Add add) {
    const OrderedJson* const found = find(name, required);
    if (found == nullptr) return;
    if (!found->is_array()) return note(fmt::format("\"{}\" as an array", name));
    for (const OrderedJson& element : *found) {
      Members members(element, fault_);
      add(members);
    }
  }
  void note(const std::string& what) {
    if (fault_.empty()) fault_ = what;
  }

 private:
  const OrderedJson& object_;
  std::string& fault_;
};

RecordPoint point_of(Members& members) {
  RecordPoint point;
  members.read_count("step", point.step, /*required=*/true);
  members.read("epoch", point.epoch);
  members.read("train_loss", point.train_loss);
  members.read("test_loss", point.test_loss);
  members.read("accuracy", point.accuracy);
  members.read("auc", point.auc);
  members.read("samples_per_s", point.samples_per_s);
  members.read("rate", point.rate);
  members.read("at_s", point.at_s);
  return point;
}

WorkerTimes times_of(Members& members) {
  WorkerTimes times;
  members.read_count("rank", times.rank);
  members.read("host", times.host);
  members.read("compute_s", times.compute);
  members.read("communicate_s", times.communicate);
  members.read("wait_s", times.wait);
  members.read("data_s", times.data);
  return times;
}

void read_configuration(Members& members, TrainingRecord& record) {
  const OrderedJson* const found = members.find("configuration");
  if (found == nullptr) return;
  if (!found->is_object()) return members.note("\"configuration\" as an object");
  for (const auto& [key, value] : found->items())
    record.configuration.push_back(
        {key, value.is_string()
                  ? value.get<std::string>()
                  : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
}

}  // namespace

Result<TrainingRecord> record_of(const nlohmann::ordered_json& json) {
  TrainingRecord record;
  std::string fault;
  Members members(json, fault);
  members.read("recipe", record.recipe, /*required=*/true);
  members.read("data", record.data);
  members.read("started", record.started);
  members.read("outcome", record.outcome);
  members.read("unit", record.unit);
  members.read_count("workers", record.workers);
  members.read_count("parameters", record.parameters);
  members.read_count("steps", record.steps, /*required=*/true);
  members.read("epochs", record.epochs);
  members.read_count("samples", record.samples);
  members.read("elapsed_s", record.elapsed);
  members.read("train_loss", record.train_loss);
  members.read("test_loss", record.test_loss);
  members.read("accuracy", record.accuracy);
  members.read("best_accuracy", record.best_accuracy);
  members.read("best_test_loss", record.best_test_loss);
  members.read_count("best_step", record.best_step);
  members.read("auc", record.auc);
  members.read("rmse", record.rmse);
  members.read("majority_accuracy", record.majority_accuracy);
  members.read("samples_per_s", record.samples_per_s);
  members.read("command", record.command);
  read_configuration(members, record);
  members.each("points", /*required=*/true,
               [&](Members& point) { record.points.push_back(point_of(point)); });
  members.each("times", false, [&](Members& times) { record.times.push_back(times_of(times)); });
  members.each("lost_workers", false, [&](Members& lost) {
    LostWorker& added = record.lost_workers.emplace_back();
    lost.read_count("rank", added.rank);
    lost.read_count("after_step", added.after_step);
    lost.read_count("until_step", added.until_step);
    lost.read_count("samples", added.samples);
  });
  members.each("events", false, [&](Members& event) {
    RecordEvent& added = record.events.emplace_back();
    event.read_count("step", added.step);
    event.read("text", added.text);
  });
  for (const auto& [name, counts] :
       {std::pair{"staleness", &record.staleness}, {"parts", &record.parts}}) {
    const OrderedJson* const found = members.find(name);
    if (found == nullptr) continue;
    for (const OrderedJson& count : *found) {
      if (!count.is_number_unsigned()) members.note(fmt::format("\"{}\" as counts", name));
      counts->push_back(count.is_number_unsigned() ? count.get<std::uint64_t>() : 0);
    }
  }
  members.read_count("dropped_gradients", record.dropped_gradients);
  members.read_count("discarded_updates", record.discarded_updates);
  members.read("divergence", record.divergence);
  members.read_count("model_memory_bytes", record.model_memory_bytes);
  members.read("steps_per_s", record.steps_per_s);
  members.read("final_text", record.final_text);
  if (!fault.empty())
    return Error{.code = ErrorCode::kInvalid,
                 .message = "no record of a training: expected " + fault};
  return record;
}

Result<std::vector<NamedRecord>> read_records(const std::filesystem::path& file) {
  const auto invalid_file = [&](const std::string& why) {
    return Error{.code = ErrorCode::kInvalid,
                 .message = fmt::format("{}{}; {}", file.string(), why, kRecordHint)};
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) return invalid_file(": this is a folder");
  std::ifstream in(file);
  if (!in)
    return Error{
        .code = ErrorCode::kSystem,
        .message = fmt::format("{}: {}", file.string(), std::generic_category().message(errno))};
  std::vector<NamedRecord> runs;
  const std::string name = file.stem().string();
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const OrderedJson json = OrderedJson::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) return invalid_file(fmt::format(" line {}: this is no JSON", number));
    auto record = record_of(json);
    if (!record) return invalid_file(fmt::format(" line {}: {}", number, record.error().message));
    runs.push_back({fmt::format("{}:{}", name, number), std::move(*record)});
  }
  if (runs.empty()) return invalid_file(": no records");
  if (runs.size() == 1) runs.front().name = name;
  return runs;
}

}  // namespace tally::app
