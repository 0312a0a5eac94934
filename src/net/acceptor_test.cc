#include "net/acceptor.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "base/clock.h"
#include "net/local_socket.h"
#include "net/peer_user.h"
#include "other_listener.h"
#include "soon.h"

namespace tally::net {
namespace {

constexpr uid_t kNobody = 65534;

TEST(Places, ANewConnectionGetsThePlaceOfTheOldest) {
  Places places(2);
  const Place first = places.take();
  const Place second = places.take();
  EXPECT_FALSE(first.revoked());
  const Place third = places.take();
  EXPECT_TRUE(first.revoked());
  EXPECT_FALSE(second.revoked());
  EXPECT_FALSE(third.revoked());
}

TEST(Places, AReleasedPlaceIsNeverRevoked) {
  Places places(1);
  Place proven = places.take();
  proven.release();
  const Place second = places.take();
  const Place third = places.take();
  EXPECT_FALSE(proven.revoked());
  EXPECT_TRUE(second.revoked());
  EXPECT_TRUE(places.revoke_oldest());
  EXPECT_TRUE(third.revoked());
  EXPECT_FALSE(places.revoke_oldest());
}

TEST(Places, AConnectionThatEndedNeedsNoPlace) {
  Places places(1);
  { const Place ended = places.take(); }
  const Place next = places.take();
  EXPECT_FALSE(next.revoked());
}

class AcceptorOn : public testing::Test {
 protected:
  void SetUp() override {
    auto listener = Listener::bind({.host = "127.0.0.1"});
    ASSERT_TRUE(listener.has_value()) << listener.error().message;
    listener_.emplace(*std::move(listener));
  }

  Socket call() {
    auto socket = connect(listener_->address(), soon());
    EXPECT_TRUE(socket.has_value()) << socket.error().message;
    return *std::move(socket);
  }
  // Whatever the next call accepts or refuses, once there is something.
  static Acceptor::Outcome next(Acceptor& acceptor) {
    std::vector<pollfd> entries;
    acceptor.add_to(entries, steady_now());
    ::poll(entries.data(), entries.size(), poll_timeout(soon()));
    auto outcome = acceptor.accept(steady_now());
    EXPECT_TRUE(outcome.has_value());
    return *std::move(outcome);
  }

  std::optional<Listener> listener_;
  StreamFactory plain_;
};

// A connection of another user, which ends with the object.
class OtherUser final {
 public:
  explicit OtherUser(const std::function<bool()>& connects) {
    EXPECT_EQ(::pipe(ends_), 0);
    child_ = ::fork();
    if (child_ != 0) return;
    if (::setresgid(kNobody, kNobody, kNobody) != 0 || ::setresuid(kNobody, kNobody, kNobody) != 0)
      ::_exit(1);
    if (!connects()) ::_exit(1);
    char none = 0;
    ::close(ends_[1]);
    ::_exit(::read(ends_[0], &none, 1) == 0 ? 0 : 1);
  }
  ~OtherUser() {
    ::close(ends_[0]);
    ::close(ends_[1]);
    int status = 0;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
  }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;

