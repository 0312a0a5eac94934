#include "wire/frame.h"

#include "base/errors.h"
#include "kernel/crc32c/crc32c.h"
#include "wire/little_endian.h"

namespace tally::wire {
namespace {

constexpr std::uint32_t kMagic = 0x594C4C54;  // "TLLY" as the bytes lie

// The offset of each field; docs/wire_format.md has the same table.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kKindAt = 6;
constexpr std::size_t kReservedByteAt = 7;
constexpr std::size_t kGenerationAt = 8;
constexpr std::size_t kChannelAt = 12;
constexpr std::size_t kSequenceAt = 16;
constexpr std::size_t kStepAt = 20;
constexpr std::size_t kNumberAt = 24;
constexpr std::size_t kRootAt = 28;
constexpr std::size_t kCountAt = 32;
constexpr std::size_t kOperationAt = 40;
constexpr std::size_t kTypeAt = 41;
constexpr std::size_t kReduceOpAt = 42;
constexpr std::size_t kAlgorithmAt = 43;
constexpr std::size_t kPayloadBytesAt = 44;
constexpr std::size_t kMessageBytesAt = 48;
constexpr std::size_t kOffsetBytesAt = 56;
constexpr std::size_t kPayloadChecksumAt = 64;
constexpr std::size_t kReservedAt = 68;
constexpr std::size_t kHeaderChecksumAt = 76;
static_assert(kHeaderChecksumAt + sizeof(std::uint32_t) == kHeaderBytes);

bool known(std::uint8_t kind) {
  return kind >= static_cast<std::uint8_t>(FrameKind::kData) &&
         kind <= static_cast<std::uint8_t>(FrameKind::kControl);
}

// Checks magic, version, checksum and reserved bytes before any other field is used.
Result<void> check_envelope(std::span<const std::byte, kHeaderBytes> bytes) {
  if (load<std::uint32_t>(bytes, kMagicAt) != kMagic) return corrupt("not a frame: wrong magic");
  const auto version = load<std::uint16_t>(bytes, kVersionAt);
  if (version != kProtocolVersion) {
    return corrupt("frame of protocol version {}, expected {}", version, kProtocolVersion);
  }
  if (load<std::uint32_t>(bytes, kHeaderChecksumAt) !=
      kernel::crc32c(bytes.first(kHeaderChecksumAt))) {
    return corrupt("frame header fails its checksum");
  }
  if (load<std::uint8_t>(bytes, kReservedByteAt) != 0 ||
      load<std::uint64_t>(bytes, kReservedAt) != 0) {
    return corrupt("frame header with reserved bytes in use");
  }
  return {};
}

}  // namespace

EncodedHeader encode(const FrameHeader& header) {
  EncodedHeader bytes{};
  store(bytes, kMagicAt, kMagic);
  store(bytes, kVersionAt, kProtocolVersion);
  store(bytes, kKindAt, static_cast<std::uint8_t>(header.kind));
  store(bytes, kGenerationAt, header.generation);
  store(bytes, kChannelAt, header.channel);
  store(bytes, kSequenceAt, header.sequence);
  store(bytes, kStepAt, header.step);
  store(bytes, kNumberAt, header.number);
  store(bytes, kRootAt, header.signature.root);
  store(bytes, kCountAt, header.signature.count);
  store(bytes, kOperationAt, header.signature.operation);
  store(bytes, kTypeAt, header.signature.type);
  store(bytes, kReduceOpAt, header.signature.reduce_op);
  store(bytes, kAlgorithmAt, header.signature.algorithm);
  store(bytes, kPayloadBytesAt, header.payload_bytes);
  store(bytes, kMessageBytesAt, header.message_bytes);
  store(bytes, kOffsetBytesAt, header.offset_bytes);
  store(bytes, kPayloadChecksumAt, header.payload_checksum);
  store(bytes, kHeaderChecksumAt, kernel::crc32c(std::span(bytes).first(kHeaderChecksumAt)));
  return bytes;
}

Result<FrameHeader> decode(std::span<const std::byte, kHeaderBytes> bytes) {
  TALLY_TRY(check_envelope(bytes));
  const auto kind = load<std::uint8_t>(bytes, kKindAt);
  if (!known(kind)) return corrupt("frame of unknown kind {}", kind);

  FrameHeader header;
  header.kind = static_cast<FrameKind>(kind);
  header.generation = load<std::uint32_t>(bytes, kGenerationAt);
  header.channel = load<std::uint32_t>(bytes, kChannelAt);
  header.sequence = load<std::uint32_t>(bytes, kSequenceAt);
  header.step = load<std::uint32_t>(bytes, kStepAt);
  header.number = load<std::uint32_t>(bytes, kNumberAt);
  header.signature = {.count = load<std::uint64_t>(bytes, kCountAt),
                      .operation = load<std::uint8_t>(bytes, kOperationAt),
                      .type = load<std::uint8_t>(bytes, kTypeAt),
                      .reduce_op = load<std::uint8_t>(bytes, kReduceOpAt),
                      .algorithm = load<std::uint8_t>(bytes, kAlgorithmAt),
                      .root = load<std::int32_t>(bytes, kRootAt)};
  header.message_bytes = load<std::uint64_t>(bytes, kMessageBytesAt);
  header.offset_bytes = load<std::uint64_t>(bytes, kOffsetBytesAt);
  header.payload_bytes = load<std::uint32_t>(bytes, kPayloadBytesAt);
  header.payload_checksum = load<std::uint32_t>(bytes, kPayloadChecksumAt);

  if (header.payload_bytes > kMaxPayloadBytes) {
    return corrupt("frame of {} bytes, limit {}", header.payload_bytes, kMaxPayloadBytes);
  }
  if (header.offset_bytes > header.message_bytes ||
      header.payload_bytes > header.message_bytes - header.offset_bytes) {
    return corrupt("frame of {} bytes at {} in a message of {}", header.payload_bytes,
                   header.offset_bytes, header.message_bytes);
  }
  return header;
}

}  // namespace tally::wire
