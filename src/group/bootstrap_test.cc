#include "group/bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "group/host.h"
#include "group/secret_text.h"

namespace tally::group {
namespace {

JobOptions at_board(Rank rank, const std::string& job_id) {
  JobOptions options;
  options.rank = rank;
  options.size = 2;
  options.local_size = 2;
  options.bootstrap = Bootstrap::kLocal;
  options.job_id = job_id;
  options.master_port = 0;
  return options;
}

Result<BootstrapResult> meet(const JobOptions& options) {
  return bootstrap(options, Deadline::never());
}

TEST(Bootstrap, RanksOfOneHostLearnWhereAndWithWhichSecret) {
  const std::string job = *random_name();
  const auto host = meet(at_board(0, job));
  ASSERT_TRUE(host.has_value()) << to_string(host.error());
  const auto guest = meet(at_board(1, job));
  ASSERT_TRUE(guest.has_value()) << to_string(guest.error());
  EXPECT_EQ(guest->options.master_address, "127.0.0.1");
  EXPECT_EQ(guest->options.master_port, host->listener->address().port);
  EXPECT_FALSE(guest->listener.has_value());
  EXPECT_EQ(guest->options.secret->bytes, host->options.secret->bytes);
}

TEST(Bootstrap, SecretThatIsKnownIsNotPassed) {
  const std::string job = *random_name();
  JobOptions knows = at_board(0, job);
  knows.secret = *fresh_secret();
  const auto host = meet(knows);
  ASSERT_TRUE(host.has_value());
  EXPECT_EQ(host->options.secret->bytes, knows.secret->bytes);
  const auto guest = meet(at_board(1, job));
  ASSERT_TRUE(guest.has_value());
  EXPECT_FALSE(guest->options.secret.has_value());
}

// Hydra jobs have no name. Only the server process at the other end of the descriptor identifies
// them.
TEST(Bootstrap, ServerOfADescriptorBelongsToTheIdentity) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Descriptor first(ends[0]);
  const Descriptor second(ends[1]);
  const std::string job = *random_name();
  JobOptions options = at_board(0, job);
  options.pmi_descriptor = first.descriptor();
  const auto host = meet(options);
  ASSERT_TRUE(host.has_value());
  options.rank = 1;
  EXPECT_TRUE(meet(options).has_value());
  const auto other = bootstrap(at_board(1, job), Deadline::after(Duration::zero()));
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ErrorCode::kTimeout);
}

TEST(Bootstrap, AddressThatIsKnownIsLeftAsItIs) {
  JobOptions options{.rank = 0, .size = 2};
  options.master_port = 1234;
  const auto host = meet(options);
  ASSERT_TRUE(host.has_value());
  EXPECT_FALSE(host->listener.has_value());
  EXPECT_EQ(host->options.master_port, 1234);
}

TEST(Bootstrap, RankZeroListensWhereItIsTold) {
  JobOptions options{.rank = 0, .size = 2};
  options.master_address = "meeting.example";
  options.master_port = 0;
  options.listen_on = "lo";
  const auto host = meet(options);
  ASSERT_TRUE(host.has_value()) << to_string(host.error());
  EXPECT_EQ(host->listener->address().host, "127.0.0.1");
  EXPECT_EQ(host->options.master_address, "meeting.example");
  options.rank = 1;
  EXPECT_FALSE(meet(options)->listener.has_value());
}

TEST(Bootstrap, RanksOfAHostWhoseNameIsLoopbackMeetWhereOtherHostsLook) {
  JobOptions options{.rank = 0, .size = 2};
  options.local_size = 1;
  options.master_address = "localhost";
  options.master_port = 0;
  const auto host = meet(options);
  ASSERT_TRUE(host.has_value()) << to_string(host.error());
  options.rank = 1;
  const auto guest = meet(options);
  ASSERT_TRUE(guest.has_value()) << to_string(guest.error());
  ASSERT_TRUE(host->listener.has_value());
  EXPECT_EQ(host->listener->address().host, guest->options.master_address);
}

TEST(Bootstrap, JobOfOneMeetsNobody) {
  JobOptions options = at_board(0, "");
  options.size = 1;
  options.master_port = 1234;
  const auto alone = meet(options);
  ASSERT_TRUE(alone.has_value());
  EXPECT_EQ(alone->options.master_port, 0);
}

TEST(Bootstrap, OptionsThatMakeNoSenseAreInvalid) {
  JobOptions outside = at_board(2, "x");
  JobOptions empty = at_board(0, "x");
  empty.size = 0;
  empty.bootstrap = Bootstrap::kAddress;
  for (const JobOptions& options : {outside, empty, at_board(0, ""), at_board(1, "")}) {
    const auto met = meet(options);
    ASSERT_FALSE(met.has_value());
    EXPECT_EQ(met.error().code, ErrorCode::kInvalid) << met.error().message;
  }
}

}  // namespace
}  // namespace tally::group
