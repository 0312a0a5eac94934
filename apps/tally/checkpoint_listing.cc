#include "apps/tally/checkpoint_listing.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace tally::app {
namespace {

using checkpoint::TensorInfo;
using nlohmann::json;

// The listing truncates longer values of state.json.
constexpr std::size_t kMaxValueBytes = 100;

std::size_t bytes_of(const TensorInfo& tensor) {
  std::size_t bytes = size_of(tensor.type);
  for (const std::int64_t size : tensor.shape) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

// Replaces control characters, which could move the cursor of the terminal: the text is from a file
// that may be damaged.
std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](unsigned char letter) { return letter < 0x20 || letter == 0x7F; }, '?');
  return text;
}

std::string dimensions_text(const TensorInfo& tensor) {
  return tensor.shape.empty() ? "-" : fmt::format("{}", fmt::join(tensor.shape, "x"));
}

std::string tensor_table(const char* title, const std::vector<TensorInfo>& tensors) {
  std::size_t bytes = 0;
  std::size_t name_width = std::string_view("name").size();
  std::size_t shape_width = std::string_view("shape").size();
  for (const TensorInfo& tensor : tensors) {
    bytes += bytes_of(tensor);
    name_width = std::max(name_width, tensor.name.size());
    shape_width = std::max(shape_width, dimensions_text(tensor).size());
  }
  std::string text = fmt::format("\n{}: {} tensor{}, {}\n", title, tensors.size(),
                                 tensors.size() == 1 ? "" : "s", format_bytes(bytes));
  if (tensors.empty()) return text;
  text += fmt::format("  {:{}}  {:8}  {:{}}  {}\n", "name", name_width, "type", "shape",
                      shape_width, "size");
  for (const TensorInfo& tensor : tensors)
    text += fmt::format("  {:{}}  {:8}  {:{}}  {}\n", printable(tensor.name), name_width,
                        to_string(tensor.type), dimensions_text(tensor), shape_width,
                        format_bytes(bytes_of(tensor)));
  return text;
}

std::string json_text(const json& value) {
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', /*ensure_ascii=*/false,
                                                    json::error_handler_t::replace);
  if (text.size() > kMaxValueBytes) text = text.substr(0, kMaxValueBytes) + "...";
  return text;
}

// Returns one line per member of the JSON object `state`, such as "plan: home=group". Members of an
// object inside it have a line each, as in "train.epoch: 3".
std::string state_lines(const std::string& state) {
  const json object = json::parse(state, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return "";
  std::string text;
  const auto add = [&text](const std::string& name, const json& value) {
    text += fmt::format("{}: {}\n", printable(name), printable(json_text(value)));
  };
  for (auto item = object.begin(); item != object.end(); ++item) {
    if (!item->is_object()) add(item.key(), *item);
    if (!item->is_object()) continue;
    for (auto member = item->begin(); member != item->end(); ++member)
      add(item.key() + "." + member.key(), *member);
  }
  return text;
}

json tensors_json(const std::vector<TensorInfo>& tensors) {
  json list = json::array();
  for (const TensorInfo& tensor : tensors)
    list.push_back({{"name", tensor.name},
                    {"type", to_string(tensor.type)},
                    {"shape", tensor.shape},
                    {"bytes", bytes_of(tensor)}});
  return list;
}

}  // namespace

CheckpointFacts facts_of(const std::filesystem::path& path) {
  CheckpointFacts facts{.path = path.string()};
  const auto reader = checkpoint::Reader::open(path);
  if (!reader.has_value()) {
    facts.damage = reader.error().message;
    return facts;
  }
  facts.readable = true;
  facts.step = (*reader)->step();
  facts.ranks = (*reader)->ranks();
  facts.tensors = (*reader)->tensors();
  facts.state_tensors = (*reader)->state_tensors();
  facts.state = (*reader)->state();
  const auto verified = (*reader)->verify();
  if (!verified.has_value()) facts.damage = verified.error().message;
  return facts;
}

std::string listing(const CheckpointFacts& facts) {
  std::string text = facts.damage.empty()
                         ? fmt::format("{}: whole\n", facts.path)
                         : fmt::format("{}: DAMAGED\n{}\n", facts.path, printable(facts.damage));
  if (!facts.readable) return text;
  text += fmt::format("step {}, written by {} rank{}\n", facts.step, facts.ranks,
                      facts.ranks == 1 ? "" : "s");
  text += state_lines(facts.state);
  text += tensor_table("model", facts.tensors);
  text += tensor_table("optimizer", facts.state_tensors);
  return text;
}

json to_json(const CheckpointFacts& facts) {
  json result{{"path", facts.path}, {"whole", facts.damage.empty()}};
  if (!facts.damage.empty()) result["damage"] = facts.damage;
  if (!facts.readable) return result;
  result["step"] = facts.step;
  result["ranks"] = facts.ranks;
  const json state = json::parse(facts.state, nullptr, /*allow_exceptions=*/false);
  result["state"] = state.is_discarded() ? json() : state;
  result["tensors"] = tensors_json(facts.tensors);
  result["state_tensors"] = tensors_json(facts.state_tensors);
  return result;
}

}  // namespace tally::app
