// A raw socket takes the place of a rank. For any bytes that it sends, the transport counts the
// fault, closes the connection if it must, names the peer, and continues with the other ranks. The
// parameter tells whether the transport has a sender thread.
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "kernel/crc32c/crc32c.h"
#include "net/socket.h"
#include "net/stream.h"
#include "net/tcp_transport.h"
#include "net/transport_conformance.h"
#include "wire/frame.h"

namespace tally::net {
namespace {

constexpr std::uint32_t kGeneration = 5;

// Rank 0 of two over one end of a socket pair. The test holds the other end.
class LyingPeer : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    liar_ = Socket(ends[1]);
    std::vector<std::unique_ptr<Stream>> streams(2);
    streams[1] = plain_stream(Socket(ends[0]));
    auto transport = TcpTransport::make(
        {.rank = 0, .generation = kGeneration, .options = {.sender_thread = GetParam()}},
        std::move(streams));
    ASSERT_TRUE(transport.has_value());
    transport_ = *std::move(transport);
  }

  static std::vector<std::byte> frame(wire::FrameHeader header,
                                      const std::vector<std::byte>& payload) {
    header.generation = header.generation == 0 ? kGeneration : header.generation;
    header.message_bytes = payload.size();
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    header.payload_checksum = kernel::crc32c(payload);
    const wire::EncodedHeader encoded = wire::encode(header);
    std::vector<std::byte> bytes(encoded.size() + payload.size());
    std::copy(encoded.begin(), encoded.end(), bytes.begin());
    std::copy(payload.begin(), payload.end(), bytes.begin() + encoded.size());
    return bytes;
  }

