#include "checkpoint/json.h"
#include "base/errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <limits>
#include <set>
#include <vector>

namespace tally::checkpoint {
namespace {

using nlohmann::json;

struct TypeName {
  DataType type;
  std::string_view name;
};
// The first name of a type is the one that is written. Truth values are read as bytes.
constexpr std::array<TypeName, kDataTypeCount + 1> kTypeNames = {{
    {DataType::kFloat32, "F32"},
    {DataType::kFloat64, "F64"},
    {DataType::kFloat16, "F16"},
    {DataType::kBFloat16, "BF16"},
    {DataType::kInt8, "I8"},
    {DataType::kUInt8, "U8"},
    {DataType::kInt32, "I32"},
    {DataType::kInt64, "I64"},
    {DataType::kUInt8, "BOOL"},
}};
constexpr std::size_t kMaxDimensions = 64;
// Limit of nesting; checkpoints nest less deeply.
constexpr int kMaxDepth = 64;

}  // namespace

std::optional<json> parse_json(std::string_view text) {
  // The parser silently keeps the last of two members with the same name, so this callback rejects
  // duplicates.
  std::vector<std::set<std::string>> keys;
  bool sound = true;
  const auto look = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) sound = false;
    if (event == json::parse_event_t::object_start && sound) keys.emplace_back();
    if (event == json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == json::parse_event_t::key && sound)
      sound = keys.back().insert(parsed.get_ref<const std::string&>()).second;
    return sound;
  };
  json value = json::parse(text.begin(), text.end(), look, /*allow_exceptions=*/false);
  if (!sound || value.is_discarded()) return std::nullopt;
  return value;
}

std::string json_quoted(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

const json* member(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::optional<std::uint64_t> whole_number(const json* value) {
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  return value->get<std::uint64_t>();
}

std::optional<std::string> text_of(const json* value) {
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

Result<TensorInfo> tensor_from(const std::string& name, const json& object) {
  TensorInfo tensor{.name = name};
  const auto type_name = text_of(member(object, "dtype"));
  if (!type_name) return corrupt(fmt::format("{}: no dtype", json_quoted(name)));
  const auto* const type =
      std::find_if(kTypeNames.begin(), kTypeNames.end(),
                   [&](const TypeName& known) { return known.name == *type_name; });
  if (type == kTypeNames.end())
    return corrupt(fmt::format("{}: unsupported dtype {}: convert it to F32, F16, BF16 or F64",
                               json_quoted(name), json_quoted(*type_name)));
  tensor.type = type->type;
  const json* const shape = member(object, "shape");
  if (shape == nullptr || !shape->is_array() || shape->size() > kMaxDimensions)
    return corrupt(fmt::format("{}: no shape", json_quoted(name)));
  for (const json& dimension : *shape) {
    const auto size = whole_number(&dimension);
    if (!size || *size > std::numeric_limits<std::int64_t>::max())
      return corrupt(fmt::format("{}: a dimension is not an integer from 0", json_quoted(name)));
    tensor.shape.push_back(static_cast<std::int64_t>(*size));
  }
  return tensor;
}

std::string fields_of(const TensorInfo& tensor) {
  const auto* const type =
      std::find_if(kTypeNames.begin(), kTypeNames.end(),
                   [&](const TypeName& known) { return known.type == tensor.type; });
  return fmt::format(R"("dtype":"{}","shape":[{}])", type->name, fmt::join(tensor.shape, ","));
}

}  // namespace tally::checkpoint
