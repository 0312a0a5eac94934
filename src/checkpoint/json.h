#pragma once
// JSON helpers; only .cc files include them.
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tally/checkpoint.h"

namespace tally::checkpoint {

// Parses a complete JSON text. Returns nullopt if the text is invalid, nests too deeply, or if an
// object has a key twice. Never throws.
std::optional<nlohmann::json> parse_json(std::string_view text);

// The text as a quoted JSON string. Bytes that are not UTF-8 are replaced.
std::string json_quoted(std::string_view text);

// The member of an object; nullptr if it is missing or `object` is no JSON object.
const nlohmann::json* member(const nlohmann::json& object, const char* name);
std::optional<std::uint64_t> whole_number(const nlohmann::json* value);
std::optional<std::string> text_of(const nlohmann::json* value);

// Reads "dtype" and "shape" of an object, as in safetensors. kCorrupt names the wrong field.
Result<TensorInfo> tensor_from(const std::string& name, const nlohmann::json& object);
// Both fields as text: "dtype":"F32","shape":[2,3]
std::string fields_of(const TensorInfo& tensor);

}  // namespace tally::checkpoint
