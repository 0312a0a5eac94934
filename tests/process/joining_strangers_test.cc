// Connections to the rendezvous from programs that are not ranks of this version of Tally.
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "group/control.h"
#include "net/stream.h"
#include "net/tls_stream.h"
#include "other_listener.h"
#include "process/crew.h"
#include "process/guest.h"
#include "process/strangers.h"
#include "wire/greeting.h"

namespace tally::process {
namespace {

// A connection to the rendezvous. With `secret` it has proven to know the job's secret.
std::unique_ptr<net::Stream> visit(std::uint16_t port, bool secret = false) {
  auto socket = net::connect_retrying({"127.0.0.1", port}, soon());
  if (!socket.has_value()) {
    ADD_FAILURE() << to_string(socket.error());
    return nullptr;
  }
  if (!secret) return net::plain_stream(*std::move(socket));
  net::TlsOptions options{.identity = "tally rank 2"};
  options.secret.bytes.fill(std::byte{kSecretSeed});
  auto stream = (*net::TlsContext::make(options))->client(*std::move(socket));
  const auto shaken = net::complete_handshake(**stream, soon());
  EXPECT_TRUE(shaken.has_value()) << to_string(shaken.error());
  return *std::move(stream);
}

class Strangers : public testing::TestWithParam<std::string> {};

TEST_P(Strangers, OtherProtocolVersionIsNamedToAll) {
  Crew crew({.transport = GetParam()});
  crew.start(0, {"sums", "1"});
  crew.start(1, {"sums", "1"});
  ASSERT_TRUE(await_connections(crew.port(), 1));
  auto stream = visit(crew.port(), GetParam() == "tls");
  ASSERT_NE(stream, nullptr);
  const auto greeting = wire::encode(
      wire::Greeting{.version = wire::kProtocolVersion + 1, .from = 2, .generation = 1});
  ASSERT_TRUE(net::write_all(*stream, greeting, soon()).has_value());
  const std::string because = fmt::format("rank 2 speaks protocol version {}, rank 0 speaks {}",
                                          wire::kProtocolVersion + 1, wire::kProtocolVersion);
  for (const int i : {0, 1}) expect_outcome(crew[i], "kRefused", 2, because);
  net::MessageConnection connection(std::move(stream), {});
  const auto refusal = group::receive(connection, soon());
  ASSERT_TRUE(refusal.has_value()) << to_string(refusal.error());
  ASSERT_EQ(refusal->kind, group::ControlKind::kAbort);
  EXPECT_EQ(group::error_in(*refusal).message, because);
}

TEST_P(Strangers, GarbageDuringJoiningDisturbsNobody) {
  Crew crew({.transport = GetParam()});
  crew.start(0, {"sums", "3"});
  std::vector<std::unique_ptr<net::Stream>> visitors;
  for (int i = 0; i < 3; ++i) {
    visitors.push_back(visit(crew.port()));
    ASSERT_NE(visitors.back(), nullptr);
    const std::vector<std::byte> garbage(100 + 1000 * i, std::byte{0xA5});
    ASSERT_TRUE(net::write_all(*visitors.back(), garbage, soon()).has_value());
  }
  crew.start(1, {"sums", "3"});
  crew.start(2, {"sums", "3"});
  EXPECT_TRUE(crew.all_say("sums 3 right"));
}

// More connections than the rendezvous keeps open, and new ones for those that it closes.
TEST_P(Strangers, SilentConnectionsDuringJoiningDisturbNobody) {
  Crew crew({.transport = GetParam()});
  crew.start(0, {"sums", "3"});
  ASSERT_NE(visit(crew.port()), nullptr);
  const SilentConnections silent({"127.0.0.1", crew.port()}, 300);
  crew.start(1, {"sums", "3"});
  crew.start(2, {"sums", "3"});
  EXPECT_TRUE(crew.all_say("sums 3 right"));
}

TEST_P(Strangers, ConnectionThatEndsAtOnceDisturbsNobody) {
  Crew crew({.transport = GetParam()});
  crew.start(0, {"sums", "3"});
  for (int i = 0; i < 5; ++i) visit(crew.port());
  crew.start(1, {"sums", "3"});
  crew.start(2, {"sums", "3"});
  EXPECT_TRUE(crew.all_say("sums 3 right"));
}

TEST(OtherUser, CannotJoinAJobWithoutASecret) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Crew crew({.transport = "tcp", .size = 2});
  crew.start(0, {"sums", "3"});
  EXPECT_FALSE(as_other_user([&] { return Guest(crew.port()).join().has_value(); }));
  EXPECT_TRUE(crew[0].complains("it belongs to user 65534")) << crew[0].transcript();
  crew.start(1, {"sums", "3"});
  EXPECT_TRUE(crew.all_say("sums 3 right"));
}

TEST(OtherUser, CannotPoseAsTheRendezvousOfAJobWithoutASecret) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const OtherListener nobody(OtherListener::Accepts::kNothing);
  Crew crew({.transport = "tcp", .size = 2});
  crew.start(1, {"sums", "3"}, {{"MASTER_PORT", std::to_string(nobody.address().port)}});
  expect_outcome(crew[0], "kRefused", 0, "it belongs to user 65534");
}

INSTANTIATE_TEST_SUITE_P(Process, Strangers, testing::Values("shm", "tcp", "tls"), name_of);

}  // namespace
}  // namespace tally::process
