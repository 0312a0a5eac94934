#include "apps/train/preprocessing_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace tally::app {
namespace {

using nlohmann::json;

constexpr std::array kTypes{DataType::kFloat32, DataType::kInt64};
// By data::KeyedColumn::Kind.
constexpr std::array<std::string_view, 3> kColumnKinds{"text", "whole", "number"};

json text_json(const std::string& text) {
  if (data::is_utf8(text)) return text;
  std::string hex;
  for (const char c : text) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return {{"hex", hex}};
}

// The functions below throw json::exception or std::invalid_argument for wrong content.

std::string text_in(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  const auto hex = value.at("hex").get<std::string>();
  std::string text;
  for (std::size_t at = 0; at < hex.size(); at += 2) {
    unsigned byte = 0;
    const char* const end = hex.data() + std::min(at + 2, hex.size());
    if (std::from_chars(hex.data() + at, end, byte, 16).ptr != end)
      throw std::invalid_argument("'" + hex + "' is not hexadecimal");
    text += static_cast<char>(byte);
  }
  return text;
}

json texts_json(const std::vector<std::string>& texts) {
  json array = json::array();
  for (const std::string& text : texts) array.push_back(text_json(text));
  return array;
}

std::vector<std::string> texts_in(const json& array) {
  std::vector<std::string> texts;
  for (const json& value : array) texts.push_back(text_in(value));
  return texts;
}

DataType type_in(const json& value) {
  const auto name = value.get<std::string>();
  for (const DataType type : kTypes)
    if (to_string(type) == name) return type;
  throw std::invalid_argument(name + " is not a type of samples");
}

json shape_json(const data::SampleShape& shape) {
  return {{"input", shape.input},
          {"input_type", to_string(shape.input_type)},
          {"target", shape.target},
          {"target_type", to_string(shape.target_type)}};
}

data::SampleShape shape_in(const json& object) {
  data::SampleShape shape{.input = object.at("input").get<std::vector<std::int64_t>>(),
                          .input_type = type_in(object.at("input_type")),
                          .target = object.at("target").get<std::vector<std::int64_t>>(),
                          .target_type = type_in(object.at("target_type"))};
  for (const auto* const sides : {&shape.input, &shape.target})
    for (const std::int64_t side : *sides)
      if (side < 1) throw std::invalid_argument("a side of a sample is below 1");
  if (shape.input.empty()) throw std::invalid_argument("the input has no shape");
  return shape;
}

// One object per kind of encoding, with "kind" as its name.
struct EncodingJson {
  json operator()(const std::monostate&) const { return {{"kind", "none"}}; }
  json operator()(const data::ImageEncoding& image) const {
    return {{"kind", "image"}, {"mean", image.scale.mean}, {"deviation", image.scale.deviation}};
  }
  json operator()(const data::TableEncoding& table) const {
    json columns = json::array();
    for (const data::ColumnEncoding& column : table.columns) {
      json scales = json::array();
      for (const data::FeatureScale& scale : column.features)
        scales.push_back({scale.missing, scale.mean, scale.deviation});
      columns.push_back({{"name", text_json(column.name)},
                         {"categories", texts_json(column.categories)},
                         {"missing_mean_deviation", scales}});
    }
    return {{"kind", "table"}, {"columns", columns}, {"target", table.target}};
  }
  json operator()(const data::TextEncoding& text) const {
    return {{"kind", "text"}, {"bytes", text.level == data::TextLevel::kByte}};
  }
  json operator()(const data::VectorEncoding&) const { return {{"kind", "vector"}}; }
  json operator()(const data::KeyedEncoding& keyed) const {
    json object = {{"kind", "keyed"}, {"fields", texts_json(keyed.fields)}};
    if (keyed.columns.empty()) return object;
    object["target"] = keyed.target;
    for (const data::KeyedColumn& column : keyed.columns)
      object["columns"].push_back({{"name", text_json(column.name)},
                                   {"kind", kColumnKinds.at(static_cast<std::size_t>(column.kind))},
                                   {"mean_deviation", {column.mean, column.deviation}},
                                   {"bounds", column.bounds}});
    return object;
  }
};

data::KeyedColumn::Kind column_kind_in(const json& value) {
  const auto name = value.get<std::string>();
  const auto* const found = std::find(kColumnKinds.begin(), kColumnKinds.end(), name);
  if (found == kColumnKinds.end()) throw std::invalid_argument(name + " is not a kind of columns");
  return static_cast<data::KeyedColumn::Kind>(found - kColumnKinds.begin());
}

data::KeyedEncoding keyed_in(const json& object) {
  data::KeyedEncoding keyed{.fields = texts_in(object.at("fields")), .columns = {}};
  if (!object.contains("columns")) return keyed;
  keyed.target = object.at("target").get<std::size_t>();
  if (keyed.target >= object.at("columns").size())
    throw std::invalid_argument("there is no target column");
  std::size_t slots = 0;
  for (const json& value : object.at("columns")) {
    const json& scale = value.at("mean_deviation");
    const data::KeyedColumn& column = keyed.columns.emplace_back(
        data::KeyedColumn{.name = text_in(value.at("name")),
                          .kind = column_kind_in(value.at("kind")),
                          .mean = scale.at(0).get<double>(),
                          .deviation = scale.at(1).get<double>(),
                          .bounds = value.at("bounds").get<std::vector<double>>()});
    if (keyed.columns.size() - 1 != keyed.target)
      slots += column.kind == data::KeyedColumn::Kind::kText ? 1 : 2;
  }
  if (slots != keyed.fields.size())
    throw std::invalid_argument("the columns do not fit the fields");
  return keyed;
}

data::TableEncoding table_in(const json& object) {
  data::TableEncoding table{.target = object.at("target").get<std::size_t>()};
  if (table.target >= object.at("columns").size())
    throw std::invalid_argument("there is no target column");
  for (const json& value : object.at("columns")) {
    data::ColumnEncoding& column = table.columns.emplace_back();
    column.name = text_in(value.at("name"));
    column.categories = texts_in(value.at("categories"));
    for (const json& scale : value.at("missing_mean_deviation"))
      column.features.push_back(
          {scale.at(0).get<double>(), scale.at(1).get<double>(), scale.at(2).get<double>()});
    const bool target = table.columns.size() - 1 == table.target;
    const std::size_t features = target ? 0 : std::max<std::size_t>(1, column.categories.size());
    if (column.features.size() != features)
      throw std::invalid_argument("the column " + column.name + " has too few or many features");
  }
  return table;
}

decltype(data::Preprocessing::encoding) encoding_in(const json& object,
                                                    const data::SampleShape& shape) {
  const auto kind = object.at("kind").get<std::string>();
  if (kind == "image") {
    const data::ImageEncoding image{{object.at("mean").get<std::vector<float>>(),
                                     object.at("deviation").get<std::vector<float>>()}};
    const bool fits = shape.input.size() == 3 &&
                      image.scale.mean.size() == static_cast<std::size_t>(shape.input[0]) &&
                      image.scale.deviation.size() == image.scale.mean.size();
    if (!fits) throw std::invalid_argument("the scale of pixels does not fit the images");
    return image;
  }
  if (kind == "table") {
    data::TableEncoding table = table_in(object);
    std::size_t features = 0;
    for (const data::ColumnEncoding& column : table.columns) features += column.features.size();
    if (shape.input != std::vector{static_cast<std::int64_t>(features)})
      throw std::invalid_argument("the columns do not fit the shape of the samples");
    return table;
  }
  if (kind == "text")
    return data::TextEncoding{object.at("bytes").get<bool>() ? data::TextLevel::kByte
                                                             : data::TextLevel::kCharacter};
  if (kind == "vector") return data::VectorEncoding{};
  if (kind == "keyed") {
    if (shape.input.size() != 2) throw std::invalid_argument("the samples are not of keys");
    data::KeyedEncoding keyed = keyed_in(object);
    const auto slots = static_cast<std::int64_t>(keyed.fields.size());
    if (!keyed.columns.empty() && shape.input[1] != slots)
      throw std::invalid_argument("the columns do not fit the shape of the samples");
    return keyed;
  }
  if (kind == "none") return std::monostate();
  throw std::invalid_argument("the kind " + kind + " is unknown to this version");
}

}  // namespace

json preprocessing_json(const data::Preprocessing& preprocessing) {
  return {{"shape", shape_json(preprocessing.shape)},
          {"classes", texts_json(preprocessing.classes)},
          {"encoding", std::visit(EncodingJson(), preprocessing.encoding)},
          {"target_mean", preprocessing.target_scale.mean},
          {"target_deviation", preprocessing.target_scale.deviation}};
}

Result<data::Preprocessing> preprocessing_of(const json& object) {
  try {
    data::Preprocessing result{.shape = shape_in(object.at("shape")),
                               .classes = texts_in(object.at("classes")),
                               .encoding = {}};
    result.encoding = encoding_in(object.at("encoding"), result.shape);
    result.target_scale = {.mean = object.at("target_mean").get<double>(),
                           .deviation = object.at("target_deviation").get<double>()};
    return result;
  } catch (const json::exception& error) {
    return corrupt("the preprocessing of the checkpoint: {}", error.what());
  } catch (const std::invalid_argument& error) {
    return corrupt("the preprocessing of the checkpoint: {}", error.what());
  }
}

}  // namespace tally::app
