#include "group/local_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <gtest/gtest.h>

#include "group/host.h"

namespace tally::group {
namespace {

TEST(LocalProcess, LivesWhileItIsStoppedAndEndsWhenItIsKilled) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  const LocalProcess process(*host_identity(""), child);
  int status = 0;
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status));
  EXPECT_TRUE(process.known());
  EXPECT_TRUE(process.lives());
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(process.ended());
  EXPECT_FALSE(process.lives());
}

// The system has given the number of an ended process to this one.
TEST(LocalProcess, AnotherProcessWithTheSameNumberIsNotMistaken) {
  const std::string here = *host_identity("");
  const LocalProcess own(here, ::getpid());
  ASSERT_TRUE(own.known());
  ASSERT_GT(own.started(), 0U);
  EXPECT_TRUE(LocalProcess(here, ::getpid(), own.started()).lives());
  const LocalProcess other(here, ::getpid(), own.started() + 1);
  EXPECT_FALSE(other.known());
  EXPECT_FALSE(other.lives());
}

TEST(LocalProcess, NothingIsKnownOfAProcessOnAnotherHost) {
  for (const LocalProcess& process : {LocalProcess(), LocalProcess("another host", ::getpid()),
                                      LocalProcess(*host_identity(""), 0)}) {
    EXPECT_FALSE(process.known());
    EXPECT_FALSE(process.lives());
    EXPECT_FALSE(process.ended());
  }
}

}  // namespace
}  // namespace tally::group
