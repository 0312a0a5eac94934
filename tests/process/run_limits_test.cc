// `tally run` on machines that lack what a job needs: the message says what, and what helps.
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "process/child.h"

namespace tally::process {
namespace {

constexpr const char* kUnshare = "/usr/bin/unshare";

// Two ranks, started by a shell after `preparation`. They would wait for each other for ever.
Child::Options two_ranks(const std::string& preparation, const std::vector<std::string>& in = {}) {
  std::vector<std::string> command = in;
  command.insert(command.end(),
                 {"/bin/sh", "-c",
                  fmt::format("{}; exec {} run -n 2 --lost-after {} -- {} sums 1", preparation,
                              TALLY_PROGRAM, kNever, TALLY_WORKER_PROGRAM)});
  return {.command = command, .variables = {{"TALLY_JOIN_TIMEOUT", kNever}}};
}

bool can_unshare(const std::string& what) {
  Child child({{kUnshare, what, "/bin/true"}, {}});
  return child.exits(0);
}

TEST(RunLimits, ALoopbackInterfaceThatIsDownIsNamed) {
  if (!can_unshare("--net")) GTEST_SKIP() << "network namespaces are not allowed here";
  Child run(two_ranks("true", {kUnshare, "--net"}));
  EXPECT_TRUE(run.line_with("the loopback interface is down: `ip link set lo up` starts it"))
      << run.transcript();
  EXPECT_TRUE(run.exits(3)) << run.transcript();
}

// Sanitizers need more address space than there is.
#if !defined(TALLY_SANITIZED)
TEST(RunLimits, ALimitOfAddressSpaceNamesTheTransportWithout) {
  Child run(two_ranks("ulimit -v 20000000"));
  EXPECT_TRUE(
      run.line_with("exceeds the limit of address space (ulimit -v): raise it, or set "
                    "TALLY_TRANSPORT=tcp"))
      << run.transcript();
  EXPECT_TRUE(run.exits(3)) << run.transcript();
}
#endif

TEST(RunLimits, ALimitOfFileSizesNamesTheTransportWithout) {
  Child run(two_ranks("ulimit -f 1000000"));
  EXPECT_TRUE(
      run.line_with("exceeds the limit of file sizes (ulimit -f): raise it, or set "
                    "TALLY_TRANSPORT=tcp"))
      << run.transcript();
  EXPECT_TRUE(run.exits(3)) << run.transcript();
}

}  // namespace
}  // namespace tally::process
