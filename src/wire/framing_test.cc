#include "wire/framing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "wire/frame.h"
#include "wire/little_endian.h"

namespace tally::wire {
namespace {

using Payload = std::vector<std::byte>;

class FramingOf : public testing::TestWithParam<Framing> {};

TEST_P(FramingOf, MessagesComeOutOfABufferHoweverTheyAreCut) {
  const std::vector<Payload> sent = {Payload(1, std::byte{5}), Payload(80, std::byte{6}),
                                     Payload(3000, std::byte{7})};
  Payload bytes;
  for (const Payload& payload : sent) {
    const auto framed = frame(GetParam(), payload);
    bytes.insert(bytes.end(), framed.begin(), framed.end());
  }
  for (const std::size_t piece : {1U, 7U, 80U, 81U, 10000U}) {
    FrameBuffer buffer(GetParam());
    std::vector<Payload> received;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      buffer.add(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
      for (auto next = buffer.next(); next->has_value(); next = buffer.next())
        received.push_back(**next);
    }
    EXPECT_EQ(received, sent) << piece;
  }
}

TEST_P(FramingOf, GarbageIsCorruptAsSoonAsItCanBeSeen) {
  FrameBuffer buffer(GetParam());
  const std::string text =
      "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a scanner that means no harm at all\r\n";
  buffer.add(std::as_bytes(std::span(text)));
  const auto next = buffer.next();
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(buffer.next().has_value());
}

INSTANTIATE_TEST_SUITE_P(Framings, FramingOf,
                         testing::Values(Framing::kControlFrame, Framing::kLengthPrefix));

// A header that announces too long a message is refused before any memory is allocated for it.
TEST(FrameBuffer, OversizeAndEmptyMessagesAreCorrupt) {
  FrameBuffer control(Framing::kControlFrame);
  control.add(encode({.kind = FrameKind::kControl,
                      .message_bytes = kMaxPayloadBytes + 1,
                      .payload_bytes = kMaxPayloadBytes + 1}));
  EXPECT_FALSE(control.next().has_value());
  FrameBuffer empty(Framing::kControlFrame);
  empty.add(encode({.kind = FrameKind::kControl}));
  EXPECT_FALSE(empty.next().has_value());
  for (const std::size_t length : {std::size_t{0}, kMaxPrefixedBytes + 1}) {
    FrameBuffer prefixed(Framing::kLengthPrefix);
    Payload bytes(4);
    store(bytes, 0, static_cast<std::uint32_t>(length));
    prefixed.add(bytes);
    EXPECT_FALSE(prefixed.next().has_value());
  }
}

TEST(FrameBuffer, OtherFramesAreCorrupt) {
  FrameBuffer data(Framing::kControlFrame);
  data.add(encode({.kind = FrameKind::kData, .message_bytes = 1, .payload_bytes = 1}));
  EXPECT_FALSE(data.next().has_value());
}

TEST(FrameBuffer, AlteredControlFrameIsCorrupt) {
  FrameBuffer buffer(Framing::kControlFrame);
  auto bytes = frame(Framing::kControlFrame, Payload(10, std::byte{1}));
  bytes.back() = std::byte{2};
  buffer.add(bytes);
  EXPECT_FALSE(buffer.next().has_value());
}

}  // namespace
}  // namespace tally::wire
