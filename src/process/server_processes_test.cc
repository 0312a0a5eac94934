#include "process/server_processes.h"

#include <chrono>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include "base/clock.h"

namespace tally::process {
namespace {

// Ignores SIGCHLD, as a parent may leave it to us, and puts back what was before.
class Untold final {
 public:
  Untold() : before_(std::signal(SIGCHLD, SIG_IGN)) {}
  ~Untold() { std::signal(SIGCHLD, before_); }
  Untold(const Untold&) = delete;
  Untold& operator=(const Untold&) = delete;

 private:
  void (*before_)(int);
};

TEST(ServerProcesses, EndThoughNobodyTellsHow) {
  const Untold untold;
  const auto servers = ServerProcesses::start({.servers = 2, .program = "/bin/true"}, {});
  ASSERT_TRUE(servers.has_value()) << servers.error().message;
  const SteadyClock clock;
  const Deadline by = clock.after(std::chrono::seconds(10));
  while (!(*servers)->processes().empty() && !by.passed(clock.now())) std::this_thread::yield();
  EXPECT_TRUE((*servers)->processes().empty());
}

}  // namespace
}  // namespace tally::process
