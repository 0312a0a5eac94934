#include "server/protocol/message.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tally::server {
namespace {

MessageHeader drawn(Rng& rng) {
  return {.kind = MessageKind::kPushPull,
          .outcome = Outcome::kDropped,
          .push_kind = static_cast<std::uint8_t>(rng.next()),
          .table = static_cast<std::uint16_t>(rng.next()),
          .part = static_cast<std::uint32_t>(rng.next()),
          .view = static_cast<std::uint32_t>(rng.next()),
          .sequence = rng.next(),
          .clock = rng.next(),
          .version = rng.next(),
          .least_version = rng.next(),
          .least_clock = rng.next(),
          .weight = rng.uniform(),
          .rate = rng.uniform(),
          .payload_bytes = static_cast<std::uint32_t>(rng.below(kMaxPayloadBytes + 1)),
          .payload_checksum = static_cast<std::uint32_t>(rng.next()),
          .payload_place = rng.next(),
          .reply_place = rng.next(),
          .reply_bytes = static_cast<std::uint32_t>(rng.below(kMaxPayloadBytes + 1))};
}

TEST(Message, EveryFieldComesBack) {
  Rng rng(7);
  for (int i = 0; i < 100; ++i) {
    const MessageHeader header = drawn(rng);
    const EncodedHeader bytes = encode(header);
    const auto back = decode(bytes);
    ASSERT_TRUE(back.has_value()) << back.error().message;
    EXPECT_EQ(*back, header);
  }
}

TEST(Message, EveryFlippedByteIsSeen) {
  Rng rng(8);
  const EncodedHeader good = encode(drawn(rng));
  for (std::size_t i = 0; i < good.size(); ++i) {
    EncodedHeader bad = good;
    bad[i] ^= std::byte{0x10};
    EXPECT_FALSE(decode(bad).has_value()) << "byte " << i;
  }
}

TEST(Message, WhatEncodeWouldNotMakeIsRefused) {
  EXPECT_FALSE(decode(encode({.kind = static_cast<MessageKind>(7)})).has_value());
  EXPECT_FALSE(decode(encode({.outcome = static_cast<Outcome>(9)})).has_value());
  EXPECT_FALSE(decode(encode({.payload_bytes = kMaxPayloadBytes + 1})).has_value());
  EXPECT_FALSE(decode(encode({.reply_bytes = kMaxPayloadBytes + 1})).has_value());
  EXPECT_FALSE(decode(encode({.rate = std::numeric_limits<double>::infinity()})).has_value());
}

}  // namespace
}  // namespace tally::server
