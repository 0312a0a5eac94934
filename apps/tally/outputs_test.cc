#include "apps/tally/outputs.h"

#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "base/file.h"

namespace tally::app {
namespace {

namespace fs = std::filesystem;

class Outputs : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "outputs-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(Outputs, AFileMayComeWhereItsFolderIs) {
  EXPECT_TRUE(check_writable_file("--json", folder_ / "new.json"));
  EXPECT_FALSE(fs::exists(folder_ / "new.json"));
  const auto missing = check_writable_file("--json", folder_ / "no" / "new.json");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("--json"), std::string::npos);
  EXPECT_NE(missing.error().message.find("there is no folder"), std::string::npos);
  const auto folder = check_writable_file("--report", folder_);
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("this is a folder"), std::string::npos);
}

TEST_F(Outputs, AFolderMayHaveToBeMadeButNotInsideAFile) {
  EXPECT_TRUE(check_writable_folder("--checkpoint", folder_ / "a" / "b"));
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  ASSERT_TRUE(write_file(folder_ / "file", "x"));
  const auto inside = check_writable_folder("--checkpoint", folder_ / "file" / "b");
  ASSERT_FALSE(inside);
  EXPECT_NE(inside.error().message.find("is no folder"), std::string::npos);
}

TEST_F(Outputs, AreWrittenWholeAndLinesAdded) {
  ASSERT_TRUE(write_file(folder_ / "page", "first, longer"));
  ASSERT_TRUE(write_file(folder_ / "page", "second"));
  EXPECT_EQ(file_contents((folder_ / "page").string()), "second");
  ASSERT_TRUE(append_line(folder_ / "lines", "a"));
  ASSERT_TRUE(append_line(folder_ / "lines", "b"));
  EXPECT_EQ(file_contents((folder_ / "lines").string()), "a\nb\n");
  EXPECT_FALSE(write_file(folder_ / "no" / "page", "x"));
  EXPECT_FALSE(append_line(folder_, "x"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);
}

}  // namespace
}  // namespace tally::app
