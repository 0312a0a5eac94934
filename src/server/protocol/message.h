#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "tally/error.h"

namespace tally::server {

// A member of the job. The directory is 0; it numbers servers and workers as they come, and no
// number twice.
using NodeId = std::uint32_t;
inline constexpr NodeId kDirectory = 0;
inline constexpr NodeId kNoNode = 0xFFFFFFFF;

// Of one job.
inline constexpr std::uint32_t kMaxServers = 4096;
inline constexpr std::uint32_t kMaxWorkers = 65536;

inline constexpr std::size_t kMaxPayloadBytes = std::size_t{16} << 20;
// Of a dense part's values, at most.
inline constexpr std::size_t kPartBytes = std::size_t{256} << 10;

// Before the keys of a push or a pull of sparse rows: u32 count, u32 zero.
inline constexpr std::size_t kKeyCountBytes = 8;

enum class MessageKind : std::uint8_t {
  // With the directory.
  kJoin = 1,  // who wants to belong; payload: Joining
  // Who serves what; payload: View. `part` has the number of whom it is sent to, `clock` after how
  // many nanoseconds of silence it is
  // given up.
  kView = 2,
  kHeartbeat =
      3,       // alive. With a `sequence`: whether the directory has given it up; if not it answers
               // with the same
  kLeave = 4,  // goes in good order; to servers, too
  // First on a link between others: `part` has the caller's number, `clock` its rank (workers).
  kHello = 5,
  // Of a link between neighbours: `sequence` bytes of memory, whose descriptor comes along, are
  // shown as the next region.
  kRegion = 6,
  // From workers to servers. Each is answered by one kAnswer with the same table, part and
  // sequence.
  kDefine = 8,
  kPush = 9,
  kPull = 10,
  kPushPull = 11,
  kClock = 12,
  kAgree = 13,
  kSize = 14,
  kSnapshot = 15,
  kRestore = 16,
  kReadState = 17,
  kWriteState = 18,
  kSetVersion = 19,
  // As kPushPull; the answer may have the average that was applied instead of the values: then its
  // push_kind is kAverage.
  kPushAverage = 20,
  kAnswer = 24,
  kClosed = 25,  // to workers, unasked: the part has `version` now; older gradients come too late
  // Between servers: what a part has become, and that it was taken.
  kRecord = 28,
  kRecordTaken = 29,
};

// Of kAnswer and kRecordTaken.
enum class Outcome : std::uint8_t {
  kDone = 0,        // applied, read, or taken
  kDropped = 1,     // too late: without effect
  kNotPrimary = 2,  // not the primary in the view `view`: ask again when there is a newer one
  kLost = 3,        // no copy of the part is left
  kRefused = 4,     // payload: the Error
};

inline bool is_push(MessageKind kind) {
  return kind == MessageKind::kPush || kind == MessageKind::kPushPull ||
         kind == MessageKind::kPushAverage;
}

struct MessageHeader {
  MessageKind kind = MessageKind::kAnswer;
  Outcome outcome = Outcome::kDone;
  // PushKind; of kReadState and kWriteState the array; of kRecord flags; of kAgree kHadAnswer or 0;
  // of answers kAverage or 0.
  std::uint8_t push_kind = 0;
  std::uint16_t table = 0;
  std::uint32_t part = 0;
  std::uint32_t view = 0;      // of the sender
  std::uint64_t sequence = 0;  // of the worker's request, rising
  std::uint64_t clock = 0;     // of the worker; in answers the slowest worker's
  std::uint64_t version =
      0;  // push: that the gradient was computed at; answers and records: the part's
  std::uint64_t least_version = 0;
  std::uint64_t least_clock = 0;  // in answers to pushes: the staleness
  double weight = 0;
  double rate = 0;
  // Filled in by the link.
  std::uint32_t payload_bytes = 0;
  std::uint32_t payload_checksum = 0;  // CRC32C; 0 where it travels in memory or TLS guards it
  // Where the payload lies, or where the answer's is to be written, in memory that the sender has
  // shown to the receiver; 0: on the wire. Region number in the upper 16 bits (from 1), byte offset
  // in the lower 48.
  std::uint64_t payload_place = 0;
  std::uint64_t reply_place = 0;
  std::uint32_t reply_bytes =
      0;  // room for the answer's payload there; of kWritten how much there is

  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;
};

// The reply_place of an answer whose payload was written to where the request wanted it.
inline constexpr std::uint64_t kWritten = 1;

// Of the answer to a kPushAverage.
inline constexpr std::uint8_t kAverage = 1;

// Of a kAgree that is offered to another server than the one which had answered it.
inline constexpr std::uint8_t kHadAnswer = 1;

inline constexpr std::size_t kHeaderBytes = 112;
using EncodedHeader = std::array<std::byte, kHeaderBytes>;
EncodedHeader encode(const MessageHeader& header);
// kCorrupt unless encode() could have made it: magic, version, checksum, kind, outcome,
// payload_bytes within kMaxPayloadBytes, finite weight and rate.
Result<MessageHeader> decode(std::span<const std::byte, kHeaderBytes> bytes);

// The error for bytes that no correct peer sends.
inline Error corrupt(std::string message) {
  return {.code = ErrorCode::kCorrupt, .message = std::move(message)};
}
// The error for a request that its caller must change.
inline Error invalid(std::string message) {
  return {.code = ErrorCode::kInvalid, .message = std::move(message)};
}

}  // namespace tally::server
