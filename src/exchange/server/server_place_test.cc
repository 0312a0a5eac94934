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

}  // namespace
}  // namespace tally::exchange
