// Ranks that are missing, come twice, come late or disagree with the others: all ranks learn which
// rank it was.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "process/crew.h"

namespace tally::process {
namespace {

const std::vector<std::string> kWords{"sums", "1"};

// Rank 0 hosts the rendezvous: only its deadline ends the wait for the others.
class Joining : public testing::TestWithParam<std::string> {
 protected:
  Child& start_host(Crew::Variables changes = {}) {
    changes["TALLY_JOIN_TIMEOUT"] = scaled_whole_seconds(milliseconds(1500));
    return crew_.start(0, kWords, changes);
  }
  // Rank 1 runs before the host's time begins, so that it is there in time.
  void start_first_guest_and_host(const Crew::Variables& changes = {}) {
    Child& guest = crew_.start(1, kWords, changes);
    ASSERT_TRUE(guest.line("started")) << guest.transcript();
    start_host(changes);
  }
  void start_ranks_0_and_1() {
    crew_.start(0, kWords);
    crew_.start(1, kWords);
    ASSERT_TRUE(await_connections(crew_.port(), 1));
  }
  void expect_all(const std::string& code, Rank peer, const std::string& in_message) {
    for (int i = 0; i < crew_.count(); ++i) expect_outcome(crew_[i], code, peer, in_message);
  }

  Crew crew_{{.transport = GetParam()}};
};

TEST_P(Joining, MissingRankIsNamedToAll) {
  start_first_guest_and_host();
  expect_all("kTimeout", 2, "rank 2 did not join in time; 2 of 3 came");
}

TEST_P(Joining, MissingRendezvousIsNamedToAll) {
  for (const Rank rank : {1, 2}) crew_.start(rank, kWords, {{"TALLY_JOIN_TIMEOUT", "1"}});
  expect_all("kTimeout", 0, fmt::format("no rendezvous at 127.0.0.1:{}", crew_.port()));
}

TEST_P(Joining, LateRanksAreWaitedFor) {
  Child& first = crew_.start(1, kWords);
  ASSERT_TRUE(first.line("started")) << first.transcript();
  crew_.start(0, kWords);
  ASSERT_TRUE(await_connections(crew_.port(), 1));
  crew_.start(2, kWords);
  EXPECT_TRUE(crew_.all_say("sums 1 right"));
}

TEST_P(Joining, DuplicateRankIsNamedToAll) {
  start_ranks_0_and_1();
  const pid_t first = crew_[1].pid();
  crew_.start(1, kWords);
  expect_all("kRefused", 1, fmt::format("rank 1 came twice: pid {} on", first));
}

TEST_P(Joining, OtherSizeIsNamedToAll) {
  start_ranks_0_and_1();
  crew_.start(2, kWords, {{"WORLD_SIZE", "4"}});
  expect_all("kMismatch", 2, "expects 3 ranks");
}

TEST_P(Joining, OtherTransportIsNamedToAll) {
  start_ranks_0_and_1();
  crew_.start(2, kWords, {{"TALLY_TRANSPORT", "auto"}});
  expect_all("kMismatch", 2, "wants auto");
}

INSTANTIATE_TEST_SUITE_P(Process, Joining, testing::Values("shm", "tcp", "tls"), name_of);

// Ranks with the job's secret learn from the rendezvous which rank failed. A rank with another
// secret cannot trust any message, and learns only that the rendezvous refused it.
class JoiningWithSecrets : public Joining {
 protected:
  static void expect_refused(Child& odd, const std::string& code, const std::string& in_message) {
    const auto outcome = outcome_of(odd);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->code, code) << outcome->message;
    EXPECT_EQ(outcome->peer, code == "kInvalid" ? kNoRank : 0) << outcome->message;
    EXPECT_NE(outcome->message.find(in_message), std::string::npos) << outcome->message;
  }
  void expect_rank_2_named(const std::vector<int>& children, const std::string& code) {
    for (const int i : children) expect_outcome(crew_[i], code, 2, "rank 2");
  }

  const Crew::Variables automatic_{{"TALLY_TRANSPORT", "auto"}};
};

TEST_P(JoiningWithSecrets, WrongSecretIsNamedToAll) {
  Child& odd = crew_.start(2, kWords, {{"TALLY_SECRET_FILE", crew_.secret_file(9)}});
  ASSERT_TRUE(odd.line("started")) << odd.transcript();
  start_first_guest_and_host();
  expect_rank_2_named({1, 2}, "kRefused");
  expect_refused(odd, "kRefused", "secret");
}

TEST_P(JoiningWithSecrets, WrongSecretOfTheRendezvousIsReportedToAll) {
  for (const Rank rank : {1, 2}) {
    Child& guest = crew_.start(rank, kWords);
    ASSERT_TRUE(guest.line("started")) << guest.transcript();
  }
  Child& host = start_host({{"TALLY_SECRET_FILE", crew_.secret_file(9)}});
  expect_refused(crew_[0], "kRefused", "secret");
  expect_refused(crew_[1], "kRefused", "secret");
  expect_outcome(host, "kRefused", 1, "rank 1");
}

TEST_P(JoiningWithSecrets, RankWithoutSecretIsNamedToAll) {
  start_first_guest_and_host();
  Child& odd = crew_.start(2, kWords, {{"TALLY_SECRET_FILE", ""}});
  expect_refused(odd, "kInvalid", "transport tls needs the job's secret");
  expect_rank_2_named({0, 1}, "kTimeout");
}

TEST_P(JoiningWithSecrets, RankWithoutSecretIsNamedToAllAlsoIfItsTransportNeedsNone) {
  Child& odd = crew_.start(2, kWords, {{"TALLY_TRANSPORT", "auto"}, {"TALLY_SECRET_FILE", ""}});
  ASSERT_TRUE(odd.line("started")) << odd.transcript();
  start_first_guest_and_host(automatic_);
  expect_refused(odd, "kPeerLost", "secret");
  expect_rank_2_named({1, 2}, "kTimeout");
}

TEST_P(JoiningWithSecrets, RendezvousWithoutSecretIsReportedToAll) {
  for (const Rank rank : {1, 2}) {
    Child& guest = crew_.start(rank, kWords, automatic_);
    ASSERT_TRUE(guest.line("started")) << guest.transcript();
  }
  Child& odd = start_host({{"TALLY_TRANSPORT", "auto"}, {"TALLY_SECRET_FILE", ""}});
  expect_refused(crew_[0], "kRefused", "does not speak TLS");
  expect_refused(crew_[1], "kRefused", "does not speak TLS");
  expect_outcome(odd, "kTimeout", 1, "rank 1, 2 did not join");
}

INSTANTIATE_TEST_SUITE_P(Process, JoiningWithSecrets, testing::Values("tls"), name_of);

}  // namespace
}  // namespace tally::process