 private:
  int ends_[2] = {-1, -1};
  pid_t child_ = -1;
};

TEST_F(AcceptorOn, OneCallAcceptsALimitedNumber) {
  Acceptor acceptor({.listener = &*listener_, .streams = &plain_, .places = 1000});
  std::vector<Socket> callers;
  for (int i = 0; i < 100; ++i) callers.push_back(call());
  std::size_t accepted = 0;
  while (accepted < callers.size()) {
    const std::size_t count = next(acceptor).arrivals.size();
    EXPECT_LE(count, 32U);
    accepted += count;
  }
}

TEST_F(AcceptorOn, LocalSocketsNeedNoPlace) {
  const std::string name = "tally-acceptor-" + std::to_string(::getpid());
  const auto local = listen_locally(name);
  ASSERT_TRUE(local.has_value()) << local.error().message;
  Acceptor acceptor(
      {.listener = &*listener_, .local_listener = &*local, .streams = &plain_, .places = 1});
  const auto near = connect_locally(name);
  ASSERT_TRUE(near.has_value()) << near.error().message;
  const Acceptor::Outcome first = next(acceptor);
  ASSERT_EQ(first.arrivals.size(), 1U);
  EXPECT_TRUE(first.arrivals[0].stream->local());
  const std::vector<Socket> silent = [this] {
    std::vector<Socket> sockets;
    for (int i = 0; i < 3; ++i) sockets.push_back(call());
    return sockets;
  }();
  std::vector<Arrival> arrivals;
  while (arrivals.size() < silent.size())
    for (Arrival& arrival : next(acceptor).arrivals) arrivals.push_back(std::move(arrival));
  EXPECT_TRUE(arrivals[0].place.revoked());
  EXPECT_TRUE(arrivals[1].place.revoked());
  EXPECT_FALSE(arrivals[2].place.revoked());
  EXPECT_FALSE(first.arrivals[0].place.revoked());
}

TEST_F(AcceptorOn, OtherUsersOfThisMachineAreRefusedWithoutASecret) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Acceptor acceptor({.listener = &*listener_, .streams = &plain_});
  std::optional<Socket> theirs;
  const OtherUser nobody([&] {
    auto socket = connect(listener_->address(), soon());
    if (socket.has_value()) theirs = *std::move(socket);
    return theirs.has_value();
  });
  const Acceptor::Outcome outcome = next(acceptor);
  EXPECT_TRUE(outcome.arrivals.empty());
  ASSERT_EQ(outcome.refused.size(), 1U);
  EXPECT_EQ(outcome.refused[0].why.code, ErrorCode::kRefused);
  EXPECT_THAT(outcome.refused[0].why.message, testing::HasSubstr("it belongs to user 65534"));
}

TEST_F(AcceptorOn, OtherUsersMayProveTheSecret) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const auto secure = StreamFactory::make(Secret{}, "tally rank 0");
  ASSERT_TRUE(secure.has_value()) << secure.error().message;
  Acceptor acceptor({.listener = &*listener_, .streams = &*secure});
  std::optional<Socket> theirs;
  const OtherUser nobody([&] {
    auto socket = connect(listener_->address(), soon());
    if (socket.has_value()) theirs = *std::move(socket);
    return theirs.has_value();
  });
  EXPECT_EQ(next(acceptor).arrivals.size(), 1U);
}

// Strangers who come during the handshake of a peer do not take its place.
TEST_F(AcceptorOn, APeerThatHasShownTheSecretKeepsItsPlace) {
  const auto secure = StreamFactory::make(Secret{}, "tally rank 0");
  ASSERT_TRUE(secure.has_value()) << secure.error().message;
  Acceptor acceptor({.listener = &*listener_, .streams = &*secure, .places = 2});
  const auto caller = secure->client(call());
  ASSERT_TRUE(caller.has_value());
  EXPECT_FALSE(*(*caller)->handshake());
  Arrival peer = std::move(next(acceptor).arrivals.at(0));
  while (!peer.stream->showed_secret()) {
    ASSERT_TRUE(wait_ready(peer.stream->descriptor(), Readiness::kRead, soon()));
    EXPECT_FALSE(*peer.stream->handshake());
  }
  EXPECT_FALSE(peer.stream->authenticated());
  peer.place.update(*peer.stream);
  std::vector<Socket> strangers;
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 3; ++i) {
    strangers.push_back(call());
    arrivals.push_back(std::move(next(acceptor).arrivals.at(0)));
  }
  EXPECT_TRUE(arrivals[0].place.revoked());
  EXPECT_TRUE(arrivals[1].place.revoked());
  EXPECT_FALSE(arrivals[2].place.revoked());
  EXPECT_FALSE(peer.place.revoked());
}

TEST_F(AcceptorOn, OtherUsersOfALocalSocketAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string name = "tally-acceptor-" + std::to_string(::getpid());
  const auto local = listen_locally(name);
  ASSERT_TRUE(local.has_value()) << local.error().message;
  Acceptor acceptor({.local_listener = &*local, .streams = &plain_});
  std::optional<Descriptor> theirs;
  const OtherUser nobody([&] {
    auto socket = connect_locally(name);
    if (socket.has_value()) theirs = *std::move(socket);
    return theirs.has_value();
  });
  const Acceptor::Outcome outcome = next(acceptor);
  EXPECT_TRUE(outcome.arrivals.empty());
  EXPECT_EQ(outcome.refused.size(), 1U);
}

