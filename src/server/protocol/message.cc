// A header is 112 bytes, little-endian: magic, version, the fields in the order of
// for_each_field(), four reserved bytes, and the CRC32C of all bytes before it. docs/wire_format.md
// has the table.
#include "server/protocol/message.h"

#include <bit>
#include <cmath>
#include <type_traits>

#include "kernel/crc32c/crc32c.h"
#include "tally/server.h"
#include "wire/little_endian.h"

namespace tally::server {
namespace {

constexpr std::uint32_t kMessageMagic = 0x53594C54;  // "TLYS" as the bytes lie
constexpr std::uint16_t kMessageVersion = 1;
constexpr std::size_t kFieldsAt = 6;  // after magic and version
constexpr std::size_t kReservedAt = 104;
constexpr std::size_t kChecksumAt = 108;
static_assert(kChecksumAt + sizeof(std::uint32_t) == kHeaderBytes);

// Calls visit(field) in the order of the wire.
template <typename Header, typename Visit>
void for_each_field(Header& header, Visit visit) {
  std::uint8_t reserved = 0;
  visit(header.kind);
  visit(header.outcome);
  visit(header.push_kind);
  visit(reserved);
  visit(header.table);
  visit(header.part);
  visit(header.view);
  visit(header.reply_bytes);
  visit(header.sequence);
  visit(header.clock);
  visit(header.version);
  visit(header.least_version);
  visit(header.least_clock);
  visit(header.weight);
  visit(header.rate);
  visit(header.payload_bytes);
  visit(header.payload_checksum);
  visit(header.payload_place);
  visit(header.reply_place);
}

// The integer that stands for a field on the wire.
template <typename T>
using WireType = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

bool is_known(MessageKind kind) {
  return (kind >= MessageKind::kJoin && kind <= MessageKind::kRegion) ||
         (kind >= MessageKind::kDefine && kind <= MessageKind::kFinish) ||
         kind == MessageKind::kAnswer || kind == MessageKind::kClosed ||
         kind == MessageKind::kRecord || kind == MessageKind::kRecordTaken;
}

Result<void> check_envelope(std::span<const std::byte, kHeaderBytes> bytes) {
  if (wire::load<std::uint32_t>(bytes, 0) != kMessageMagic)
    return corrupt("not a message: wrong magic");
  const auto version = wire::load<std::uint16_t>(bytes, 4);
  if (version != kMessageVersion)
    return corrupt("message of version {}, this is {}", version, kMessageVersion);
  if (wire::load<std::uint32_t>(bytes, kChecksumAt) != kernel::crc32c(bytes.first(kChecksumAt)))
    return corrupt("message header fails its checksum");
  return {};
}

Result<void> check_fields(const MessageHeader& header) {
  if (!is_known(header.kind))
    return corrupt("message of unknown kind {}", static_cast<int>(header.kind));
  if (header.outcome > Outcome::kRefused)
    return corrupt("message with unknown outcome {}", static_cast<int>(header.outcome));
  if (header.payload_bytes > kMaxPayloadBytes)
    return corrupt("message of {} bytes, limit {}", header.payload_bytes, kMaxPayloadBytes);
  if (header.reply_bytes > kMaxPayloadBytes)
    return corrupt("message that wants {} bytes, limit {}", header.reply_bytes, kMaxPayloadBytes);
  if (!std::isfinite(header.weight) || !std::isfinite(header.rate))
    return corrupt("message whose weight or rate is not a number");
  return {};
}

}  // namespace

bool is_gradient(const MessageHeader& header) {
  const auto kind = static_cast<PushKind>(header.push_kind);
  return is_push(header.kind) && (kind == PushKind::kGradient || kind == PushKind::kPlainGradient);
}

EncodedHeader encode(const MessageHeader& header) {
  EncodedHeader bytes{};
  wire::store(bytes, 0, kMessageMagic);
  wire::store(bytes, 4, kMessageVersion);
  std::size_t at = kFieldsAt;
  for_each_field(header, [&](const auto& field) {
    wire::store(bytes, at, std::bit_cast<WireType<std::decay_t<decltype(field)>>>(field));
    at += sizeof(field);
  });
  wire::store(bytes, kChecksumAt, kernel::crc32c(std::span(bytes).first(kChecksumAt)));
  return bytes;
}

Result<MessageHeader> decode(std::span<const std::byte, kHeaderBytes> bytes) {
  TALLY_TRY(check_envelope(bytes));
  MessageHeader header;
  std::size_t at = kFieldsAt;
  for_each_field(header, [&](auto& field) {
    using Field = std::decay_t<decltype(field)>;
    field = std::bit_cast<Field>(wire::load<WireType<Field>>(bytes, at));
    at += sizeof(field);
  });
  if (wire::load<std::uint8_t>(bytes, 9) != 0 || wire::load<std::uint32_t>(bytes, kReservedAt) != 0)
    return corrupt("message header with reserved bytes in use");
  TALLY_TRY(check_fields(header));
  return header;
}

}  // namespace tally::server
