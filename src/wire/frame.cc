#include "wire/frame.h"

#include <type_traits>

#include "base/errors.h"
#include "kernel/crc32c/crc32c.h"
#include "wire/little_endian.h"

namespace tally::wire {
namespace {

constexpr std::uint32_t kMagic = 0x594C4C54;  // "TLLY" as the bytes lie

// The offsets of the fields that are in no FrameHeader.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kKindAt = 6;
constexpr std::size_t kReservedByteAt = 7;
constexpr std::size_t kReservedAt = 68;
constexpr std::size_t kHeaderChecksumAt = 76;
static_assert(kHeaderChecksumAt + sizeof(std::uint32_t) == kHeaderBytes);

// Visits the other fields with their offsets; docs/wire_format.md has the same table.
template <typename Header, typename Visit>
void for_each_field(Header& header, const Visit& visit) {
  visit(kKindAt, header.kind);
  visit(8, header.generation);
  visit(12, header.channel);
  visit(16, header.sequence);
  visit(20, header.step);
  visit(24, header.number);
  visit(28, header.signature.root);
  visit(32, header.signature.count);
  visit(40, header.signature.operation);
  visit(41, header.signature.type);
  visit(42, header.signature.reduce_op);
  visit(43, header.signature.algorithm);
  visit(44, header.payload_bytes);
  visit(48, header.message_bytes);
  visit(56, header.offset_bytes);
  visit(64, header.payload_checksum);
}

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
  for_each_field(header, [&bytes](std::size_t at, auto value) { store(bytes, at, value); });
  store(bytes, kHeaderChecksumAt, kernel::crc32c(std::span(bytes).first(kHeaderChecksumAt)));
  return bytes;
}

Result<FrameHeader> decode(std::span<const std::byte, kHeaderBytes> bytes) {
  TALLY_TRY(check_envelope(bytes));
  const auto kind = load<std::uint8_t>(bytes, kKindAt);
  if (!known(kind)) return corrupt("frame of unknown kind {}", kind);

  FrameHeader header;
  for_each_field(header, [&bytes](std::size_t at, auto& value) {
    value = load<std::remove_reference_t<decltype(value)>>(bytes, at);
  });
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