// The kernel shows the sockets of processes that have closed them as those of user 0.
TEST_F(AcceptorOn, AConnectionThatTheCallerClosedIsOfNoUser) {
  call();
  const Acceptor::Outcome outcome = [this] {
    Acceptor acceptor({.listener = &*listener_, .streams = &plain_});
    return next(acceptor);
  }();
  EXPECT_TRUE(outcome.arrivals.empty());
  ASSERT_EQ(outcome.refused.size(), 1U);
  EXPECT_EQ(outcome.refused[0].why.code, ErrorCode::kPeerLost);
}

class PeerUserAt : public testing::TestWithParam<const char*> {};

TEST_P(PeerUserAt, IsKnownToBothSides) {
  auto listener = Listener::bind({.host = GetParam()});
  if (!listener.has_value()) GTEST_SKIP() << listener.error().message;
  const auto caller = connect(listener->address(), soon());
  ASSERT_TRUE(caller.has_value()) << caller.error().message;
  const auto host = listener->accept(soon());
  ASSERT_TRUE(host.has_value()) << host.error().message;
  for (const int descriptor : {caller->descriptor(), host->descriptor()}) {
    const auto user = check_peer_user(descriptor);
    ASSERT_TRUE(user.has_value()) << user.error().message;
    EXPECT_EQ(*user, PeerUser::kSame);
  }
}

// The connection belongs to no process until it is accepted.
TEST_P(PeerUserAt, IsThatOfAListenerThatHasNotAccepted) {
  auto listener = Listener::bind({.host = GetParam()});
  if (!listener.has_value()) GTEST_SKIP() << listener.error().message;
  const auto caller = connect(listener->address(), soon());
  ASSERT_TRUE(caller.has_value()) << caller.error().message;
  const auto user = check_peer_user(caller->descriptor());
  ASSERT_TRUE(user.has_value()) << user.error().message;
  EXPECT_EQ(*user, PeerUser::kSame);
}

INSTANTIATE_TEST_SUITE_P(Addresses, PeerUserAt, testing::Values("127.0.0.1", "::1"));

class ListenerOfAnotherUser : public testing::TestWithParam<OtherListener::Accepts> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    listener_ = std::make_unique<OtherListener>(GetParam());
    auto socket = connect(listener_->address(), soon());
    ASSERT_TRUE(socket.has_value()) << socket.error().message;
    socket_ = *std::move(socket);
    if (GetParam() == OtherListener::Accepts::kOne) listener_->await_accepted();
  }

  std::unique_ptr<OtherListener> listener_;
  Socket socket_;
};

TEST_P(ListenerOfAnotherUser, IsRefusedByTheSideThatConnects) {
  const auto stream = StreamFactory().client(std::move(socket_));
  ASSERT_TRUE(stream.has_value());
  const auto shaken = complete_handshake(**stream, soon());
  ASSERT_FALSE(shaken.has_value());
  EXPECT_EQ(shaken.error().code, ErrorCode::kRefused);
  EXPECT_EQ(shaken.error().message,
            "it belongs to user 65534, and without a secret user 0 trusts no other user of this "
            "machine: give the job a secret, or use another port");
}

TEST_P(ListenerOfAnotherUser, MayProveTheSecret) {
  const auto secure = StreamFactory::make(Secret{}, "tally rank 0");
  ASSERT_TRUE(secure.has_value()) << secure.error().message;
  const auto stream = secure->client(std::move(socket_));
  ASSERT_TRUE(stream.has_value());
  const auto shaken = (*stream)->handshake();
  ASSERT_TRUE(shaken.has_value()) << shaken.error().message;
  EXPECT_FALSE(*shaken);  // it waits for the proof
}

INSTANTIATE_TEST_SUITE_P(Accepts, ListenerOfAnotherUser,
                         testing::Values(OtherListener::Accepts::kNothing,
                                         OtherListener::Accepts::kOne),
                         [](const auto& accepts) {
                           return accepts.param == OtherListener::Accepts::kOne ? "One" : "Nothing";
                         });

}  // namespace
}  // namespace tally::net
