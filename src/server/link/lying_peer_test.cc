// A peer that sends invalid messages: the link ends with a reason, and has no other effect.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "kernel/crc32c/crc32c.h"
#include "server/link/greeting.h"
#include "server/link/link_receiver.h"

namespace tally::server {
namespace {

class Noting final : public LinkReceiver::Sink {
 public:
  std::span<std::byte> place(const MessageHeader& header) override {
    return std::span(place_memory).first(std::min<std::size_t>(placed, header.payload_bytes));
  }
  bool deliver(const Message& message) override {
    headers.push_back(message.header);
    payloads.emplace_back(message.payload.begin(), message.payload.end());
    return true;
  }
  std::vector<MessageHeader> headers;
  std::vector<std::vector<std::byte>> payloads;
  std::size_t placed = 0;
  std::vector<std::byte> place_memory = std::vector<std::byte>(4096);
};

class LyingPeer : public testing::Test {
 protected:
  void connect(bool local) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    peer_ = Descriptor(ends[0]);
    socket_ =
        local ? net::local_stream(Descriptor(ends[1])) : net::plain_stream(Descriptor(ends[1]));
    receiver_ = std::make_unique<LinkReceiver>();
  }

  void say(std::span<const std::byte> bytes, std::vector<int> descriptors = {}) {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
    if (!descriptors.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
      std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
    }
    ASSERT_EQ(::sendmsg(peer_.descriptor(), &message, MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void say(const MessageHeader& header, std::vector<int> descriptors = {}) {
    say(encode(header), std::move(descriptors));
  }

  LinkReceiver::End hear() { return receiver_->pump(*socket_, sink_, 1 << 20).end; }

  void expect_corrupt(const char* what) {
    EXPECT_EQ(hear(), LinkReceiver::End::kFailed) << what;
    EXPECT_EQ(receiver_->failure().code, ErrorCode::kCorrupt) << what;
    EXPECT_TRUE(sink_.headers.empty()) << what;
  }

  Descriptor peer_;
  std::unique_ptr<net::Stream> socket_;
  std::unique_ptr<LinkReceiver> receiver_;
  Noting sink_;
};

TEST_F(LyingPeer, GarbageEndsTheLink) {
  connect(false);
  say(std::vector<std::byte>(500, std::byte{0x5A}));
  expect_corrupt("garbage");
}

TEST_F(LyingPeer, AMessageCutShortIsALostPeer) {
  connect(false);
  say({.kind = MessageKind::kPush, .payload_bytes = 1000});
  say(std::vector<std::byte>(999));
  EXPECT_EQ(hear(), LinkReceiver::End::kDrained);
  peer_.reset();
  EXPECT_EQ(hear(), LinkReceiver::End::kFailed);
  EXPECT_EQ(receiver_->failure().code, ErrorCode::kPeerLost);
  EXPECT_TRUE(sink_.headers.empty());
}

TEST_F(LyingPeer, AWrongLengthEndsTheLink) {
  connect(false);
  const std::vector<std::byte> payload(64, std::byte{1});
  // The payload is longer than announced, so its rest is parsed as a header.
  say({.kind = MessageKind::kPush,
       .payload_bytes = 32,
       .payload_checksum = kernel::crc32c(std::span(payload).first(32))});
  say(payload);
  say({.kind = MessageKind::kPush});
  EXPECT_EQ(hear(), LinkReceiver::End::kFailed);
  EXPECT_EQ(sink_.headers.size(), 1U);
}

TEST_F(LyingPeer, AWrongChecksumEndsTheLink) {
  connect(false);
  say({.kind = MessageKind::kPush, .payload_bytes = 8, .payload_checksum = 1});
  say(std::vector<std::byte>(8));
  expect_corrupt("checksum");
}

TEST_F(LyingPeer, PlacesAreNoUseWhereNoMemoryIsShared) {
  for (const MessageHeader& header :
       {MessageHeader{.kind = MessageKind::kPush, .payload_place = 8},
        MessageHeader{.kind = MessageKind::kPull, .reply_place = (1ULL << 48)},
        MessageHeader{.kind = MessageKind::kAnswer, .reply_place = kWritten},
        MessageHeader{.kind = MessageKind::kRegion, .sequence = 4096}}) {
    connect(false);
    say(header);
    expect_corrupt("place over TCP");
  }
}

TEST_F(LyingPeer, PlacesOutsideOfWhatWasShownEndTheLink) {
  const auto shown = Mapping::create(8192);
  ASSERT_TRUE(shown.has_value());
  const std::uint64_t region = 1ULL << 48;
  for (const MessageHeader& header : {
           MessageHeader{
               .kind = MessageKind::kPush, .payload_bytes = 8193, .payload_place = region},
           MessageHeader{
               .kind = MessageKind::kPush, .payload_bytes = 64, .payload_place = region | 8136},
           MessageHeader{
               .kind = MessageKind::kPush, .payload_bytes = 8, .payload_place = 2 * region},
           MessageHeader{.kind = MessageKind::kPush, .payload_bytes = 8, .payload_place = 8},
           MessageHeader{
               .kind = MessageKind::kPull, .reply_place = region | 8, .reply_bytes = 8192},
           MessageHeader{.kind = MessageKind::kPull, .reply_place = region | 3, .reply_bytes = 8},
           MessageHeader{.kind = MessageKind::kPush, .reply_place = kWritten, .reply_bytes = 8},
       }) {
    connect(true);
    say({.kind = MessageKind::kRegion, .sequence = 8192}, {(*shown)->descriptor()});
    say(header);
    expect_corrupt("place outside");
  }
}

// A process that was stopped sees this when it resumes: its peer has closed the link and reuses the
// shared memory.
TEST_F(LyingPeer, WhatItAskedOfItsMemoryIsNotDoneOnceItHasEndedTheLink) {
  const auto shown = Mapping::create(8192);
  ASSERT_TRUE(shown.has_value());
  const std::uint64_t region = 1ULL << 48;
  connect(true);
  say({.kind = MessageKind::kRegion, .sequence = 8192}, {(*shown)->descriptor()});
  say({.kind = MessageKind::kPush, .sequence = 1, .payload_bytes = 64, .payload_place = region});
  EXPECT_EQ(hear(), LinkReceiver::End::kDrained);
  ASSERT_EQ(sink_.headers.size(), 1U);
  say({.kind = MessageKind::kPush, .sequence = 2, .payload_bytes = 64, .payload_place = region});
  say({.kind = MessageKind::kPull, .sequence = 3, .reply_place = region, .reply_bytes = 64});
  say({.kind = MessageKind::kLeave, .sequence = 4});
  ASSERT_EQ(::shutdown(peer_.descriptor(), SHUT_WR), 0);
  EXPECT_EQ(hear(), LinkReceiver::End::kFailed);
  ASSERT_EQ(sink_.headers.size(), 2U);
  EXPECT_EQ(sink_.headers[1].sequence, 4U);
}

TEST_F(LyingPeer, ARegionWithoutMemoryOrWithTooMuchEndsTheLink) {
  const auto shown = Mapping::create(8192);
  ASSERT_TRUE(shown.has_value());
  connect(true);
  say({.kind = MessageKind::kRegion, .sequence = 8192});
  expect_corrupt("no descriptor");
  connect(true);
  say({.kind = MessageKind::kRegion, .sequence = 4096}, {(*shown)->descriptor()});
  expect_corrupt("other size");
  connect(true);
  say({.kind = MessageKind::kPush}, std::vector<int>(17, (*shown)->descriptor()));
  EXPECT_EQ(hear(), LinkReceiver::End::kFailed);
}

// An answer must not claim more memory than the request provided.
TEST_F(LyingPeer, AWrittenAnswerThatNobodyWaitsForHasNoPayload) {
  connect(true);
  sink_.placed = 16;
  say({.kind = MessageKind::kAnswer, .reply_place = kWritten, .reply_bytes = 64});
  say({.kind = MessageKind::kAnswer, .reply_place = kWritten, .reply_bytes = 16});
  EXPECT_EQ(hear(), LinkReceiver::End::kDrained);
  ASSERT_EQ(sink_.payloads.size(), 2U);
  EXPECT_TRUE(sink_.payloads[0].empty());
  EXPECT_EQ(sink_.payloads[1].size(), 16U);
}

TEST_F(LyingPeer, MessagesInPiecesOfAnySizeAreWhole) {
  Rng rng(5);
  connect(false);
  std::vector<std::byte> stream;
  constexpr int kMessages = 200;
  for (int i = 0; i < kMessages; ++i) {
    std::vector<std::byte> payload(rng.below(20000));
    for (auto& byte : payload) byte = static_cast<std::byte>(rng.next());
    const EncodedHeader header =
        encode({.kind = MessageKind::kPush,
                .sequence = static_cast<std::uint64_t>(i),
                .payload_bytes = static_cast<std::uint32_t>(payload.size()),
                .payload_checksum = payload.empty() ? 0 : kernel::crc32c(payload)});
    stream.insert(stream.end(), header.begin(), header.end());
    stream.insert(stream.end(), payload.begin(), payload.end());
  }
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t count = std::min<std::size_t>(1 + rng.below(9000), stream.size() - at);
    say(std::span(stream).subspan(at, count));
    ASSERT_EQ(hear(), LinkReceiver::End::kDrained);
    at += count;
  }
  EXPECT_EQ(sink_.headers.size(), static_cast<std::size_t>(kMessages));
}

TEST_F(LyingPeer, NothingIsWrittenToLentMemoryOnceShut) {
  connect(false);
  sink_.placed = 4096;
  say({.kind = MessageKind::kAnswer, .payload_bytes = 4096});
  say(std::vector<std::byte>(100, std::byte{1}));
  EXPECT_EQ(hear(), LinkReceiver::End::kDrained);
  receiver_->shut();
  const std::vector<std::byte> before = sink_.place_memory;
  say(std::vector<std::byte>(3996, std::byte{2}));
  EXPECT_EQ(hear(), LinkReceiver::End::kShut);
  EXPECT_EQ(sink_.place_memory, before);
}

// The error about a peer whose build is 0xabc.
std::string other_build_text() {
  return fmt::format(
      "it runs another build of Tally (link version 2, build 0000000000000abc; this program: link "
      "version 2, build {:016x}): run directory, servers and workers from the same build",
      kLinkBuild);
}

TEST_F(LyingPeer, ANodeOfAnotherBuildIsNotJoined) {
  for (const LinkVerdict verdict : {LinkVerdict::kWelcome, LinkVerdict::kOtherVersion}) {
    connect(false);
    const auto said = encode(LinkAnswer{.verdict = verdict, .id = 3, .build = 0xabc});
    say(said);
    LinkAnswer answer;
    net::GreetingExchange exchange(std::move(socket_), calling_link({.from = 5, .to = 3}, answer));
    const auto met = exchange.advance();
    ASSERT_FALSE(met.has_value());
    EXPECT_EQ(met.error().code, ErrorCode::kRefused);
    EXPECT_EQ(met.error().message, other_build_text());
  }
}

TEST_F(LyingPeer, StrangersAtTheDoorAreTurnedAway) {
  const auto judge = [](const LinkGreeting& greeting) {
    return LinkAnswer{.verdict = tally::server::judge(greeting, {.role = Role::kServer, .id = 3}),
                      .id = 3};
  };
  const auto verdict_of = [&](std::span<const std::byte> said) {
    connect(false);
    say(said);
    LinkGreeting greeting;
    net::GreetingExchange exchange(std::move(socket_), accepting_link(judge, greeting));
    return exchange.advance();
  };
  EXPECT_EQ(verdict_of(std::vector<std::byte>(100, std::byte{'G'})).error().code,
            ErrorCode::kCorrupt);
  const auto other = encode(LinkGreeting{.version = 1, .from = 5, .to = 3});
  EXPECT_EQ(verdict_of(other).error().code, ErrorCode::kRefused);
  const auto other_build = verdict_of(encode(LinkGreeting{.from = 5, .to = 3, .build = 0xabc}));
  ASSERT_FALSE(other_build.has_value());
  EXPECT_EQ(other_build.error().code, ErrorCode::kRefused);
  EXPECT_EQ(other_build.error().message, other_build_text());
  const auto good = encode(LinkGreeting{.from = 5, .to = 3});
  const auto step = verdict_of(good);
  ASSERT_TRUE(step.has_value());
  EXPECT_TRUE(*step);
  const auto silent = verdict_of(std::span(good).first(10));
  ASSERT_TRUE(silent.has_value());
  EXPECT_FALSE(*silent);
}

}  // namespace
}  // namespace tally::server
