#include "server/message.h"

#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "kernel/crc32c/crc32c.h"
#include "wire/little_endian.h"

namespace tally::server {
namespace {

using wire::load;
using wire::store;

constexpr std::uint32_t kMagic = 0x53594C54;  // "TLYS" as the bytes lie
constexpr std::uint16_t kVersion = 1;

// Where each field begins; docs/wire_format.md has the same table.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kKindAt = 6;
constexpr std::size_t kOutcomeAt = 7;
constexpr std::size_t kPushKindAt = 8;
constexpr std::size_t kReservedByteAt = 9;
constexpr std::size_t kTableAt = 10;
constexpr std::size_t kPartAt = 12;
constexpr std::size_t kViewAt = 16;
constexpr std::size_t kReplyBytesAt = 20;
constexpr std::size_t kSequenceAt = 24;
constexpr std::size_t kClockAt = 32;
constexpr std::size_t kPartVersionAt = 40;
constexpr std::size_t kLeastVersionAt = 48;
constexpr std::size_t kLeastClockAt = 56;
constexpr std::size_t kWeightAt = 64;
constexpr std::size_t kRateAt = 72;
constexpr std::size_t kPayloadBytesAt = 80;
constexpr std::size_t kPayloadChecksumAt = 84;
constexpr std::size_t kPayloadPlaceAt = 88;
constexpr std::size_t kReplyPlaceAt = 96;
constexpr std::size_t kReservedAt = 104;
constexpr std::size_t kHeaderChecksumAt = 108;
static_assert(kHeaderChecksumAt + sizeof(std::uint32_t) == kHeaderBytes);

Error corrupt(std::string message) {
  return Error{.code = ErrorCode::kCorrupt, .message = std::move(message)};
}

bool is_known(MessageKind kind) {
  switch (kind) {
    case MessageKind::kJoin:
    case MessageKind::kView:
    case MessageKind::kBeat:
    case MessageKind::kLeave:
    case MessageKind::kHello:
    case MessageKind::kRegion:
    case MessageKind::kDefine:
    case MessageKind::kPush:
    case MessageKind::kPull:
    case MessageKind::kPushPull:
    case MessageKind::kClock:
    case MessageKind::kAgree:
    case MessageKind::kSize:
    case MessageKind::kSnapshot:
    case MessageKind::kRestore:
    case MessageKind::kReadState:
    case MessageKind::kWriteState:
    case MessageKind::kSetVersion:
    case MessageKind::kPushAverage:
    case MessageKind::kAnswer:
    case MessageKind::kClosed:
    case MessageKind::kRecord:
    case MessageKind::kRecordTaken:
      return true;
  }
  return false;
}

// What must hold before any field is believed.
Result<void> check_envelope(std::span<const std::byte, kHeaderBytes> bytes) {
  if (load<std::uint32_t>(bytes, kMagicAt) != kMagic) return corrupt("not a message: wrong magic");
  const auto version = load<std::uint16_t>(bytes, kVersionAt);
  if (version != kVersion)
    return corrupt(fmt::format("message of version {}, this is {}", version, kVersion));
  if (load<std::uint32_t>(bytes, kHeaderChecksumAt) !=
      kernel::crc32c(bytes.first(kHeaderChecksumAt)))
    return corrupt("message header fails its checksum");
  if (load<std::uint8_t>(bytes, kReservedByteAt) != 0 ||
      load<std::uint32_t>(bytes, kReservedAt) != 0)
    return corrupt("message header with reserved bytes in use");
  return {};
}

Result<void> check_fields(const MessageHeader& header) {
  if (!is_known(header.kind))
    return corrupt(fmt::format("message of unknown kind {}", static_cast<int>(header.kind)));
  if (header.outcome > Outcome::kRefused)
    return corrupt(
        fmt::format("message with unknown outcome {}", static_cast<int>(header.outcome)));
  if (header.payload_bytes > kMaxPayloadBytes)
    return corrupt(
        fmt::format("message of {} bytes, limit {}", header.payload_bytes, kMaxPayloadBytes));
  if (header.reply_bytes > kMaxPayloadBytes)
    return corrupt(
        fmt::format("message that wants {} bytes, limit {}", header.reply_bytes, kMaxPayloadBytes));
  if (!std::isfinite(header.weight) || !std::isfinite(header.rate))
    return corrupt("message whose weight or rate is not a number");
  return {};
}

}  // namespace

EncodedHeader encode(const MessageHeader& header) {
  EncodedHeader bytes{};
  store(bytes, kMagicAt, kMagic);
  store(bytes, kVersionAt, kVersion);
  store(bytes, kKindAt, static_cast<std::uint8_t>(header.kind));
  store(bytes, kOutcomeAt, static_cast<std::uint8_t>(header.outcome));
  store(bytes, kPushKindAt, header.push_kind);
  store(bytes, kTableAt, header.table);
  store(bytes, kPartAt, header.part);
  store(bytes, kViewAt, header.view);
  store(bytes, kReplyBytesAt, header.reply_bytes);
  store(bytes, kSequenceAt, header.sequence);
  store(bytes, kClockAt, header.clock);
  store(bytes, kPartVersionAt, header.version);
  store(bytes, kLeastVersionAt, header.least_version);
  store(bytes, kLeastClockAt, header.least_clock);
  store(bytes, kWeightAt, std::bit_cast<std::uint64_t>(header.weight));
  store(bytes, kRateAt, std::bit_cast<std::uint64_t>(header.rate));
  store(bytes, kPayloadBytesAt, header.payload_bytes);
  store(bytes, kPayloadChecksumAt, header.payload_checksum);
  store(bytes, kPayloadPlaceAt, header.payload_place);
  store(bytes, kReplyPlaceAt, header.reply_place);
  store(bytes, kHeaderChecksumAt, kernel::crc32c(std::span(bytes).first(kHeaderChecksumAt)));
  return bytes;
}

Result<MessageHeader> decode(std::span<const std::byte, kHeaderBytes> bytes) {
  TALLY_TRY(check_envelope(bytes));
  MessageHeader header{.kind = static_cast<MessageKind>(load<std::uint8_t>(bytes, kKindAt)),
                       .outcome = static_cast<Outcome>(load<std::uint8_t>(bytes, kOutcomeAt)),
                       .push_kind = load<std::uint8_t>(bytes, kPushKindAt),
                       .table = load<std::uint16_t>(bytes, kTableAt),
                       .part = load<std::uint32_t>(bytes, kPartAt),
                       .view = load<std::uint32_t>(bytes, kViewAt),
                       .sequence = load<std::uint64_t>(bytes, kSequenceAt),
                       .clock = load<std::uint64_t>(bytes, kClockAt),
                       .version = load<std::uint64_t>(bytes, kPartVersionAt),
                       .least_version = load<std::uint64_t>(bytes, kLeastVersionAt),
                       .least_clock = load<std::uint64_t>(bytes, kLeastClockAt),
                       .weight = std::bit_cast<double>(load<std::uint64_t>(bytes, kWeightAt)),
                       .rate = std::bit_cast<double>(load<std::uint64_t>(bytes, kRateAt)),
                       .payload_bytes = load<std::uint32_t>(bytes, kPayloadBytesAt),
                       .payload_checksum = load<std::uint32_t>(bytes, kPayloadChecksumAt),
                       .payload_place = load<std::uint64_t>(bytes, kPayloadPlaceAt),
                       .reply_place = load<std::uint64_t>(bytes, kReplyPlaceAt),
                       .reply_bytes = load<std::uint32_t>(bytes, kReplyBytesAt)};
  TALLY_TRY(check_fields(header));
  return header;
}

}  // namespace tally::server
