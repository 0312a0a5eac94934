#include "apps/tally/launch/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::launch {
namespace {

using testing::HasSubstr;

TEST(Hosts, ListsGiveNamesAndSlots) {
  struct Case {
    const char* text;
    std::vector<Host> hosts;
  };
  const std::vector<Case> cases = {
      {"a", {{"a", 1}}},
      {"a:2,b:3", {{"a", 2}, {"b", 3}}},
      {" a:2 , b ", {{"a", 2}, {"b", 1}}},
      {"me@a.example.org:4", {{"me@a.example.org", 4}}},
      {"a:1,b:1,a:2", {{"a", 3}, {"b", 1}}},
      {"10.0.0.1:2", {{"10.0.0.1", 2}}},
      {"::1", {{"::1", 1}}},
      {"[fe80::1%eth0]:8", {{"fe80::1%eth0", 8}}},
      {"[::1]", {{"::1", 1}}},
  };
  for (const Case& each : cases) {
    const auto hosts = parse_hosts(each.text);
    ASSERT_TRUE(hosts.has_value()) << each.text << ": " << hosts.error().message;
    EXPECT_EQ(*hosts, each.hosts) << each.text;
  }
}

TEST(Hosts, SenselessListsAreRefusedWithTheReason) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "no host"},
      {"a,,b", "without a name"},
      {"a:", "no number after the colon"},
      {"a:0", "0 is not a number from 1"},
      {"a:two", "two is not a number"},
      {"a:99999", "99999 is not a number"},
      {"-oProxyCommand=x", "is no name of a host"},
      {"a b", "is no name of a host"},
      {"a;reboot", "is no name of a host"},
      {"[::1", "no ]"},
      {"[::1]2", "host [::1]2"},
      {"a:4096,a:1", "more than 4096 slots"},
  };
  for (const auto& [text, reason] : cases) {
    const auto hosts = parse_hosts(text);
    ASSERT_FALSE(hosts.has_value()) << text;
    EXPECT_EQ(hosts.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(hosts.error().message, HasSubstr(reason)) << text;
  }
}

TEST(Hosts, FilesOfBothStylesAreRead) {
  const auto hosts = parse_host_file(
      "# the rack\n"
      "a slots=2   # as Open MPI has it\n"
      "\r\n"
      "b:3\r\n"
      "\tc\tslots=4 max_slots=8\n"
      "d\n"
      "a:1");
  ASSERT_TRUE(hosts.has_value()) << hosts.error().message;
  EXPECT_EQ(*hosts, (std::vector<Host>{{"a", 3}, {"b", 3}, {"c", 4}, {"d", 1}}));
}

TEST(Hosts, AWrongLineIsNamedByItsNumber) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"a\nb slots=x\n", "line 2: slots=x"},
      {"a\n\nb 4\n", "line 3: \"4\" after host b"},
      {"# nothing\n", "no host"},
      {":4\n", "line 1"},
  };
  for (const auto& [text, reason] : cases) {
    const auto hosts = parse_host_file(text);
    ASSERT_FALSE(hosts.has_value()) << text;
    EXPECT_THAT(hosts.error().message, HasSubstr(reason)) << text;
  }
}

TEST(Hosts, RanksFillOneHostAfterTheOther) {
  const std::vector<Host> hosts = {{"a", 2}, {"b", 2}, {"c", 1}};
  struct Case {
    int size;
    std::vector<HostRanks> places;
  };
  const std::vector<Case> cases = {{0, {{"a", 0, 2}, {"b", 2, 2}, {"c", 4, 1}}},
                                   {3, {{"a", 0, 2}, {"b", 2, 1}}},
                                   {2, {{"a", 0, 2}}}};
  for (const Case& each : cases) {
    const auto places = place_ranks(hosts, each.size);
    ASSERT_TRUE(places.has_value());
    EXPECT_EQ(*places, each.places);
  }
  const auto too_many = place_ranks(hosts, 6);
  ASSERT_FALSE(too_many.has_value());
  EXPECT_THAT(too_many.error().message, HasSubstr("as in a:3"));
}

TEST(Hosts, TheUserIsNoPartOfTheAddress) {
  EXPECT_EQ(address_of("me@b"), "b");
  EXPECT_EQ(address_of("b"), "b");
}

}  // namespace
}  // namespace tally::launch
