#pragma once
// What the readers of this folder share about JSON; included by its .cc files only.
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tally/checkpoint.h"

namespace tally::checkpoint {

// A whole JSON text in which no object has a key twice; nothing if it is not one. Never throws.
std::optional<nlohmann::json> parse_json(std::string_view text);

// As a JSON string with its quotes. Bytes that are not UTF-8 are replaced.
std::string json_quoted(std::string_view text);

// The member of an object; nullptr if it is not there, or `object` is none.
const nlohmann::json* member(const nlohmann::json& object, const char* name);
std::optional<std::uint64_t> whole_number(const nlohmann::json* value);
std::optional<std::string> text_of(const nlohmann::json* value);

// "dtype" and "shape" of an object, as safetensors has them. kCorrupt says what is wrong with them.
Result<TensorInfo> tensor_from(const std::string& name, const nlohmann::json& object);
// The same two as text: "dtype":"F32","shape":[2,3]
std::string fields_of(const TensorInfo& tensor);

}  // namespace tally::checkpoint
