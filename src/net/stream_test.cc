#include "net/stream.h"

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "net/tls_stream.h"
#include "soon.h"

namespace tally::net {
namespace {

struct Sockets {
  Socket caller;
  Socket host;
};

Sockets connected_sockets() {
  auto listener = Listener::bind({.host = "127.0.0.1"});
  EXPECT_TRUE(listener.has_value());
  auto caller = connect(listener->address(), soon());
  auto host = listener->accept(soon());
  EXPECT_TRUE(caller.has_value() && host.has_value());
  return {*std::move(caller), *std::move(host)};
}

Secret secret_of(std::uint8_t seed) {
  Secret secret;
  secret.bytes.fill(std::byte{seed});
  return secret;
}

struct StreamPair {
  std::unique_ptr<Stream> caller;
  std::unique_ptr<Stream> host;
};

StreamPair plain_pair() {
  Sockets sockets = connected_sockets();
  return {plain_stream(std::move(sockets.caller)), plain_stream(std::move(sockets.host))};
}

StreamPair tls_pair(const TlsOptions& calling, const TlsOptions& hosting) {
  Sockets sockets = connected_sockets();
  auto client = TlsContext::make(calling);
  auto server = TlsContext::make(hosting);
  EXPECT_TRUE(client.has_value() && server.has_value());
  auto caller = (*client)->client(std::move(sockets.caller));
  auto host = (*server)->server(std::move(sockets.host));
  EXPECT_TRUE(caller.has_value() && host.has_value());
  return {*std::move(caller), *std::move(host)};
}

// Runs both handshakes at the same time. Returns the results of the caller and of the host.
std::pair<Result<void>, Result<void>> shake_hands(StreamPair& streams) {
  auto host =
      std::async(std::launch::async, [&] { return complete_handshake(*streams.host, soon()); });
  auto caller = complete_handshake(*streams.caller, soon());
  return {std::move(caller), host.get()};
}

struct StreamKind {
  std::string name;
  std::function<StreamPair()> make;
};

class StreamOf : public testing::TestWithParam<StreamKind> {};

// More bytes than any buffer holds, in parts of uneven sizes, in both directions at the same time.
TEST_P(StreamOf, BytesArriveInOrderAndWhole) {
  StreamPair streams = GetParam().make();
  const auto [caller, host] = shake_hands(streams);
  ASSERT_TRUE(caller.has_value()) << caller.error().message;
  ASSERT_TRUE(host.has_value()) << host.error().message;

  std::vector<std::byte> sent(std::size_t{9} << 20);
  Rng rng(5);
  for (auto& byte : sent) byte = static_cast<std::byte>(rng.next());
  std::vector<std::byte> heard(sent.size());
  auto listening =
      std::async(std::launch::async, [&] { return read_all(*streams.host, heard, soon()); });
  std::span<const std::byte> rest = sent;
  while (!rest.empty()) {
    const auto part = rest.first(std::min<std::size_t>(rest.size(), 1 + rng.below(300000)));
    ASSERT_TRUE(write_all(*streams.caller, part, soon()).has_value());
    rest = rest.subspan(part.size());
  }
  ASSERT_TRUE(listening.get().has_value());
  EXPECT_TRUE(sent == heard);
}

TEST_P(StreamOf, SeveralPartsAreOneSequence) {
  StreamPair streams = GetParam().make();
  shake_hands(streams);
  std::string a = "head", b, c = std::string(20000, 'x');
  const iovec parts[] = {{a.data(), a.size()}, {b.data(), 0}, {c.data(), c.size()}};
  const Io io = streams.caller->write(parts);
  ASSERT_EQ(io.state, Io::State::kMoved);
  ASSERT_EQ(io.bytes, 20004U);
  std::vector<std::byte> heard(20004);
  ASSERT_TRUE(read_all(*streams.host, heard, soon()).has_value());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(heard.data()), heard.size()), a + c);
  char more = 0;
  const iovec nothing{&more, 1};
  EXPECT_EQ(streams.host->read({&nothing, 1}).state, Io::State::kBlocked);
}

// The reader sees the end after the last byte. Writing to a closed peer returns an error and raises
// no signal.
TEST_P(StreamOf, EndIsSeenAfterTheLastByte) {
  StreamPair streams = GetParam().make();
  shake_hands(streams);
  const std::string last = "last";
  ASSERT_TRUE(write_all(*streams.caller, std::as_bytes(std::span(last)), soon()).has_value());
  streams.caller->shutdown();
  streams.caller.reset();
  std::vector<std::byte> heard(4);
  ASSERT_TRUE(read_all(*streams.host, heard, soon()).has_value());
  const auto end = read_all(*streams.host, heard, soon());
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().code, ErrorCode::kPeerLost);

  const std::vector<std::byte> unheard(std::size_t{1} << 20);
  Result<void> outcome;
  while (outcome) outcome = write_all(*streams.host, unheard, soon());
  EXPECT_EQ(outcome.error().code, ErrorCode::kPeerLost);
}

INSTANTIATE_TEST_SUITE_P(StreamPair, StreamOf,
                         testing::Values(StreamKind{"plain", plain_pair},
                                         StreamKind{"tls",
                                                    [] {
                                                      const TlsOptions same{.secret = secret_of(1),
                                                                            .identity = "tally"};
                                                      return tls_pair(same, same);
                                                    }},
                                         // Renews its key about nine times during the longest test.
                                         StreamKind{"tls_renewing_keys",
                                                    [] {
                                                      const TlsOptions same{
                                                          .secret = secret_of(1),
                                                          .identity = "tally",
                                                          .renew_key_bytes = 1 << 20};
                                                      return tls_pair(same, same);
                                                    }}),
                         [](const auto& kind) { return kind.param.name; });

