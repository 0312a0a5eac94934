#include "bench/compress/namespaces.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace tally::bench::compress {
namespace {

TEST(NamespaceOwner, ANameTellsWhoMadeIt) {
  const NamespaceOwner owner{.pid_namespace = 4026531836, .pid = 4711, .began_ticks = 123456};
  EXPECT_EQ(namespace_name(owner, 'a'), "tally-bench-4026531836-4711-123456-a");
  EXPECT_EQ(owner_of("tally-bench-4026531836-4711-123456-a"), owner);
  EXPECT_EQ(owner_of("tally-bench-4026531836-4711-123456-b"), owner);
}

TEST(NamespaceOwner, OtherNamesHaveNoMaker) {
  for (const char* const name :
       {"", "tally-bench-", "tally-bench-a-3ulqIr", "tally-a-4711", "tally-bench-1-2-3-c",
        "tally-bench-1-2-3-ab", "tally-bench-1-2-3-", "tally-bench-1-2-3", "tally-bench-1-2-a",
        "tally-bench-1-2-3-4-a", "tally-bench-1--2-3-a", "tally-bench-1-0-3-a",
        "tally-bench-01-2-3-a", "tally-bench-1-2-99999999999999999999-a", "xtally-bench-1-2-3-a",
        "tally-bench-1-2-3-a "})
    EXPECT_EQ(owner_of(name), std::nullopt) << name;
}

TEST(NamespaceOwner, OnlyWhoseMakerIsKnownToBeDeadIsGone) {
  const NamespaceOwner owner{.pid_namespace = 7, .pid = 11, .began_ticks = 100};
  EXPECT_FALSE(is_gone(owner, 7, 100));
  EXPECT_TRUE(is_gone(owner, 7, std::nullopt));
  EXPECT_TRUE(is_gone(owner, 7, 101));
  EXPECT_FALSE(is_gone(owner, 8, 100));
  EXPECT_FALSE(is_gone(owner, 8, std::nullopt));
}

TEST(NamespaceOwner, ThisProcessLivesAndAnEndedChildDoesNot) {
  const auto self = this_owner();
  ASSERT_TRUE(self.has_value()) << self.error().message;
  EXPECT_EQ(self->pid, ::getpid());
  EXPECT_EQ(began_ticks_of(::getpid()), self->began_ticks);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_GT(child, 0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(began_ticks_of(child), std::nullopt);  // not reaped yet
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace tally::bench::compress
