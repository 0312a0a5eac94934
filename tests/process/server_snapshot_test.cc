// Snapshots of servers in several processes, of which one cannot write.
#include <filesystem>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process/server_crew.h"

namespace tally::process {
namespace {

namespace fs = std::filesystem;

// Names of the files that servers have written into `folder`.
std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") names.insert(entry.path().filename());
  return names;
}

TEST(ServerSnapshot, ThatOneServerCannotWriteLeavesNothingOfTheOthers) {
  const Folder folder;
  const fs::path snapshots = folder.path() + "/snapshots";
  ServerCrew crew(
      {.servers = 2, .workers = 0, .server_words = {"--snapshots", snapshots.string()}});
  const auto client = server::Client::connect(crew.client_options(0));
  ASSERT_TRUE(client.has_value()) << client.error().message;
  ASSERT_TRUE((*client)->define({.name = "w", .count = 1000}, soon()).has_value());
  const auto first = (*client)->snapshot("first", soon());
  ASSERT_TRUE(first.has_value()) << first.error().message;
  const std::set<std::string> files = files_in(*first);
  ASSERT_EQ(files.size(), 2U);
  // A folder that the server does not remove is in the place of its file.
  const fs::path obstacle = snapshots / "s.part" / *files.begin();
  fs::create_directories(obstacle / "in-the-way");
  const auto failed = (*client)->snapshot("s", soon());
  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(failed.error().message, testing::HasSubstr(*files.begin() + ": cannot be removed"));
  EXPECT_EQ(files_in(snapshots / "s.part"), std::set<std::string>{*files.begin()});
  fs::remove_all(obstacle);
  const auto written = (*client)->snapshot("s", soon());
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_EQ(files_in(*written), files);
  EXPECT_FALSE(fs::exists(snapshots / "s.part"));
}

}  // namespace
}  // namespace tally::process