  void send(const std::vector<std::byte>& bytes) {
    ASSERT_EQ(::send(liar_.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  void settle() {
    for (int quiet = 0; quiet < 20; ++quiet) {
      if (transport_->progress(inbox_)) quiet = 0;
    }
  }

  void expect_corrupt(const std::string& because) {
    settle();
    ASSERT_EQ(inbox_.losses.size(), 1U);
    EXPECT_EQ(inbox_.losses[0].peer, 1);
    EXPECT_EQ(inbox_.losses[0].why.peer, 1);
    EXPECT_EQ(inbox_.losses[0].why.code, ErrorCode::kCorrupt);
    EXPECT_NE(inbox_.losses[0].why.message.find(because), std::string::npos)
        << inbox_.losses[0].why.message;
    EXPECT_EQ(transport_->counters().corrupt_frames, 1U);
    EXPECT_EQ(inbox_.count_from(1), 0U);
    // The liar sees the end of the connection as well.
    char byte = 0;
    EXPECT_LE(::recv(liar_.descriptor(), &byte, 1, 0), 0);
    EXPECT_LT(::send(liar_.descriptor(), &byte, 1, MSG_NOSIGNAL), 0);
  }

  Socket liar_;
  Inbox inbox_;
  std::unique_ptr<TcpTransport> transport_;
};

TEST_P(LyingPeer, HonestFrameIsDelivered) {
  send(frame({.number = 0}, pattern(100, 1)));
  send(frame({.number = 1}, pattern(0, 1)));
  settle();
  ASSERT_EQ(inbox_.count_from(1), 2U);
  EXPECT_TRUE(inbox_.messages[1][0].bytes == pattern(100, 1));
}

TEST_P(LyingPeer, AlteredPayloadByteIsCorrupt) {
  std::vector<std::byte> bytes = frame({}, pattern(100, 1));
  bytes[wire::kHeaderBytes + 50] ^= std::byte{1};
  send(bytes);
  expect_corrupt("checksum");
}

TEST_P(LyingPeer, AlteredPayloadByteAtItsPlaceIsCorrupt) {
  inbox_.use_place = true;
  std::vector<std::byte> bytes = frame({}, pattern(100, 1));
  bytes[wire::kHeaderBytes + 50] ^= std::byte{1};
  send(bytes);
  expect_corrupt("checksum");
}

TEST_P(LyingPeer, AlteredHeaderByteIsCorrupt) {
  std::vector<std::byte> bytes = frame({}, pattern(100, 1));
  bytes[20] ^= std::byte{1};
  send(bytes);
  expect_corrupt("checksum");
}

TEST_P(LyingPeer, GarbageIsCorrupt) {
  send(pattern(1000, 9));
  expect_corrupt("magic");
}

TEST_P(LyingPeer, OverLongPayloadIsCorruptBeforeItIsRead) {
  wire::FrameHeader header{.generation = kGeneration,
                           .message_bytes = ~std::uint64_t{0},
                           .payload_bytes = wire::kMaxPayloadBytes + 1};
  const wire::EncodedHeader encoded = wire::encode(header);
  send({encoded.begin(), encoded.end()});
  expect_corrupt("limit");
}

TEST_P(LyingPeer, FrameBeyondItsMessageIsCorrupt) {
  wire::FrameHeader header{.generation = kGeneration, .message_bytes = 4, .payload_bytes = 5};
  const wire::EncodedHeader encoded = wire::encode(header);
  send({encoded.begin(), encoded.end()});
  expect_corrupt("in a message of 4");
}

TEST_P(LyingPeer, ReplayedFrameIsCorrupt) {
  const auto once = frame({.kind = wire::FrameKind::kGoodbye, .generation = 3}, {});
  send(once);
  send(once);
  expect_corrupt("frame number 0 where 1 was due");
}

TEST_P(LyingPeer, MissingFrameIsCorrupt) {
  send(frame({.number = 1}, pattern(10, 1)));
  expect_corrupt("frame number 1 where 0 was due");
}

TEST_P(LyingPeer, OldGenerationIsDroppedAndCounted) {
  send(frame({.generation = kGeneration - 1, .number = 0}, pattern(5000, 1)));
  send(frame({.number = 1}, pattern(100, 2)));
  settle();
  EXPECT_EQ(transport_->counters().stale_frames, 1U);
  EXPECT_EQ(transport_->counters().frames_received, 1U);
  ASSERT_EQ(inbox_.count_from(1), 1U);
  EXPECT_TRUE(inbox_.messages[1][0].bytes == pattern(100, 2));
  EXPECT_TRUE(inbox_.losses.empty());
}

// The cut lies in the header, in the payload, or between frames.
TEST_P(LyingPeer, TornFrameIsALostPeer) {
  const std::vector<std::byte> whole = frame({}, pattern(50, 1));
  for (const std::size_t cut : {std::size_t{1}, wire::kHeaderBytes, whole.size() - 1}) {
    SetUp();
    inbox_ = Inbox();
    send({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut)});
    settle();
    EXPECT_TRUE(inbox_.losses.empty());
    liar_.reset();
    settle();
    ASSERT_EQ(inbox_.losses.size(), 1U);
    EXPECT_EQ(inbox_.losses[0].why.code, ErrorCode::kPeerLost);
    EXPECT_NE(inbox_.losses[0].why.message.find("middle of a frame"), std::string::npos);
    EXPECT_EQ(inbox_.count_from(1), 0U);
  }
}

// The transport assembles a frame that arrives one byte per call.
TEST_P(LyingPeer, FrameInDribsIsDelivered) {
  for (const bool use_place : {false, true}) {
    SetUp();
    inbox_ = Inbox();
    inbox_.use_place = use_place;
    for (const std::byte byte : frame({}, pattern(300, 4))) {
      send({byte});
      transport_->progress(inbox_);
    }
    ASSERT_EQ(inbox_.count_from(1), 1U);
    EXPECT_TRUE(inbox_.messages[1][0].bytes == pattern(300, 4));
  }
}

// A peer that never stops sending gets a bounded amount of work per call.
TEST_P(LyingPeer, OneCallDoesABoundedAmountOfWork) {
  std::vector<std::unique_ptr<Stream>> streams(2);
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  liar_ = Socket(ends[1]);
  streams[1] = plain_stream(Socket(ends[0]));
  transport_ = *TcpTransport::make({.rank = 0,
                                    .generation = kGeneration,
                                    .options = {.budget_bytes = 1000, .sender_thread = GetParam()}},
                                   std::move(streams));
  // Fill the socket with frames; one read fetches 64 KiB.
  std::uint32_t count = 0;
  while (true) {
    const auto bytes = frame({.number = count}, pattern(8000, count));
    if (::send(liar_.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size())) {
      break;
    }
    ++count;
  }
  ASSERT_GT(count, 12U);
  EXPECT_TRUE(transport_->progress(inbox_));
  EXPECT_LE(inbox_.count_from(1), 9U);
  // The transport keeps the rest, and wait() returns at once.
  transport_->wait(Deadline::never());
  settle();
  EXPECT_GE(inbox_.count_from(1), count);
}

TEST_P(LyingPeer, ResetIsALostPeer) {
  Letter letter;
  letter.bytes = pattern(1000, 1);
  letter.outgoing.payload = letter.bytes;
  transport_->post(1, letter.outgoing);
  liar_.reset();  // with unread bytes, so that the other side sees a reset
  settle();
  ASSERT_EQ(inbox_.losses.size(), 1U);
  EXPECT_EQ(inbox_.losses[0].why.code, ErrorCode::kPeerLost);
}

// The transport reads the goodbye even if writing to the peer has already failed.
TEST_P(LyingPeer, GoodbyeBeforeAResetIsStillHeard) {
  send(frame({.kind = wire::FrameKind::kGoodbye}, {}));
  liar_.reset();
  Letter letter;
  letter.bytes = pattern(1000, 1);
  letter.outgoing.payload = letter.bytes;
  transport_->post(1, letter.outgoing);
  EXPECT_TRUE(letter.outgoing.sent());
  settle();
  EXPECT_EQ(inbox_.goodbye_count, 1);
  EXPECT_TRUE(inbox_.losses.empty());
}

// A peer that reads nothing fills its socket. The message that does not fit is withdrawn, and the
// rest of the frame that has begun follows when the peer reads.
TEST_P(LyingPeer, PeerThatReadsNothingGetsAWholeFrameInTheEnd) {
  Letter letter;
  letter.bytes = pattern(std::size_t{2} << 20, 1);
  letter.outgoing.payload = letter.bytes;
  const std::vector<std::byte> posted = letter.bytes;
  transport_->post(1, letter.outgoing);
  const Deadline by = Deadline::after(std::chrono::seconds(60));
  ASSERT_TRUE(wait_ready(liar_.descriptor(), Readiness::kRead, by));
  settle();
  ASSERT_FALSE(letter.outgoing.sent());
  transport_->withdraw(1, letter.outgoing);
  letter.bytes.assign(letter.bytes.size(), std::byte{0});
  Letter last;
  last.bytes = pattern(10, 2);
  last.outgoing.payload = last.bytes;
  transport_->post(1, last.outgoing);
  std::vector<std::byte> arrived;
  while (!last.outgoing.sent() && !by.passed(SteadyClock().now())) {
    std::vector<std::byte> part(std::size_t{64} << 10);
    const ssize_t count = ::recv(liar_.descriptor(), part.data(), part.size(), MSG_DONTWAIT);
    if (count > 0) arrived.insert(arrived.end(), part.begin(), part.begin() + count);
    transport_->progress(inbox_);
  }
  ASSERT_TRUE(last.outgoing.sent());
  transport_.reset();
  std::vector<std::byte> rest(std::size_t{1} << 20);
  const ssize_t count = ::recv(liar_.descriptor(), rest.data(), rest.size(), MSG_DONTWAIT);
  if (count > 0) arrived.insert(arrived.end(), rest.begin(), rest.begin() + count);
  // Whole frames of the first message, unaltered, and then the second message.
  std::size_t at = 0;
  std::size_t offset = 0;
  for (;;) {
    ASSERT_GE(arrived.size(), at + wire::kHeaderBytes);
    const auto header = wire::decode(std::span(arrived).subspan(at).first<wire::kHeaderBytes>());
    ASSERT_TRUE(header.has_value());
    at += wire::kHeaderBytes;
    ASSERT_GE(arrived.size(), at + header->payload_bytes);
    const auto payload = std::span(arrived).subspan(at, header->payload_bytes);
    at += header->payload_bytes;
    if (header->message_bytes == last.bytes.size()) {
      EXPECT_TRUE(std::equal(payload.begin(), payload.end(), last.bytes.begin()));
      break;
    }
    ASSERT_EQ(header->offset_bytes, offset);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(),
                           posted.begin() + static_cast<std::ptrdiff_t>(offset)));
    offset += payload.size();
  }
  EXPECT_EQ(at, arrived.size());
  EXPECT_GT(offset, 0U);
}

INSTANTIATE_TEST_SUITE_P(Tcp, LyingPeer, testing::Bool(), [](const auto& tested) {
  return tested.param ? "SenderThread" : "OneThread";
});

}  // namespace
}  // namespace tally::net
