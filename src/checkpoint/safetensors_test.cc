#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/test_content.h"

namespace tally::checkpoint {
namespace {

TEST(Safetensors, HeaderIsAsTheFormatSays) {
  const std::vector<TensorInfo> tensors = {{"b", DataType::kUInt8, {3}},
                                           {"w\"", DataType::kFloat32, {2, 1}}};
  const auto header = encode_header(lay_out(tensors), "pt");
  ASSERT_TRUE(header.has_value());
  const std::string json = R"({"__metadata__":{"format":"pt"},)"
                           R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]},)"
                           R"("w\"":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})";
  EXPECT_EQ(header->size() % 8, 0U);
  EXPECT_EQ(header->substr(8, json.size()), json);
  EXPECT_EQ(header->substr(8 + json.size()).find_first_not_of(' '), std::string::npos);
  EXPECT_EQ(*header_length(*header, header->size() + 11), header->size() - 8);
}

TEST(Safetensors, WhatIsWrittenIsReadAgainAndEveryTensorIsAligned) {
  const std::vector<Entry> entries = lay_out(test_tensors());
  const auto header = encode_header(entries, "pt");
  ASSERT_TRUE(header.has_value());
  std::uint64_t data_bytes = 0;
  for (const Entry& entry : entries) {
    data_bytes = std::max(data_bytes, entry.end);
    EXPECT_EQ(entry.begin % size_of(entry.tensor.type), 0U) << entry.tensor.name;
  }
  const auto parsed = parse_header(std::string_view(*header).substr(8), data_bytes);
  ASSERT_TRUE(parsed.has_value()) << to_string(parsed.error());
  std::vector<TensorInfo> found;
  for (const Entry& entry : *parsed) found.push_back(entry.tensor);
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(test_tensors()));
}

struct Case {
  std::string claim;
  std::string json;
  std::uint64_t data_bytes;
  std::string message;  // a substring of the error message
};
class BadHeader : public testing::TestWithParam<Case> {};

TEST_P(BadHeader, IsRefused) {
  const auto parsed = parse_header(GetParam().json, GetParam().data_bytes);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(parsed.error().message, testing::HasSubstr(GetParam().message));
}

std::string one(const std::string& fields) { return R"({"a":{)" + fields + "}}"; }

const std::vector<Case> kCases = {
    {"Empty", "", 0, "begin with {"},
    {"SpaceFirst", " {}", 0, "begin with {"},
    {"CutOff", R"({"a":)", 0, "no JSON object"},
    {"MoreBehindIt", "{}{}", 0, "no JSON object"},
    {"NameTwice",
     R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
     R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
     2, "twice"},
    {"FieldTwice", one(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])"), 1,
     "twice"},
    {"NoDtype", one(R"("shape":[1],"data_offsets":[0,1])"), 1, "no dtype"},
    {"UnknownDtype", one(R"("dtype":"F4","shape":[1],"data_offsets":[0,1])"), 1, "F4"},
    {"NegativeShape", one(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), 1, "dimension"},
    {"FractionInShape", one(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), 1, "dimension"},
    {"HugeShape", one(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0,
     "more than"},
    {"NoOffsets", one(R"("dtype":"U8","shape":[1])"), 1, "data_offsets"},
    {"ThreeOffsets", one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), 1, "data_offsets"},
    {"BackwardOffsets", one(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), 1, "no range"},
    {"SizeAndShapeDiffer", one(R"("dtype":"F32","shape":[1],"data_offsets":[0,3])"), 3,
     "3 bytes, its shape and type have 4"},
    {"OneFieldMore", one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1)"), 1,
     "data_offsets"},
    {"HoleAtTheStart", one(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), 2, "begins at 1"},
    {"Hole",
     R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
     R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
     3, "begins at 2, what is before it ends at 1"},
    {"Overlap",
     R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
     R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
     3, "begins at 1, what is before it ends at 2"},
    {"DataMissing", one(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])"), 1, "the data at 1"},
    {"DataLeft", one(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])"), 3, "the data at 3"},
    {"MetadataOfNumbers", R"({"__metadata__":{"a":1}})", 0, "object of strings"},
    {"DeepNesting", R"({"a":)" + std::string(100000, '['), 0, "no JSON object"},
};
INSTANTIATE_TEST_SUITE_P(Safetensors, BadHeader, testing::ValuesIn(kCases),
                         [](const auto& tested) { return tested.param.claim; });

TEST(Safetensors, LengthBeyondTheFileOrTheFormatIsRefused) {
  const auto length = [](std::uint64_t value, std::uint64_t file_bytes) {
    std::string first;
    for (int i = 0; i < 8; ++i) first += static_cast<char>(value >> (8 * i));
    return header_length(first, file_bytes);
  };
  EXPECT_EQ(*length(2, 10), 2U);
  EXPECT_FALSE(length(3, 10).has_value());
  EXPECT_FALSE(length(~std::uint64_t{0}, 10).has_value());
  EXPECT_FALSE(length(kMaxHeaderBytes + 1, 1U << 30).has_value());
  EXPECT_FALSE(header_length("1234567", 7).has_value());
}

}  // namespace
}  // namespace tally::checkpoint
