// Snapshots and the checkpoints that name them.
#include "server/snapshot/row_snapshots.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "base/check.h"
#include "tally/job.h"

namespace tally::server {
namespace {

namespace fs = std::filesystem;

class RowSnapshots : public testing::Test {
 protected:
  RowSnapshots() {
    std::string pattern = fs::temp_directory_path().string() + "/tally_rows_XXXXXX";
    TALLY_CHECK(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
  }
  ~RowSnapshots() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  void save_alone(const checkpoint::Content& content) const {
    const auto alone = Job::in_process(1);
    TALLY_CHECK(alone.has_value());
    const auto writer =
        checkpoint::Writer::make(alone->front()->world(), {.folder = runs(), .keep = 1});
    TALLY_CHECK(writer.has_value());
    TALLY_CHECK((*writer)->save(content).has_value());
    TALLY_CHECK((*writer)->wait(Deadline::after(std::chrono::seconds(60))).has_value());
  }
  fs::path runs() const { return folder_ / "runs"; }

  fs::path folder_;
};

// A checkpoint of `step` that names the snapshot.
checkpoint::Content naming(std::uint64_t step, const fs::path& snapshot) {
  return {.step = step,
          .tensors = {},
          .model = {},
          .state_tensors = {},
          .optimizer = {},
          .state = R"({"trainer":{"snapshot":")" + snapshot.string() + R"("}})",
          .rank_state = {}};
}

TEST_F(RowSnapshots, SnapshotsAreRemovedWithTheirCheckpoints) {
  const fs::path own = runs() / "snapshots";
  const fs::path elsewhere = folder_ / "elsewhere";
  const auto made = [](const fs::path& path) {
    fs::create_directories(path);
    std::ofstream(path / "manifest.json") << "x";
    std::ofstream(path / "server-1-00000.safetensors") << "x";
    return path;
  };
  // A save that failed has left one, and a user another.
  made(own / "step-3-1f");
  made(own / "mine");
  const fs::path first = made(own / row_snapshot_name(5, 255));
  save_alone(naming(5, first));
  RowSnapshotRetention retention(runs(), own);
  ASSERT_TRUE(retention.remove_unused({}).has_value());
  EXPECT_FALSE(fs::exists(own / "step-3-1f"));
  EXPECT_TRUE(fs::exists(first));
  // The writer keeps one checkpoint. Servers of another job write to their own folder.
  const fs::path second = made(elsewhere / row_snapshot_name(10, 256));
  const fs::path of_others = made(elsewhere / row_snapshot_name(10, 257));
  retention.add(second);
  ASSERT_TRUE(retention.remove_unused(second).has_value());
  EXPECT_TRUE(fs::exists(second));
  save_alone(naming(10, second));
  ASSERT_TRUE(retention.remove_unused({}).has_value());
  EXPECT_FALSE(fs::exists(first));
  EXPECT_TRUE(fs::exists(second / "manifest.json"));
  // A checkpoint that was copied from another training names a snapshot of that one.
  save_alone(naming(15, of_others));
  ASSERT_TRUE(retention.remove_unused({}).has_value());
  EXPECT_FALSE(fs::exists(second));
  RowSnapshotRetention resumed(runs(), own);
  save_alone(naming(20, {}));
  ASSERT_TRUE(resumed.remove_unused({}).has_value());
  EXPECT_TRUE(fs::exists(of_others));
  EXPECT_TRUE(fs::exists(own / "mine" / "manifest.json"));
}

TEST_F(RowSnapshots, ADamagedCheckpointKeepsEverySnapshot) {
  const fs::path snapshot = runs() / "snapshots" / row_snapshot_name(5, 1);
  fs::create_directories(snapshot);
  save_alone(naming(5, snapshot));
  RowSnapshotRetention retention(runs(), runs() / "snapshots");
  fs::remove(checkpoint::path_of(runs(), 5) / "manifest.json");
  ASSERT_TRUE(retention.remove_unused({}).has_value());
  EXPECT_TRUE(fs::exists(snapshot));
}

TEST(RowSnapshotName, OnlyThoseOfATrainingAreKnown) {
  EXPECT_EQ(row_snapshot_name(120, 0x3f2a), "step-120-3f2a");
  EXPECT_TRUE(is_row_snapshot_name("step-120-3f2a"));
  for (const char* const name :
       {"", "step-", "step-120", "step-120-", "step--3f", "step-1-3F", "step-1-3f.part", "a-1-2"})
    EXPECT_FALSE(is_row_snapshot_name(name)) << name;
}

}  // namespace
}  // namespace tally::server
