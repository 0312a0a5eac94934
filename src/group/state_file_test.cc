#include "group/state_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tally::group {
namespace {

SavedState example() {
  return {
      .job = "digits",
      .generation = 3,
      .size = 3,
      .members = {
          {.rank = 0,
           .presence = Presence::kPresent,
           .host = "a",
           .pid = 11,
           .host_identity = "boot/net:[1]/pid:[2]/0/",
           .started = 4711},
          {.rank = 1, .presence = Presence::kLost, .host = "b", .pid = 12, .fate = "not heard of"},
          {.rank = 2, .presence = Presence::kLeft, .host = "b", .pid = 13}}};
}

TEST(StateFile, TextComesBackAsTheState) {
  const auto state = state_from_text(to_text(example()));
  ASSERT_TRUE(state.has_value()) << to_string(state.error());
  EXPECT_EQ(state->job, "digits");
  EXPECT_EQ(state->generation, 3U);
  ASSERT_EQ(state->members.size(), 3U);
  EXPECT_EQ(state->members[0].host_identity, "boot/net:[1]/pid:[2]/0/");
  EXPECT_EQ(state->members[0].started, 4711U);
  EXPECT_EQ(state->members[1].started, 0U);
  EXPECT_EQ(state->members[1].presence, Presence::kLost);
  EXPECT_EQ(state->members[1].fate, "not heard of");
  EXPECT_EQ(state->members[2].pid, 13);
  EXPECT_EQ(to_text(*state), to_text(example()));
}

TEST(StateFile, OtherTextIsCorrupt) {
  for (const std::string text :
       {"", "hello\n", "tally coordinator state 1\n", "tally coordinator state 1\nsize 0\nend\n",
        "tally coordinator state 1\nsize 2\nmember 2 1 present a\nend\n",
        "tally coordinator state 1\nsize 2\nmember 0 1 asleep a\nend\n",
        "tally coordinator state 1\nsize 2\nmember 0\nend\n",
        "tally coordinator state 1\nsize 2\nprocess 0 1 a\nend\n",
        "tally coordinator state 1\nsize 2\nmember 0 1 present a\nprocess 0 1\nend\n",
        "tally coordinator state 1\nwhat\nend\n"}) {
    const auto state = state_from_text(text);
    ASSERT_FALSE(state.has_value()) << text;
    EXPECT_EQ(state.error().code, ErrorCode::kCorrupt);
  }
}

TEST(StateFile, JobIsOverWhenNobodyCouldComeBack) {
  SavedState state = example();
  EXPECT_FALSE(state.over());
  state.members[0].presence = Presence::kLeft;
  EXPECT_TRUE(state.over());
  state.size = 4;
  EXPECT_FALSE(state.over());
}

TEST(StateFile, IsReplacedAsAWholeAndForThisUserOnly) {
  const std::string path = testing::TempDir() + "tally_state_" + std::to_string(getpid());
  EXPECT_FALSE(load_state(path)->has_value());
  ASSERT_TRUE(save_state(path, example()).has_value());
  ASSERT_TRUE(save_state(path, example()).has_value());
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ((*load_state(path))->job, "digits");
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
  std::ofstream(path) << "cut";
  EXPECT_FALSE(load_state(path).has_value());
  unlink(path.c_str());
}

TEST(StateFile, FolderThatIsNotThereIsAnError) {
  EXPECT_FALSE(save_state("/nowhere/at/all", example()).has_value());
}

}  // namespace
}  // namespace tally::group
