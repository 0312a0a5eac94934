#include "checkpoint/tensor_file.h"

#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/test_content.h"

namespace tally::checkpoint {
namespace {

constexpr std::uint64_t kMuch = 1 << 20;

std::vector<FloatTensor> some_tensors() {
  return {
      {.name = "step.1/fc.weight", .shape = {2, 3}, .values = {1, -2, 3.5F, 0, -0.0F, 1e-40F}},
      {.name = "step.1/fc.bias", .shape = {0}, .values = {}},
      {.name = "step.2/scale", .shape = {}, .values = {std::numeric_limits<float>::infinity()}}};
}

std::size_t files_in(const std::filesystem::path& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

TEST(FloatTensors, AreReadAsTheyWereWritten) {
  const TestFolder folder;
  const std::filesystem::path path = folder.path() / "gradients.safetensors";
  std::ofstream(path) << "something else";  // replaced by the next line
  ASSERT_TRUE(write_float_tensors(path, some_tensors(), "pt").has_value());
  const auto read = read_float_tensors(path, kMuch);
  ASSERT_TRUE(read.has_value()) << to_string(read.error());
  const std::vector<FloatTensor> expected = some_tensors();
  ASSERT_EQ(read->size(), expected.size());
  for (const FloatTensor& tensor : expected) {
    const auto found = std::find_if(read->begin(), read->end(),
                                    [&](const auto& other) { return other.name == tensor.name; });
    ASSERT_NE(found, read->end()) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_EQ(found->values, tensor.values);
  }
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(Tensors, RangesOfSeveralTypesAreWrittenInAnyOrder) {
  const TestFolder folder;
  const std::filesystem::path path = folder.path() / "rows.safetensors";
  const std::vector<TensorInfo> infos = {
      {.name = "rows.weight", .type = DataType::kFloat32, .shape = {3, 2}},
      {.name = "rows.keys", .type = DataType::kInt64, .shape = {3}}};
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> keys = {7, 8, std::int64_t{1} << 60};
  const auto write = [&](const WriteRange& range) -> Result<void> {
    TALLY_TRY(range(0, 2, std::as_bytes(std::span(rows).subspan(2))));
    TALLY_TRY(range(1, 0, std::as_bytes(std::span(keys))));
    return range(0, 0, std::as_bytes(std::span(rows).first(2)));
  };
  ASSERT_TRUE(write_tensors(path, infos, "pt", write).has_value());
  const auto reader = Reader::open(path);
  ASSERT_TRUE(reader.has_value()) << to_string(reader.error());
  EXPECT_EQ((*reader)->path(), path);
  std::vector<float> read_rows(6);
  std::vector<std::int64_t> read_keys(3);
  ASSERT_TRUE((*reader)->read("rows.weight", 0, std::as_writable_bytes(std::span(read_rows))));
  ASSERT_TRUE((*reader)->read("rows.keys", 0, std::as_writable_bytes(std::span(read_keys))));
  EXPECT_EQ(read_rows, rows);
  EXPECT_EQ(read_keys, keys);
  const auto failed = write_tensors(
      path, infos, "pt", [](const WriteRange&) -> Result<void> { return Error{.message = "no"}; });
  EXPECT_EQ(failed.error().message, "no");
  EXPECT_TRUE(Reader::open(path).has_value());
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(FloatTensors, AFileThatCannotBeWrittenLeavesNothingBehind) {
  const TestFolder folder;
  const auto written =
      write_float_tensors(folder.path() / "none" / "gradients", some_tensors(), "pt");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kSystem);
  // A non-empty folder has the same name.
  std::filesystem::create_directory(folder.path() / "taken");
  std::filesystem::create_directory(folder.path() / "taken" / "by");
  EXPECT_FALSE(write_float_tensors(folder.path() / "taken", some_tensors(), "pt").has_value());
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(FloatTensors, TwoOfOneNameAreRefused) {
  const TestFolder folder;
  std::vector<FloatTensor> tensors = some_tensors();
  tensors[1].name = tensors[0].name;
  const auto written = write_float_tensors(folder.path() / "gradients", tensors, "pt");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(files_in(folder.path()), 0U);
}

TEST(FloatTensors, FilesThatAreTooLargeOrDamagedAreRefused) {
  const TestFolder folder;
  const std::filesystem::path path = folder.path() / "gradients";
  ASSERT_TRUE(write_float_tensors(path, some_tensors(), "pt").has_value());
  const auto bytes = std::filesystem::file_size(path);
  EXPECT_TRUE(read_float_tensors(path, bytes).has_value());
  EXPECT_EQ(read_float_tensors(path, bytes - 1).error().code, ErrorCode::kInvalid);
  std::filesystem::resize_file(path, bytes - 1);
  EXPECT_EQ(read_float_tensors(path, kMuch).error().code, ErrorCode::kCorrupt);
  std::filesystem::resize_file(path, 3);
  EXPECT_EQ(read_float_tensors(path, kMuch).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read_float_tensors(folder.path() / "none", kMuch).error().code, ErrorCode::kSystem);
}

}  // namespace
}  // namespace tally::checkpoint
