// Removal of a snapshot that not all servers could write.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include <fmt/format.h>

#include "base/check.h"
#include "server/snapshot/snapshot.h"
#include "server/storage/storage_test_support.h"

namespace tally::server {
namespace {

namespace fs = std::filesystem;

class SnapshotDrop : public testing::Test {
 protected:
  SnapshotDrop() {
    std::string pattern = fs::temp_directory_path().string() + "/tally_drop_XXXXXX";
    TALLY_CHECK(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
  }
  ~SnapshotDrop() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  SnapshotFile written(const std::string& name, NodeId server) const {
    const auto files =
        write_snapshot(folder_, name, server, [](const PartSink&) { return Result<void>(); });
    TALLY_CHECK(files.has_value() && files->size() == 1);
    return files->front();
  }

  fs::path folder_;
};

TEST_F(SnapshotDrop, EachRemovesItsFileAndTheLastTheFolder) {
  for (const NodeId server : {1U, 2U}) written("a", server);
  written("b", 1);
  ASSERT_TRUE(drop_snapshot(folder_, "a", 1).has_value());
  EXPECT_FALSE(fs::exists(folder_ / "a.part/server-1-00000.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / "a.part/server-2-00000.safetensors"));
  ASSERT_TRUE(drop_snapshot(folder_, "a", 2).has_value());
  EXPECT_FALSE(fs::exists(folder_ / "a.part"));
  EXPECT_TRUE(fs::exists(folder_ / "b.part/server-1-00000.safetensors"));
  EXPECT_TRUE(drop_snapshot(folder_, "a", 1).has_value());  // nothing is left to do
}

// The manifest was written but the folder could not be renamed.
TEST_F(SnapshotDrop, ManifestsGoWithTheLastFile) {
  for (const NodeId server : {1U, 2U}) {
    written("a", server);
    std::ofstream(folder_ / fmt::format("a.part/manifest-{}", server)) << "half";
  }
  std::ofstream(folder_ / "a.part/manifest.json") << "whole";
  ASSERT_TRUE(drop_snapshot(folder_, "a", 2).has_value());
  EXPECT_TRUE(fs::exists(folder_ / "a.part/manifest.json"));
  EXPECT_TRUE(fs::exists(folder_ / "a.part/manifest-1"));
  ASSERT_TRUE(drop_snapshot(folder_, "a", 1).has_value());
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(SnapshotDrop, WhatIsPublishedStays) {
  const SnapshotFile file = written("a", 1);
  ASSERT_TRUE(publish_snapshot(folder_, "a", 1, {&file, 1}).has_value());
  ASSERT_TRUE(drop_snapshot(folder_, "a", 1).has_value());
  EXPECT_TRUE(SnapshotReader::open(folder_ / "a").has_value());
  for (const char* const name : {"", "..", "a/b", "a.part"})
    EXPECT_EQ(drop_snapshot(folder_, name, 1).error().code, ErrorCode::kInvalid) << name;
}

// A server that gives up removes its own file and leaves the folder to the other servers.
TEST_F(SnapshotDrop, WhoIsNotFinishedLeavesNothingOfItsOwn) {
  MemoryBudget budget{0};
  const TableSpec spec = dense_spec(DataType::kFloat32, 10);
  const auto pieces = made(spec, budget)->pieces({}, true, 1000);
  const auto gives_up = [&](const PartSink& add) -> Result<void> {
    TALLY_TRY(add(spec, {}, pieces));
    EXPECT_TRUE(fs::exists(folder_ / "a.part/server-1-00000.safetensors"));
    return make_error(ErrorCode::kClosed, "enough");
  };
  written("a", 2);
  EXPECT_EQ(write_snapshot(folder_, "a", 1, gives_up, 1).error().message, "enough");
  EXPECT_FALSE(fs::exists(folder_ / "a.part/server-1-00000.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / "a.part/server-2-00000.safetensors"));
  ASSERT_TRUE(drop_snapshot(folder_, "a", 2).has_value());
  EXPECT_FALSE(write_snapshot(folder_, "a", 1, gives_up, 1).has_value());
  EXPECT_TRUE(fs::is_empty(folder_));
}

// A directory takes the place of the file and cannot be removed.
TEST_F(SnapshotDrop, AFileThatStaysIsTold) {
  fs::create_directories(folder_ / "a.part/server-1-00000.safetensors/in-the-way");
  const auto nothing = [](const PartSink&) { return Result<void>(); };
  EXPECT_EQ(write_snapshot(folder_, "a", 1, nothing).error().code, ErrorCode::kSystem);
  EXPECT_EQ(drop_snapshot(folder_, "a", 1).error().code, ErrorCode::kSystem);
}

}  // namespace
}  // namespace tally::server
