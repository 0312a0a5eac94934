// Connections to the coordinator that are not ranks of the job: wrong secrets, scanners, garbage.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "group/observer.h"
#include "group/watch_message.h"
#include "net/stream.h"
#include "other_listener.h"
#include "process/strangers.h"
#include "process/watched_crew.h"
#include "wire/frame.h"

namespace tally::process {
namespace {

class CoordinatorStrangers : public testing::TestWithParam<std::string> {
 protected:
  CoordinatorStrangers() : crew_({.crew = {.transport = GetParam()}}) {}

  void SetUp() override { ASSERT_TRUE(crew_.start_all({"steps", "2"})); }

  std::unique_ptr<net::Stream> connect() {
    auto socket = net::connect({"127.0.0.1", crew_.port()}, soon());
    EXPECT_TRUE(socket.has_value());
    return net::plain_stream(*std::move(socket));
  }
  void send(net::Stream& stream, std::span<const std::byte> bytes) {
    // The coordinator may close the connection before all bytes are written.
    (void)net::write_all(stream, bytes, soon());
  }
  // Whether the coordinator closes the connection.
  static bool ends(net::Stream& stream) {
    std::array<std::byte, 4096> bytes;
    const Deadline by = soon();
    for (;;) {
      const iovec part{bytes.data(), bytes.size()};
      const net::Io io = stream.read({&part, 1});
      if (io.state == net::Io::State::kClosed || io.state == net::Io::State::kFailed) return true;
      if (io.state == net::Io::State::kBlocked &&
          !net::wait_ready(stream.descriptor(), net::Readiness::kRead, by))
        return false;
    }
  }
  static int descriptors(pid_t pid) {
    const std::filesystem::directory_iterator open(fmt::format("/proc/{}/fd", pid));
    return static_cast<int>(std::distance(begin(open), end(open)));
  }
  void expect_nobody_is_disturbed() {
    EXPECT_TRUE(crew_.status_has(R"("rank":2)"));
    crew_[0].tell("stop");
    EXPECT_TRUE(crew_.crew().all_say("done"));
    EXPECT_EQ(crew_.coordinator().output().find("lost"), std::string::npos)
        << crew_.coordinator().transcript();
  }

