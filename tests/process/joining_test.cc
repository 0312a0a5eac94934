// Ranks that do not come, come twice, late, or as somebody else: everybody is told, in time, who it
// was.
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "process/crew.h"

namespace tally::process {
namespace {

constexpr int kJoinSeconds = 3;
const std::vector<std::string> kWords{"sums", "1"};

class Joining : public testing::TestWithParam<std::string> {
 protected:
  Joining()
      : crew_({.transport = GetParam(), .join_timeout_s = kJoinSeconds}), started_ms_(now_ms()) {}

  void expect_in_time(std::int64_t noticed_ms) const {
    EXPECT_LE(noticed_ms - started_ms_, kJoinSeconds * 1000 + kSlack.count());
  }
  void expect_all(const std::string& code, Rank peer, const std::string& in_message) {
    for (int i = 0; i < crew_.count(); ++i)
      expect_in_time(expect_outcome(crew_[i], code, peer, in_message));
  }

  Crew crew_;
  const std::int64_t started_ms_;
};

TEST_P(Joining, RankThatNeverComesIsNamedToAll) {
  crew_.start(0, kWords);
  crew_.start(1, kWords);
  expect_all("kTimeout", 2, "rank 2 did not join in time; 2 of 3 came");
}

TEST_P(Joining, MissingRendezvousIsNamedToAll) {
  crew_.start(1, kWords);
  crew_.start(2, kWords);
  expect_all("kTimeout", 0, fmt::format("no rendezvous at 127.0.0.1:{}", crew_.port()));
}

TEST_P(Joining, LateRankIsWaitedFor) {
  crew_.start(1, kWords);
  std::this_thread::sleep_for(milliseconds(400));
  crew_.start(0, kWords);
  std::this_thread::sleep_for(milliseconds(400));
  crew_.start(2, kWords);
  EXPECT_TRUE(crew_.all_say("sums 1 right"));
}

TEST_P(Joining, DuplicateRankIsNamedToAll) {
  crew_.start(0, kWords);
  const Child& first = crew_.start(1, kWords);
  std::this_thread::sleep_for(milliseconds(500));
  crew_.start(1, kWords);
  expect_all("kRefused", 1, fmt::format("rank 1 came twice: pid {} on", first.pid()));
}

TEST_P(Joining, OtherSizeIsNamedToAll) {
  crew_.start(0, kWords);
  crew_.start(1, kWords);
  std::this_thread::sleep_for(milliseconds(500));
  crew_.start(2, kWords, {{"WORLD_SIZE", "4"}});
  expect_all("kMismatch", 2, "expects 3 ranks");
}

TEST_P(Joining, OtherTransportIsNamedToAll) {
  crew_.start(0, kWords);
  crew_.start(1, kWords);
  std::this_thread::sleep_for(milliseconds(500));
  crew_.start(2, kWords, {{"TALLY_TRANSPORT", "auto"}});
  expect_all("kMismatch", 2, "wants auto");
}

INSTANTIATE_TEST_SUITE_P(Process, Joining, testing::Values("shm", "tcp", "tls"), name_of);

// The ranks that do have the job's secret learn from the rendezvous who failed; the one that has
// not cannot be told anything that it could trust, and learns that the rendezvous turned it away.
class JoiningWithSecrets : public Joining {
 protected:
  void expect_refused(Child& odd, const std::string& code, const std::string& in_message) {
    const auto outcome = outcome_of(odd);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->code, code) << outcome->message;
    EXPECT_EQ(outcome->peer, code == "kInvalid" ? kNoRank : 0) << outcome->message;
    EXPECT_NE(outcome->message.find(in_message), std::string::npos) << outcome->message;
    expect_in_time(outcome->at_ms);
  }
};

TEST_P(JoiningWithSecrets, WrongSecretIsNamedToAll) {
  crew_.start(0, kWords);
  crew_.start(1, kWords);
  Child& odd = crew_.start(2, kWords, {{"TALLY_SECRET_FILE", crew_.secret_file(9)}});
  for (const int i : {0, 1}) expect_in_time(expect_outcome(crew_[i], "kRefused", 2, "rank 2"));
  expect_refused(odd, "kRefused", "secret");
}

TEST_P(JoiningWithSecrets, WrongSecretOfTheRendezvousIsToldToAll) {
  crew_.start(0, kWords, {{"TALLY_SECRET_FILE", crew_.secret_file(9)}});
  Child& first = crew_.start(1, kWords);
  Child& second = crew_.start(2, kWords);
  expect_refused(first, "kRefused", "secret");
  expect_refused(second, "kRefused", "secret");
  expect_in_time(expect_outcome(crew_[0], "kRefused", 1, "rank 1"));
}

TEST_P(JoiningWithSecrets, RankWithoutSecretIsNamedToAll) {
  crew_.start(0, kWords);
  crew_.start(1, kWords);
  Child& odd = crew_.start(2, kWords, {{"TALLY_SECRET_FILE", ""}});
  expect_refused(odd, "kInvalid", "transport tls needs the job's secret");
  for (const int i : {0, 1}) expect_in_time(expect_outcome(crew_[i], "kTimeout", 2, "rank 2"));
}

TEST_P(JoiningWithSecrets, RankWithoutSecretIsNamedToAllAlsoIfItsTransportNeedsNone) {
  const Crew::Variables automatic{{"TALLY_TRANSPORT", "auto"}};
  crew_.start(0, kWords, automatic);
  crew_.start(1, kWords, automatic);
  Child& odd = crew_.start(2, kWords, {{"TALLY_TRANSPORT", "auto"}, {"TALLY_SECRET_FILE", ""}});
  expect_refused(odd, "kPeerLost", "secret");
  for (const int i : {0, 1}) expect_in_time(expect_outcome(crew_[i], "kTimeout", 2, "rank 2"));
}

TEST_P(JoiningWithSecrets, RendezvousWithoutSecretIsToldToAll) {
  const Crew::Variables automatic{{"TALLY_TRANSPORT", "auto"}};
  Child& odd = crew_.start(0, kWords, {{"TALLY_TRANSPORT", "auto"}, {"TALLY_SECRET_FILE", ""}});
  expect_refused(crew_.start(1, kWords, automatic), "kRefused", "does not speak TLS");
  expect_refused(crew_.start(2, kWords, automatic), "kRefused", "does not speak TLS");
  expect_in_time(expect_outcome(odd, "kTimeout", 1, "rank 1, 2 did not join"));
}

INSTANTIATE_TEST_SUITE_P(Process, JoiningWithSecrets, testing::Values("tls"), name_of);

}  // namespace
}  // namespace tally::process
