#include "apps/train/model_state.h"

#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/train/preprocessing_json.h"

namespace tally::app {
namespace {

using nlohmann::json;

const data::Preprocessing kTable{
    .shape = {.input = {4}, .target_type = DataType::kInt64},
    .classes = {"no", "yes"},
    .encoding =
        data::TableEncoding{
            .columns = {{.name = "r\xffoms", .features = {{.missing = 0.1, .mean = 1.0 / 3}}},
                        {.name = "", .categories = {"no", "yes"}},
                        {.name = "place",
                         .categories = {"a", "b", "\xc3\xa9"},
                         .features = {{0, 1e-300, 2}, {0, 0, 1}, {0, 0, 1e300}}}},
            .target = 1},
    .target_scale = {.mean = 1.0 / 3, .deviation = 7}};

// Texts and numbers come back exactly, also texts that are not UTF-8.
TEST(ModelState, TableComesBackExactly) {
  const ModelState state{
      .recipe = "mlp", .options = {{"width", 64}, {"dropout", 0.1}}, .preprocessing = kTable};
  const auto text = with_model_state(R"({"trainer": {"steps": 1}})", state);
  ASSERT_TRUE(text.has_value());
  EXPECT_NE(text->find("\"steps\":1"), std::string::npos);
  const auto back = model_state_of(*text);
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->recipe, "mlp");
  EXPECT_EQ(back->options, state.options);
  EXPECT_EQ(back->preprocessing.classes, kTable.classes);
  EXPECT_EQ(back->preprocessing.shape.input, kTable.shape.input);
  EXPECT_EQ(back->preprocessing.target_scale.mean, kTable.target_scale.mean);
  EXPECT_EQ(back->preprocessing.target_scale.deviation, 7);
  const auto& found = std::get<data::TableEncoding>(back->preprocessing.encoding);
  const auto& expected = std::get<data::TableEncoding>(kTable.encoding);
  EXPECT_EQ(found.target, expected.target);
  ASSERT_EQ(found.columns.size(), expected.columns.size());
  for (std::size_t i = 0; i < found.columns.size(); ++i) {
    EXPECT_EQ(found.columns[i].name, expected.columns[i].name);
    EXPECT_EQ(found.columns[i].categories, expected.columns[i].categories);
    ASSERT_EQ(found.columns[i].features.size(), expected.columns[i].features.size());
    for (std::size_t f = 0; f < found.columns[i].features.size(); ++f) {
      EXPECT_EQ(found.columns[i].features[f].missing, expected.columns[i].features[f].missing);
      EXPECT_EQ(found.columns[i].features[f].mean, expected.columns[i].features[f].mean);
      EXPECT_EQ(found.columns[i].features[f].deviation, expected.columns[i].features[f].deviation);
    }
  }
}

TEST(ModelState, OtherEncodingsComeBack) {
  const std::vector<data::Preprocessing> table = {
      {.shape = {.input = {3, 2, 2}},
       .classes = {"a"},
       .encoding = data::ImageEncoding{{{0.1F, 0.2F, 0.3F}, {1, 2, 3}}}},
      {.shape = {.input = {8}, .input_type = DataType::kInt64, .target = {8}},
       .classes = {"\x80", "a", "\n"},
       .encoding = data::TextEncoding{data::TextLevel::kByte}},
      {.shape = {.input = {9}}, .classes = {}, .encoding = data::VectorEncoding{}},
      {.shape = {.input = {2, 3}, .input_type = DataType::kInt64},
       .classes = {"0", "1"},
       .encoding = data::KeyedEncoding{.fields = {"user", "film", "genre"}, .columns = {}}},
      {.shape = {.input = {2, 3}, .input_type = DataType::kInt64},
       .classes = {"0", "1"},
       .encoding = data::KeyedEncoding{.fields = {"\xff", "n", "n value"},
                                       .columns = {{.name = "\xff"},
                                                   {.name = "y"},
                                                   {.name = "n",
                                                    .kind = data::KeyedColumn::Kind::kNumber,
                                                    .mean = 1.0 / 3,
                                                    .deviation = 1e-300,
                                                    .bounds = {-0.1, 1e300}}},
                                       .target = 1}},
      {.shape = {.input = {5}}, .classes = {}, .encoding = {}},
  };
  for (const data::Preprocessing& one : table) {
    const auto back = preprocessing_of(json::parse(preprocessing_json(one).dump()));
    ASSERT_TRUE(back.has_value()) << back.error().message;
    EXPECT_EQ(back->encoding.index(), one.encoding.index());
    EXPECT_EQ(back->classes, one.classes);
    EXPECT_EQ(back->shape.input, one.shape.input);
    EXPECT_EQ(preprocessing_json(*back), preprocessing_json(one));
  }
}

TEST(ModelState, DamageIsRefusedWithItsPlace) {
  const auto refused = [](const std::string& pointer, const json& value) {
    json object = preprocessing_json(kTable);
    object[json::json_pointer(pointer)] = value;
    const auto result = preprocessing_of(object);
    EXPECT_FALSE(result.has_value()) << pointer;
    return result ? std::string() : result.error().message;
  };
  EXPECT_NE(refused("/shape/input", {5}).find("do not fit the shape"), std::string::npos);
  EXPECT_NE(refused("/shape/input", {-1}).find("below 1"), std::string::npos);
  EXPECT_NE(refused("/shape/input_type", "F8").find("F8"), std::string::npos);
  EXPECT_NE(refused("/encoding/kind", "smell").find("smell"), std::string::npos);
  EXPECT_NE(refused("/encoding/target", 7).find("target"), std::string::npos);
  EXPECT_NE(refused("/encoding/columns/2/categories", {"a"}).find("place"), std::string::npos);
  EXPECT_NE(refused("/encoding/columns/0/name", {{"hex", "zz"}}).find("zz"), std::string::npos);
  const data::Preprocessing keyed{
      .shape = {.input = {2, 1}, .input_type = DataType::kInt64},
      .encoding = data::KeyedEncoding{
          .fields = {"a"}, .columns = {{.name = "a"}, {.name = "y"}}, .target = 1}};
  for (const auto& [pointer, value] : std::map<std::string, json>{{"/encoding/target", 2},
                                                                  {"/encoding/columns/0/kind", "x"},
                                                                  {"/encoding/fields", {"a", "b"}},
                                                                  {"/shape/input", {2, 2}}}) {
    json object = preprocessing_json(keyed);
    ASSERT_TRUE(preprocessing_of(object).has_value());
    object[json::json_pointer(pointer)] = value;
    EXPECT_FALSE(preprocessing_of(object).has_value()) << pointer;
  }
  EXPECT_FALSE(model_state_of(R"({"train": {}})").has_value());
  EXPECT_FALSE(model_state_of("x").has_value());
}

}  // namespace
}  // namespace tally::app
