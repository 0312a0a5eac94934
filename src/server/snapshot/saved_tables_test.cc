// Sparse tables in files of weights.
#include "server/snapshot/saved_tables.h"

#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/tensor_file.h"

namespace tally::server {
namespace {

namespace fs = std::filesystem;

TEST(SavedTables, KeysInAFileMustBeAscending) {
  const fs::path file =
      fs::temp_directory_path() / fmt::format("tally_{}_rows.safetensors", ::getpid());
  const std::vector<std::int64_t> wrong[] = {{3, 3}, {3, 2}, {-1, 2}};
  for (const std::vector<std::int64_t>& keys : wrong) {
    const std::vector<float> values(4);
    const auto written = checkpoint::write_tensors(
        file,
        std::vector<checkpoint::TensorInfo>{
            {.name = "rows.keys", .type = DataType::kInt64, .shape = {2}},
            {.name = "rows.weight", .type = DataType::kFloat32, .shape = {2, 2}}},
        "pt", [&](const checkpoint::WriteRange& write) -> Result<void> {
          TALLY_TRY(write(0, 0, std::as_bytes(std::span(keys))));
          return write(1, 0, std::as_bytes(std::span(values)));
        });
    ASSERT_TRUE(written.has_value()) << written.error().message;
    const auto reader = checkpoint::Reader::open(file);
    ASSERT_TRUE(reader.has_value()) << reader.error().message;
    const auto tables = SavedTables::open(**reader, "");
    ASSERT_TRUE(tables.has_value()) << tables.error().message;
    const auto visited = tables->visit("rows", [](auto, auto) -> Result<void> { return {}; });
    ASSERT_FALSE(visited.has_value());
    EXPECT_THAT(visited.error().message, testing::HasSubstr("rows.keys must be ascending"));
  }
  fs::remove(file);
}

}  // namespace
}  // namespace tally::server
