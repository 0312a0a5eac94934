// Removal of a snapshot that not all servers could write.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include <fmt/format.h>

#include "base/check.h"
#include "server/snapshot/snapshot.h"

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
    auto writer = SnapshotWriter::begin(folder_, name, server);
    TALLY_CHECK(writer.has_value());
    const auto file = (*writer)->finish();
    TALLY_CHECK(file.has_value());
    return *file;
  }

  fs::path folder_;
};

TEST_F(SnapshotDrop, EachRemovesItsFileAndTheLastTheFolder) {
  for (const NodeId server : {1U, 2U}) written("a", server);
  written("b", 1);
  ASSERT_TRUE(drop_snapshot(folder_, "a", 1).has_value());
  EXPECT_FALSE(fs::exists(folder_ / "a.part/server-1.tally"));
  EXPECT_TRUE(fs::exists(folder_ / "a.part/server-2.tally"));
  ASSERT_TRUE(drop_snapshot(folder_, "a", 2).has_value());
  EXPECT_FALSE(fs::exists(folder_ / "a.part"));
  EXPECT_TRUE(fs::exists(folder_ / "b.part/server-1.tally"));
  EXPECT_TRUE(drop_snapshot(folder_, "a", 1).has_value());  // nothing is left to do
}

// The manifest was written but the folder could not be renamed.
TEST_F(SnapshotDrop, ManifestsGoWithTheLastFile) {
  for (const NodeId server : {1U, 2U}) {
    written("a", server);
    std::ofstream(folder_ / fmt::format("a.part/manifest-{}", server)) << "half";
  }
  std::ofstream(folder_ / "a.part/manifest") << "whole";
  ASSERT_TRUE(drop_snapshot(folder_, "a", 2).has_value());
  EXPECT_TRUE(fs::exists(folder_ / "a.part/manifest"));
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
  auto first = SnapshotWriter::begin(folder_, "a", 1);
  auto second = SnapshotWriter::begin(folder_, "a", 2);
  ASSERT_TRUE(first.has_value() && second.has_value());
  first->reset();
  EXPECT_FALSE(fs::exists(folder_ / "a.part/server-1.tally"));
  EXPECT_TRUE(fs::exists(folder_ / "a.part/server-2.tally"));
  second->reset();
  EXPECT_TRUE(fs::is_empty(folder_));
}

// A directory takes the place of the file and cannot be removed.
TEST_F(SnapshotDrop, AFileThatStaysIsTold) {
  fs::create_directories(folder_ / "a.part/server-1.tally/in-the-way");
  EXPECT_EQ(SnapshotWriter::begin(folder_, "a", 1).error().code, ErrorCode::kSystem);
  EXPECT_EQ(drop_snapshot(folder_, "a", 1).error().code, ErrorCode::kSystem);
}

}  // namespace
}  // namespace tally::server