TEST(TlsStream, SameSecretAuthenticatesBothSides) {
  const TlsOptions same{.secret = secret_of(1), .identity = "tally rank 0"};
  StreamPair streams = tls_pair(same, same);
  EXPECT_FALSE(streams.caller->authenticated());
  shake_hands(streams);
  for (const Stream* stream : {streams.caller.get(), streams.host.get()}) {
    EXPECT_TRUE(stream->authenticated());
    EXPECT_TRUE(stream->encrypted());
  }
}

// Both sides learn that the secrets differ, and the host learns the identity of the caller.
TEST(TlsStream, WrongSecretIsRefusedOnBothSides) {
  StreamPair streams = tls_pair({.secret = secret_of(1), .identity = "tally rank 3"},
                                {.secret = secret_of(2), .identity = "tally rank 0"});
  const auto [caller, host] = shake_hands(streams);
  ASSERT_FALSE(caller.has_value());
  EXPECT_EQ(caller.error().code, ErrorCode::kRefused);
  EXPECT_NE(caller.error().message.find("does not match"), std::string::npos)
      << caller.error().message;
  ASSERT_FALSE(host.has_value());
  EXPECT_EQ(host.error().code, ErrorCode::kRefused);
  EXPECT_NE(host.error().message.find("does not match"), std::string::npos) << host.error().message;
  EXPECT_NE(host.error().message.find("tally rank 3"), std::string::npos) << host.error().message;
}

TEST(TlsStream, IdentityOfAStrangerIsPrintable) {
  StreamPair streams = tls_pair({.secret = secret_of(1), .identity = "a\x1b[2Jb"},
                                {.secret = secret_of(2), .identity = "tally rank 0"});
  const auto [caller, host] = shake_hands(streams);
  ASSERT_FALSE(host.has_value());
  EXPECT_NE(host.error().message.find("a?[2Jb"), std::string::npos) << host.error().message;
}

TEST(TlsStream, PlainPeerIsRefused) {
  Sockets sockets = connected_sockets();
  auto context = TlsContext::make({.secret = secret_of(1), .identity = "tally rank 0"});
  auto host = (*context)->server(std::move(sockets.host));
  const std::string words = "GET / HTTP/1.0\r\n\r\nand more that no record begins with";
  ASSERT_GT(::send(sockets.caller.descriptor(), words.data(), words.size(), MSG_NOSIGNAL), 0);
  const auto outcome = complete_handshake(**host, soon());
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kRefused);
}

TEST(TlsStream, SilentPeerEndsAtTheDeadline) {
  Sockets sockets = connected_sockets();
  auto context = TlsContext::make({.secret = secret_of(1), .identity = "tally rank 0"});
  auto host = (*context)->server(std::move(sockets.host));
  const auto outcome = complete_handshake(**host, Deadline::after(std::chrono::milliseconds(20)));
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout);
}

TEST(TlsStream, PeerThatLeavesIsLost) {
  Sockets sockets = connected_sockets();
  auto context = TlsContext::make({.secret = secret_of(1), .identity = "tally rank 0"});
  auto host = (*context)->server(std::move(sockets.host));
  sockets.caller.reset();
  const auto outcome = complete_handshake(**host, soon());
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kPeerLost);
}

// One altered byte ends the connection. No byte of the altered record reaches the reader.
TEST(TlsStream, AlteredByteIsCorrupt) {
  const TlsOptions same{.secret = secret_of(1), .identity = "tally rank 0"};
  // The man in the middle forwards the handshake and alters the following bytes.
  Sockets near = connected_sockets();
  Sockets far = connected_sockets();
  auto context = TlsContext::make(same);
  auto caller = *(*context)->client(std::move(near.caller));
  auto host = *(*context)->server(std::move(far.host));
  const auto pass = [](const Socket& from, const Socket& to, std::byte alter) {
    std::byte bytes[4096];
    const ssize_t count = ::recv(from.descriptor(), bytes, sizeof(bytes), 0);
    if (count <= 0) return;
    bytes[count - 1] ^= alter;
    ::send(to.descriptor(), bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL);
  };
  bool done = false;
  while (!done) {
    const auto ours = caller->handshake();
    const auto theirs = host->handshake();
    ASSERT_TRUE(ours.has_value() && theirs.has_value());
    done = *ours && *theirs;
    pass(near.host, far.caller, std::byte{0});
    pass(far.caller, near.host, std::byte{0});
  }
  std::vector<std::byte> words(100);
  ASSERT_TRUE(write_all(*caller, words, soon()).has_value());
  ASSERT_TRUE(wait_ready(near.host.descriptor(), Readiness::kRead, soon()));
  pass(near.host, far.caller, std::byte{1});
  const auto outcome = read_all(*host, words, soon());
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kCorrupt) << outcome.error().message;
  // Later records do not reach the reader either.
  ASSERT_TRUE(write_all(*caller, words, soon()).has_value());
  ASSERT_TRUE(wait_ready(near.host.descriptor(), Readiness::kRead, soon()));
  pass(near.host, far.caller, std::byte{0});
  EXPECT_FALSE(read_all(*host, words, soon()).has_value());
}

}  // namespace
}  // namespace tally::net
