// `tally run` over two hosts with a cable between them: the cable is cut, and strangers connect.
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process/two_hosts.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

class TwoHostsRun : public OnTwoHosts {
 protected:
  // `tally status` finds the coordinator by this name, within the network namespace.
  static constexpr const char* kJob = "two-hosts";

  // Ranks 0 and 1 on the first host, where the launcher is too, 2 and 3 on the second.
  Child& start(const std::vector<std::string>& options, const std::vector<std::string>& words) {
    std::vector<std::string> command = {
        TALLY_PROGRAM,    "run",
        "--hosts",        TwoHosts::address(0) + ":2," + TwoHosts::address(1) + ":2",
        "--job",          kJob,
        "--remote-shell", hosts().remote_shell(),
        "--grace",        scaled_seconds(seconds(8))};
    command.insert(command.end(), options.begin(), options.end());
    command.emplace_back("--");
    command.insert(command.end(), kIgnoringSigterm.begin(), kIgnoringSigterm.end());
    command.emplace_back(TALLY_WORKER_PROGRAM);
    command.insert(command.end(), words.begin(), words.end());
    job_.emplace(Child::Options{hosts().on(0, command), {{"TALLY_TIMEOUT", kNever}}});
    return *job_;
  }

  // Whether each of `ranks` prints a line that starts with `what`, in any order.
  bool say(std::vector<int> ranks, const std::string& what) {
    const auto said = [&](int rank) {
      return std::any_of(lines_.begin(), lines_.end(), [&](const std::string& line) {
        return line.rfind(prefix(rank) + what, 0) == 0;
      });
    };
    for (;;) {
      std::erase_if(ranks, said);
      if (ranks.empty()) return true;
      const auto line = job_->line("");
      if (!line) return false;
      lines_.push_back(*line);
    }
  }
  bool all_say(const std::string& what) { return say({0, 1, 2, 3}, what); }
  // Whether the coordinator has heard from all ranks. A rank that prints "ready" may not have sent
  // its first heartbeat; if the link is cut at that moment, the rank counts as not yet started.
  bool all_are_known() {
    constexpr const char* kKnown = "\"heartbeat_age_s\"";
    const std::int64_t end = now_ms() + kPatience.count();
    std::size_t known = 0;
    while (known < 4 && now_ms() < end) {
      Child status({hosts().on(0, {TALLY_PROGRAM, "status", kJob, "--json"}), {}});
      (void)status.wait_status();
      known = 0;
      for (std::size_t at = status.output().find(kKnown); at != std::string::npos;
           at = status.output().find(kKnown, at + 1))
        ++known;
    }
    return known == 4;
  }
  static std::string prefix(int rank) {
    return fmt::format("[{} {}] ", rank, TwoHosts::address(rank / 2));
  }

  // The coordinator's port, which --verbose prints.
  std::string coordinator_port() {
    if (!job_->complains("the coordinator listens at ")) return "0";
    const std::string& said = job_->errors();
    const std::size_t start = said.find(":", said.find("the coordinator listens at ") + 24) + 1;
    return said.substr(start, said.find(';', start) - start);
  }

  std::optional<Child> job_;
  std::vector<std::string> lines_;  // of its output so far
};

TEST_F(TwoHostsRun, RanksOfBothHostsGetTheRightSums) {
  Child& job = start({"--lost-after", kNever}, {"sums", "20"});
  EXPECT_TRUE(all_say("sums 20 right")) << job.transcript();
  EXPECT_TRUE(job.exits(0)) << job.transcript();
}

TEST_F(TwoHostsRun, ACutLinkIsReportedWithTheRanksBehindItAndEndsTheWait) {
  // On a loaded machine a rank of the first host may be silent for more than two seconds, and
  // starting the ranks of a host may take ten.
  Child& job = start({"--lease", scaled_seconds(seconds(20)), "--lost-after",
                      scaled_seconds(seconds(6)), "--heartbeat", scaled_seconds(milliseconds(500))},
                     {"paced", "1000000", "5"});
  ASSERT_TRUE(all_say("ready")) << job.transcript();
  ASSERT_TRUE(all_are_known()) << job.transcript();
  hosts().cut();
  EXPECT_TRUE(job.complains("the link to host " + hosts().name(1) + " may be cut"))
      << job.transcript();
  EXPECT_THAT(job.errors(), HasSubstr("ranks 2, 3 on host"));
  EXPECT_TRUE(say({0, 1}, "outcome kPeerLost")) << job.transcript();
  // The hosts cannot reach each other: each ends its own ranks.
  const auto status = job.wait_status();
  ASSERT_TRUE(status.has_value()) << job.transcript();
  EXPECT_NE(*status, 0);
}

TEST_F(TwoHostsRun, ALinkThatHealsBeforeTheRanksAreLostLosesNothing) {
  const Folder folder;
  Child& job = start({"--lost-after", kNever, "--heartbeat", scaled_seconds(milliseconds(300))},
                     {"sums-until", folder.file("end")});
  ASSERT_TRUE(all_say("ready")) << job.transcript();
  ASSERT_TRUE(all_are_known()) << job.transcript();
  hosts().cut();
  EXPECT_TRUE(job.complains("ranks 2, 3 on host")) << job.transcript();
  hosts().heal();
  write_file(folder.file("end"), "");
  EXPECT_TRUE(all_say("sums right")) << job.transcript();
  EXPECT_TRUE(job.exits(0)) << job.transcript();
}

TEST_F(TwoHostsRun, AnUninvitedHostIsRefusedAndLoggedAndScansDisturbNobody) {
  const Folder folder;
  Child& job = start({"--verbose", "--lost-after", kNever}, {"sums-until", folder.file("end")});
  ASSERT_TRUE(all_say("ready")) << job.transcript();
  const std::string port = coordinator_port();
  const Crew other({.transport = "tls"});
  Child stranger({.command = hosts().on(1, {TALLY_PROGRAM, "status", "--coordinator",
                                            TwoHosts::address(0) + ":" + port, "--secret-file",
                                            other.secret_file(99)})});
  EXPECT_TRUE(stranger.exits(1)) << stranger.transcript();
  EXPECT_TRUE(job.complains("refused")) << job.transcript();
  // All open ports get connections without data, with garbage, and without an end.
  const std::string scan =
      "for port in $(ip netns exec " + hosts().name(0) +
      " ss -Hltn | awk '{print $4}' | sed 's/.*://' | sort -u) " + port +
      "; do for text in '' 'GET / HTTP/1.0' '\\377\\377\\377\\377\\377\\377\\377\\377'; do "
      "exec 9<>/dev/tcp/" +
      TwoHosts::address(0) + "/$port && printf \"$text\" >&9; done; done; exit 0";
  Child scanner({.command = hosts().on(1, {"/bin/bash", "-c", scan})});
  EXPECT_TRUE(scanner.exits(0)) << scanner.transcript();
  write_file(folder.file("end"), "");
  EXPECT_TRUE(all_say("sums right")) << job.transcript();
  EXPECT_TRUE(job.exits(0)) << job.transcript();
}

}  // namespace
}  // namespace tally::process
