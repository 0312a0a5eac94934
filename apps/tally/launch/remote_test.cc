#include "apps/tally/launch/remote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

LaunchOptions on(std::vector<HostRanks> places) {
  return {.command = {"prog"}, .places = std::move(places)};
}

TEST(Remote, OnlyThisMachineIsStartedDirectly) {
  const LaunchOptions options = on({{"a", 0, 1}});
  for (const char* own : {"localhost", "127.0.0.1", "::1", "me"})
    EXPECT_THAT(agent_command(options, own, "me", "/bin/tally"), IsEmpty()) << own;
  const auto command = agent_command(options, "b", "me", "/bin/tally");
  ASSERT_GE(command.size(), 4U);
  EXPECT_EQ(command.front(), "ssh");
  EXPECT_EQ(std::vector<std::string>(command.end() - 3, command.end()),
            (std::vector<std::string>{"b", "/bin/tally", "host-agent"}));
}

TEST(Remote, AShellThatIsGivenStartsAllHostsWithTheWordsAsTheyAre) {
  LaunchOptions options = on({{"a", 0, 1}});
  options.remote_shell = {"rsh", "-x"};
  options.remote_tally = "/opt/my tools/tally";
  EXPECT_THAT(agent_command(options, "localhost", "me", "/bin/tally"),
              ElementsAre("rsh", "-x", "localhost", "/opt/my tools/tally", "host-agent"));
}

TEST(Remote, WordsForAShellAreQuoted) {
  EXPECT_EQ(quoted("/usr/bin/tally-1.2"), "/usr/bin/tally-1.2");
  EXPECT_EQ(quoted("/opt/my tools/tally"), "'/opt/my tools/tally'");
  EXPECT_EQ(quoted("it's; $(x)"), "'it'\\''s; $(x)'");
  EXPECT_EQ(quoted(""), "''");
}

TEST(Remote, OtherHostsGetWhatProgramsAreFoundAndTunedBy) {
  EXPECT_THAT(
      variables_to_pass_on({"PATH=/bin", "HOME=/root", "OMP_PROC_BIND=a=b", "TALLY_TIMEOUT=9",
                            "LD_LIBRARY_PATH=", "DISPLAY=:0", "nonsense"}),
      ElementsAre(Pair("PATH", "/bin"), Pair("OMP_PROC_BIND", "a=b"), Pair("TALLY_TIMEOUT", "9"),
                  Pair("LD_LIBRARY_PATH", "")));
}

TEST(Remote, RanksMeetAtTheFirstHostAsTheOthersReachIt) {
  EXPECT_EQ(*master_address(on({{"localhost", 0, 2}}), "me"), "127.0.0.1");
  EXPECT_EQ(*master_address(on({{"me", 0, 2}}), "me"), "127.0.0.1");
  EXPECT_EQ(*master_address(on({{"user@a", 0, 2}, {"b", 2, 2}}), "me"), "a");
  // A host on the loopback interface reaches rank 0 at the loopback address.
  EXPECT_EQ(*master_address(on({{"me", 0, 2}, {"127.0.0.2", 2, 2}}), "me"), "127.0.0.1");
  LaunchOptions given = on({{"a", 0, 1}});
  given.master_address = "10.1.1.1";
  EXPECT_EQ(*master_address(given, "me"), "10.1.1.1");
}

TEST(Remote, RanksReachTheLauncherTheWayThatLeadsToThem) {
  EXPECT_EQ(*own_address(on({{"localhost", 0, 2}}), "me"), "127.0.0.1");
  EXPECT_EQ(*own_address(on({{"127.0.0.2", 0, 2}}), "me"), "127.0.0.1");
  LaunchOptions given = on({{"a", 0, 1}});
  given.own_address = "10.1.1.1";
  EXPECT_EQ(*own_address(given, "me"), "10.1.1.1");
}

}  // namespace
}  // namespace tally::launch
