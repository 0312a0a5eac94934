// Rows of a snapshot in memory, against the storages that wrote the snapshot.
#include "server/snapshot/saved_rows.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "server/storage/storage_test_support.h"

namespace tally::server {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kParts = 8;
constexpr std::uint64_t kRows = 700;

std::uint64_t key_of_row(std::uint64_t row) { return row * row * 1'000'003; }

class SavedRowsTest : public testing::Test {
 protected:
  SavedRowsTest() {
    std::string pattern = fs::temp_directory_path().string() + "/tally_saved_rows_XXXXXX";
    TALLY_CHECK(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    for (std::uint32_t p = 0; p < kParts; ++p) parts_.push_back(made(spec_, budget_, p));
    Rng rng(1);
    for (std::uint64_t row = 0; row < kRows; ++row) {
      const std::uint64_t key = key_of_row(row);
      const auto gradient = random_numbers<float>(3, rng);
      const Gradient pushed{.keys = {&key, 1}, .values = bytes_view(gradient)};
      TALLY_CHECK(storage_of(key).apply({&pushed, 1}, {.rate = 0.1}).has_value());
    }
  }
  ~SavedRowsTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  Storage& storage_of(std::uint64_t key) { return *parts_[part_of_key(key, kParts)]; }
  // Two servers write the parts in turn, and a dense table.
  fs::path snapshot() {
    std::vector<SnapshotFile> files;
    for (const std::uint32_t server : {0U, 1U}) {
      const auto add_parts = [&](const PartSink& add) -> Result<void> {
        for (std::uint32_t p = server; p < kParts; p += 2)
          TALLY_TRY(add(spec_, {.part = p, .parts = kParts}, parts_[p]->pieces({}, true, 2'000)));
        const TableSpec dense = dense_spec(DataType::kFloat32, 10);
        return server == 0 ? add(dense, {}, made(dense, budget_)->pieces({}, true, 2'000))
                           : Result<void>();
      };
      const auto own = write_snapshot(folder_, "a", server + 1, add_parts).value();
      files.insert(files.end(), own.begin(), own.end());
    }
    return publish_snapshot(folder_, "a", 1, files).value();
  }

  const TableSpec spec_ = sparse_spec(3, adam(), 0.5);
  MemoryBudget budget_{0};
  std::vector<std::unique_ptr<Storage>> parts_;
  fs::path folder_;
};

TEST_F(SavedRowsTest, EveryKeyHasTheRowThatAServerReturns) {
  const auto reader = SnapshotReader::open(snapshot());
  ASSERT_TRUE(reader.has_value());
  const auto saved = SavedRows::read(*reader, spec_.name);
  ASSERT_TRUE(saved.has_value()) << saved.error().message;
  EXPECT_EQ((*saved)->dimension(), 3U);
  EXPECT_EQ((*saved)->size(), kRows);
  std::vector<std::uint64_t> expected_keys;
  for (std::uint64_t row = 0; row < kRows; ++row) expected_keys.push_back(key_of_row(row));
  EXPECT_EQ((*saved)->keys(), expected_keys);
  // Among trained keys are some that the training never saw.
  std::vector<std::uint64_t> keys;
  std::vector<float> expected;
  for (std::uint64_t row = kRows; row-- > 0;)
    for (const std::uint64_t key : {key_of_row(row), key_of_row(row) + 1}) keys.push_back(key);
  for (const std::uint64_t key : keys) {
    const auto row = read_all<float>(storage_of(key), {&key, 1});
    expected.insert(expected.end(), row.begin(), row.end());
  }
  std::vector<float> found(expected.size());
  (*saved)->look_up(keys, found);
  EXPECT_EQ(found, expected);
  EXPECT_EQ((*saved)->size(), kRows);
}

TEST_F(SavedRowsTest, WhatIsNoSparseTableOrNotCompleteIsRefused) {
  const fs::path path = snapshot();
  const auto reader = SnapshotReader::open(path);
  ASSERT_TRUE(reader.has_value());
  const auto none = SavedRows::read(*reader, "other");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kMismatch);
  EXPECT_EQ(none.error().message, path.string() + ": has no table 'other'");
  EXPECT_EQ(SavedRows::read(*reader, "weights").error().code, ErrorCode::kMismatch);
  fs::remove(path / "server-2-00000.safetensors");
  const auto half = SnapshotReader::open(path);
  ASSERT_TRUE(half.has_value());
  const auto incomplete = SavedRows::read(*half, spec_.name);
  ASSERT_FALSE(incomplete.has_value());
  EXPECT_EQ(incomplete.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(incomplete.error().message.find("not here: server-2-00000.safetensors"),
            std::string::npos);
}

TEST_F(SavedRowsTest, RemovalTakesTheFilesOfASnapshotOnly) {
  const fs::path path = snapshot();
  ASSERT_TRUE(write_text(path / "notes.txt", "mine").has_value());
  ASSERT_TRUE(remove_snapshot(path).has_value());
  EXPECT_FALSE(fs::exists(path / "manifest.json"));
  EXPECT_FALSE(fs::exists(path / "server-1-00000.safetensors"));
  EXPECT_TRUE(fs::exists(path / "notes.txt"));
  fs::remove(path / "notes.txt");
  EXPECT_TRUE(remove_snapshot(path).has_value());
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(remove_snapshot(path).has_value());
}

}  // namespace
}  // namespace tally::server
