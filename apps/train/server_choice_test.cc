#include "apps/train/option_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::app {
namespace {

using Kind = ServerChoice::Kind;

TEST(ServerChoice, AreProcessesInsideWorkersOrElsewhere) {
  EXPECT_EQ(*parse_servers(""), ServerChoice{});
  EXPECT_EQ(*parse_servers("2"), (ServerChoice{.kind = Kind::kProcesses, .count = 2}));
  EXPECT_EQ(*parse_servers("3,colocated"), (ServerChoice{.kind = Kind::kColocated, .count = 3}));
  for (const char* address : {"node7:4100", "10.0.0.1:80", "[::1]:65535"})
    EXPECT_EQ(*parse_servers(address),
              (ServerChoice{.kind = Kind::kElsewhere, .address = address}));
}

TEST(ServerChoice, AnythingElseIsRefusedWithWhatIsExpected) {
  for (const char* text : {"0", "-1", "2 ", "two", "2,", "2,inside", ",colocated", "5000",
                           "node:", "node:0", "node:70000", ":4100", "node:41x"}) {
    const auto parsed = parse_servers(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(parsed.error().message, testing::HasSubstr("2,colocated"));
  }
}

}  // namespace
}  // namespace tally::app
