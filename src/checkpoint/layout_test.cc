#include "checkpoint/layout.h"

#include <gtest/gtest.h>

namespace tally::checkpoint {
namespace {

const std::vector<TensorInfo> kTensors = {{"a", DataType::kFloat32, {2, 5}},
                                          {"none", DataType::kFloat32, {0}},
                                          {"b", DataType::kInt8, {}}};

struct CoverCase {
  std::string claim;
  std::vector<Range> ranges;
  std::string message;  // empty: covered
};

class Cover : public testing::TestWithParam<CoverCase> {};

TEST_P(Cover, IsExactOrNamesTensorAndElements) {
  const auto covered = check_cover(kTensors, GetParam().ranges);
  ASSERT_EQ(covered.has_value(), GetParam().message.empty());
  if (covered.has_value()) return;
  EXPECT_EQ(covered.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(covered.error().message, GetParam().message);
}

const std::vector<CoverCase> kCoverCases = {
    {"Whole", {{0, 0, 10, 0}, {2, 0, 1, 0}}, ""},
    {"InParts", {{0, 4, 6, 1}, {2, 0, 1, 2}, {0, 0, 4, 0}}, ""},
    {"EmptyPieces", {{0, 0, 10, 0}, {0, 99, 0, 1}, {2, 0, 1, 0}}, ""},
    {"Nothing", {}, "tensor a: no rank has elements 0 to 9 of 10"},
    {"GapAtTheStart", {{0, 1, 9, 0}, {2, 0, 1, 0}}, "tensor a: no rank has element 0 of 10"},
    {"GapInTheMiddle",
     {{0, 0, 4, 0}, {0, 6, 4, 1}, {2, 0, 1, 0}},
     "tensor a: no rank has elements 4 to 5 of 10"},
    {"GapAtTheEnd", {{0, 0, 9, 0}, {2, 0, 1, 0}}, "tensor a: no rank has element 9 of 10"},
    {"MissingTensor", {{0, 0, 10, 0}}, "tensor b: no rank has element 0 of 1"},
    {"Overlap",
     {{0, 0, 6, 0}, {0, 4, 6, 1}, {2, 0, 1, 0}},
     "tensor a: rank 0 and rank 1 both have elements 4 to 5"},
    {"Inside",
     {{0, 0, 10, 0}, {0, 4, 2, 1}, {2, 0, 1, 0}},
     "tensor a: rank 0 and rank 1 both have elements 4 to 5"},
    {"BeyondTheEnd",
     {{0, 0, 8, 0}, {0, 8, 3, 1}, {2, 0, 1, 0}},
     "tensor a: rank 1 has elements 8 to 10 of 10"},
    {"FarBeyond",
     {{0, 0, ~std::uint64_t{0}, 3}},
     "tensor a: rank 3 has elements 0 to 18446744073709551614 of 10"},
    {"OfAnEmptyTensor",
     {{0, 0, 10, 0}, {1, 0, 1, 1}, {2, 0, 1, 0}},
     "tensor none: rank 1 has element 0 of 0"},
    {"NoSuchTensor", {{3, 0, 1, 2}}, "rank 2: a piece of tensor number 3, and there are 3"},
};
INSTANTIATE_TEST_SUITE_P(Layout, Cover, testing::ValuesIn(kCoverCases),
                         [](const auto& tested) { return tested.param.claim; });

TEST(Layout, CountsElements) {
  EXPECT_EQ(*element_count({"a", DataType::kFloat32, {}}), 1U);
  EXPECT_EQ(*element_count({"a", DataType::kFloat32, {2, 3, 4}}), 24U);
  EXPECT_EQ(*element_count({"a", DataType::kFloat32, {2, 0}}), 0U);
  // Empty, although the product of the other dimensions overflows.
  EXPECT_EQ(*element_count({"a", DataType::kFloat32, {1L << 62, 1L << 62, 0}}), 0U);
  EXPECT_FALSE(element_count({"a", DataType::kFloat32, {-1}}).has_value());
  EXPECT_FALSE(element_count({"a", DataType::kFloat32, {0, -1}}).has_value());
  EXPECT_FALSE(element_count({"a", DataType::kFloat32, {1L << 31, 1L << 31}}).has_value());
  EXPECT_TRUE(element_count({"a", DataType::kUInt8, {1L << 30, 1L << 30}}).has_value());
  EXPECT_FALSE(element_count({"a", DataType::kFloat64, {1L << 30, 1L << 30}}).has_value());
}

TEST(Layout, NamesThatCannotBeAreRefused) {
  EXPECT_TRUE(check_tensors(kTensors).has_value());
  for (const std::string name : {"", "__metadata__", "__rank_state__", "\xFF", "a\xC3"})
    EXPECT_FALSE(check_tensors(std::vector<TensorInfo>{{name, DataType::kInt8, {1}}}).has_value())
        << name;
  const std::vector<TensorInfo> twice(2, kTensors[0]);
  EXPECT_EQ(check_tensors(twice).error().message, "tensor a: two have this name");
}

}  // namespace
}  // namespace tally::checkpoint
