#include "wire/frame.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "kernel/crc32c/crc32c.h"
#include "wire/little_endian.h"

namespace tally::wire {
namespace {

FrameHeader random_header(Rng& rng) {
  FrameHeader header;
  header.kind = static_cast<FrameKind>(1 + rng.below(7));
  header.generation = static_cast<std::uint32_t>(rng.next());
  header.channel = static_cast<std::uint32_t>(rng.next());
  header.sequence = static_cast<std::uint32_t>(rng.next());
  header.step = static_cast<std::uint32_t>(rng.next());
  header.number = static_cast<std::uint32_t>(rng.next());
  header.signature = {.count = rng.next(),
                      .operation = static_cast<std::uint8_t>(rng.next()),
                      .type = static_cast<std::uint8_t>(rng.next()),
                      .reduce_op = static_cast<std::uint8_t>(rng.next()),
                      .algorithm = static_cast<std::uint8_t>(rng.next()),
                      .root = static_cast<std::int32_t>(rng.next())};
  header.payload_bytes = static_cast<std::uint32_t>(rng.below(kMaxPayloadBytes + 1));
  header.offset_bytes = rng.next() >> 1;
  header.message_bytes = header.offset_bytes + header.payload_bytes + rng.below(1000);
  header.payload_checksum = static_cast<std::uint32_t>(rng.next());
  return header;
}

// Writes the correct checksum over deliberately changed bytes.
void seal(EncodedHeader& bytes) { store(bytes, 76, kernel::crc32c(std::span(bytes).first(76))); }

void expect_corrupt(const EncodedHeader& bytes, const std::string& because) {
  const auto decoded = decode(bytes);
  ASSERT_FALSE(decoded.has_value()) << because;
  EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(decoded.error().message.find(because), std::string::npos) << decoded.error().message;
}

TEST(Frame, DecodingGivesBackWhatWasEncoded) {
  Rng rng(1);
  for (int i = 0; i < 1000; ++i) {
    const FrameHeader header = random_header(rng);
    const auto decoded = decode(encode(header));
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message << ", seed 1, turn " << i;
    EXPECT_EQ(*decoded, header) << "seed 1, turn " << i;
  }
}

TEST(Frame, LayoutIsTheDocumentedOne) {
  const FrameHeader header{.kind = FrameKind::kPoint,
                           .generation = 0x01020304,
                           .message_bytes = 0x1122334455667788,
                           .payload_bytes = 5};
  const EncodedHeader bytes = encode(header);
  EXPECT_EQ(bytes[0], std::byte{'T'});
  EXPECT_EQ(bytes[1], std::byte{'L'});
  EXPECT_EQ(bytes[2], std::byte{'L'});
  EXPECT_EQ(bytes[3], std::byte{'Y'});
  EXPECT_EQ(bytes[4], std::byte{kProtocolVersion});
  EXPECT_EQ(bytes[6], std::byte{2});
  EXPECT_EQ(bytes[8], std::byte{0x04});
  EXPECT_EQ(bytes[11], std::byte{0x01});
  EXPECT_EQ(bytes[44], std::byte{5});
  EXPECT_EQ(bytes[48], std::byte{0x88});
  EXPECT_EQ(bytes[55], std::byte{0x11});
}

TEST(Frame, EveryAlteredBitIsNoticed) {
  Rng rng(2);
  const EncodedHeader good = encode(random_header(rng));
  for (std::size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    EncodedHeader bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(decode(bad).has_value()) << "bit " << bit;
  }
}

TEST(Frame, SealedLiesAreRefused) {
  Rng rng(3);
  const EncodedHeader good = encode(random_header(rng));
  EncodedHeader bad = good;
  store<std::uint32_t>(bad, 0, 0xDEADBEEF);
  seal(bad);
  expect_corrupt(bad, "magic");

  bad = good;
  store<std::uint16_t>(bad, 4, kProtocolVersion + 1);
  seal(bad);
  expect_corrupt(bad, "version");

  for (const int kind : {0, 8, 255}) {
    bad = good;
    store<std::uint8_t>(bad, 6, static_cast<std::uint8_t>(kind));
    seal(bad);
    expect_corrupt(bad, "unknown kind");
  }
  for (const std::size_t at : {7, 68, 75}) {
    bad = good;
    store<std::uint8_t>(bad, at, 1);
    seal(bad);
    expect_corrupt(bad, "reserved");
  }
}

TEST(Frame, PayloadStaysWithinItsLimitAndItsMessage) {
  FrameHeader header;
  header.payload_bytes = kMaxPayloadBytes;
  header.message_bytes = kMaxPayloadBytes;
  EXPECT_TRUE(decode(encode(header)).has_value());

  header.payload_bytes = kMaxPayloadBytes + 1;
  header.message_bytes = kMaxPayloadBytes + 1;
  expect_corrupt(encode(header), "limit");

  header = {.message_bytes = 10, .offset_bytes = 6, .payload_bytes = 5};
  expect_corrupt(encode(header), "in a message of 10");

  header = {.message_bytes = 10, .offset_bytes = 11, .payload_bytes = 0};
  expect_corrupt(encode(header), "in a message of 10");

  // offset + payload would overflow to a small number.
  header = {.message_bytes = 10, .offset_bytes = ~std::uint64_t{0}, .payload_bytes = 5};
  expect_corrupt(encode(header), "in a message of 10");
}

}  // namespace
}  // namespace tally::wire