  WatchedCrew crew_;
};

TEST_P(CoordinatorStrangers, GarbageIsRefusedAndLogged) {
  const auto stream = connect();
  const std::string text(500, 'x');
  send(*stream, std::as_bytes(std::span(text)));
  EXPECT_TRUE(ends(*stream));
  EXPECT_TRUE(crew_.says("a connection from 127.0.0.1:"));
  expect_nobody_is_disturbed();
}

TEST_P(CoordinatorStrangers, OversizeLengthIsRefusedAndLogged) {
  const auto stream = connect();
  const auto header = wire::encode({.kind = wire::FrameKind::kControl,
                                    .message_bytes = std::uint64_t{1} << 40,
                                    .payload_bytes = 0xFFFFFFFF});
  send(*stream, header);
  EXPECT_TRUE(ends(*stream));
  EXPECT_TRUE(crew_.says("was refused"));
  expect_nobody_is_disturbed();
}

TEST_P(CoordinatorStrangers, SilentConnectionIsDroppedAfterAWhile) {
  const auto stream = connect();
  EXPECT_TRUE(ends(*stream));
  EXPECT_TRUE(crew_.says("it did not say who it is"));
  expect_nobody_is_disturbed();
}

// The log takes a burst of refusals, and then one line in five seconds.
TEST_P(CoordinatorStrangers, PortScanDoesNotFloodTheLog) {
  const std::int64_t begin_ms = now_ms();
  for (int i = 0; i < 300; ++i) connect();
  EXPECT_TRUE(crew_.says("it ended before it said who it is"));
  // After the scan the coordinator accepts the next connection.
  EXPECT_TRUE(crew_.status_has(R"("rank":2)"));
  const std::string& output = crew_.coordinator().output();
  int said = 0;
  for (std::size_t at = output.find("was refused"); at != std::string::npos;
       at = output.find("was refused", at + 1))
    ++said;
  EXPECT_LE(said, 5 + (now_ms() - begin_ms) / 5000) << crew_.coordinator().transcript();
  expect_nobody_is_disturbed();
}

// A flood: the coordinator closes the oldest connections, which come again at once.
TEST_P(CoordinatorStrangers, ManySilentConnectionsKeepNobodyOut) {
  const SilentConnections silent({"127.0.0.1", crew_.port()}, 400);
  const Deadline by = soon();
  while (silent.made() < 2000 && !by.passed(steady_now())) {
    EXPECT_TRUE(crew_.status_has(R"("rank":2)"));
    // Its places, one call of accept(), and the descriptors of the coordinator itself.
    EXPECT_LT(descriptors(crew_.coordinator().pid()), 200);
  }
  expect_nobody_is_disturbed();
}

INSTANTIATE_TEST_SUITE_P(Process, CoordinatorStrangers, testing::Values("shm", "tls"), name_of);

TEST(StrangerWithAnotherSecret, IsRefusedAndLogged) {
  WatchedCrew crew({.crew = {.transport = "tls", .size = 2}});
  ASSERT_TRUE(crew.start_all({"wait"}));
  Secret wrong;
  wrong.bytes.fill(std::byte{9});
  const Deadline by = soon();
  auto observer = group::Observer::remote({"127.0.0.1", crew.port()}, wrong, by);
  EXPECT_FALSE(observer.has_value() && observer->status(by).has_value());
  EXPECT_TRUE(crew.says("has another secret"));
  crew[1].tell("go on");
  EXPECT_TRUE(crew.crew().all_say("done"));
}

TEST(OtherUser, CannotAskACoordinatorWithoutASecret) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  WatchedCrew crew({.crew = {.size = 2}});
  ASSERT_TRUE(crew.start_all({"wait"}));
  EXPECT_FALSE(as_other_user([&] {
    auto socket = net::connect({"127.0.0.1", crew.port()}, soon());
    if (!socket.has_value()) return false;
    net::MessageConnection connection(net::plain_stream(*std::move(socket)), {});
    const auto asked = group::send(connection, {group::ControlKind::kAskStatus, {}}, soon());
    return asked.has_value() && group::receive(connection, soon()).has_value();
  }));
  EXPECT_TRUE(crew.says("it belongs to user 65534"));
  crew[1].tell("go on");
  EXPECT_TRUE(crew.crew().all_say("done"));
}

TEST(OtherUser, CannotPoseAsACoordinatorWithoutASecret) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const OtherListener nobody(OtherListener::Accepts::kNothing);
  const auto observer = group::Observer::remote(nobody.address(), {}, soon());
  ASSERT_FALSE(observer.has_value());
  EXPECT_EQ(observer.error().code, ErrorCode::kRefused);
  EXPECT_THAT(observer.error().message, testing::HasSubstr("it belongs to user 65534"));
}

// A client that speaks the protocol claims to be a rank that is already registered, or one that
// cannot exist.
TEST(StrangerWithoutSecret, CannotTakeThePlaceOfARank) {
  WatchedCrew crew({.crew = {.size = 2}});
  ASSERT_TRUE(crew.start_all({"wait"}));
  struct Case {
    group::Registration who;
    const char* why;
  };
  const group::Registration good{.job = crew.job(),
                                 .rank = 1,
                                 .size = 2,
                                 .generation = 1,
                                 .pid = 1,
                                 .host = "x",
                                 .host_identity = ""};
  group::Registration other_job = good;
  other_job.job = "another";
  group::Registration older = good;
  older.generation = 0;
  group::Registration larger = good;
  larger.size = 3;
  for (const Case& each :
       {Case{good, "is there already"}, Case{other_job, "belongs to job another"},
        Case{older, "is of generation 0"}, Case{larger, "counts 3 ranks"}}) {
    auto socket = net::connect({"127.0.0.1", crew.port()}, soon());
    ASSERT_TRUE(socket.has_value());
    const auto stream = net::plain_stream(*std::move(socket));
    const auto bytes =
        wire::frame(wire::Framing::kControlFrame,
                    group::encode(group::message_of(group::ControlKind::kRegister, each.who)));
    ASSERT_TRUE(net::write_all(*stream, bytes, soon()).has_value());
    EXPECT_TRUE(crew.says(each.why));
  }
  crew[1].tell("go on");
  EXPECT_TRUE(crew.crew().all_say("done"));
}

}  // namespace
}  // namespace tally::process
