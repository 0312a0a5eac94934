#include "exchange/server/server_place.h"

#include <gtest/gtest.h>

namespace tally::exchange {
namespace {

TEST(ServerPlace, TheDirectoryInsideRankZeroGetsTheLimitsOfTheJob) {
  const auto options = directory_options(
      {.replicas = 2, .host = "127.0.0.2", .silence_limit = std::chrono::seconds(7)}, 3);
  EXPECT_EQ(options.listen, "127.0.0.2:0");
  EXPECT_EQ(options.servers, 3);
  EXPECT_EQ(options.replicas, 2);
  EXPECT_EQ(options.silence_limit, std::chrono::seconds(7));
}

TEST(ServerPlace, ServersOfTheLauncherAreUsedUnlessTheOptionsNameOthers) {
  const auto variable = [](const char* name) -> const char* {
    return std::string_view(name) == "TALLY_DIRECTORY" ? "127.0.0.1:29500" : nullptr;
  };
  EXPECT_EQ(with_launcher({}, variable)->directory, "127.0.0.1:29500");
  EXPECT_EQ(with_launcher({.directory = "10.0.0.1:1"}, variable)->directory, "10.0.0.1:1");
  EXPECT_EQ(with_launcher({.count = 2}, variable)->directory, "");
  EXPECT_EQ(with_launcher({}, [](const char*) -> const char* { return nullptr; })->directory, "");
}

}  // namespace
}  // namespace tally::exchange
