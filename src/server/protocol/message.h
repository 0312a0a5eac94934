#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/errors.h"
#include "tally/error.h"

namespace tally::server {

// The number of a node of the job. The directory is 0; it numbers servers and workers as they join,
// and uses no number twice.
using NodeId = std::uint32_t;
inline constexpr NodeId kDirectoryId = 0;
inline constexpr NodeId kNoNode = 0xFFFFFFFF;

// Limits of one job.
inline constexpr std::uint32_t kMaxServers = 4096;
inline constexpr std::uint32_t kMaxWorkers = 65536;

inline constexpr std::size_t kMaxPayloadBytes = std::size_t{16} << 20;
// Upper bound of the values of a dense part.
inline constexpr std::size_t kPartBytes = std::size_t{256} << 10;

// Before the keys of a push or a pull of sparse rows: u32 count, u32 zero.
inline constexpr std::size_t kKeyCountBytes = 8;

enum class MessageKind : std::uint8_t {
  // Between the directory and the others.
  kJoin = 1,  // payload: Joining
  // Payload: View. `part` is the receiver's number, `clock` the nanoseconds of silence after which
  // the directory removes it.
  kView = 2,
  // With a `sequence`, the directory answers with the same number, unless it has removed the
  // sender. The `version` of a server is the view in which it has all parts of its slots; 0: none.
  kHeartbeat = 3,
  kLeave = 4,  // an orderly end; to servers, too
  // First on a link between other nodes: `part` is the caller's number, `clock` a worker's rank.
  kHello = 5,
  // On a link within one host: the descriptor that comes along is the next region of shared memory,
  // of `sequence` bytes.
  kRegion = 6,
  // Requests of workers to servers. The answer to each is one kAnswer with the same table, part and
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
  // As kPushPull. The answer may have the applied average instead of the values; its push_kind is
  // kAverage then.
  kPushAverage = 20,
  // Rounds of measured tables (payloads.h): what a round amounts to, and how to apply it.
  kMeasure = 21,
  kFinish = 22,
  kAnswer = 24,
  kClosed = 25,  // to workers: the part has `version` now, and older gradients come too late
  // Between servers: the new state of a part, and its acknowledgement.
  kRecord = 28,
  kRecordTaken = 29,
};

// The outcome in kAnswer and kRecordTaken.
enum class Outcome : std::uint8_t {
  kDone = 0,        // applied, read, or taken
  kDropped = 1,     // too late: without effect
  kNotPrimary = 2,  // the server is not the primary in its view, `view`: ask again in a newer one
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
  // Pushes: PushKind; kReadState, kWriteState: the state array; kRecord: flags; kAgree: kHadAnswer
  // or 0; kMeasure: kDirection or 0; kFinish: kDiscard or 0; answers: kAverage or 0.
  std::uint8_t push_kind = 0;
  std::uint16_t table = 0;
  std::uint32_t part = 0;
  std::uint32_t view = 0;      // of the sender
  std::uint64_t sequence = 0;  // of the worker's request, rising
  std::uint64_t clock = 0;     // of the worker; answers: of the slowest worker
  std::uint64_t version = 0;   // pushes: of the gradient; answers and records: of the part
  std::uint64_t least_version = 0;
  std::uint64_t least_clock = 0;  // answers to pushes: the staleness
  double weight = 0;
  double rate = 0;
  // Set by the link.
  std::uint32_t payload_bytes = 0;
  std::uint32_t payload_checksum = 0;  // CRC32C; 0 where it travels in memory or TLS guards it
  // Where payload and reply lie in memory that the sender shares with the receiver; 0: on the wire.
  // Region number in the upper 16 bits (from 1), byte offset in the lower 48.
  std::uint64_t payload_place = 0;
  std::uint64_t reply_place = 0;
  std::uint32_t reply_bytes = 0;  // size of the reply; with kWritten: bytes written

  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;
};

// Whether the message pushes a gradient, encoded or not.
bool is_gradient(const MessageHeader& header);

// The reply_place of an answer whose payload was written to the request's reply.
inline constexpr std::uint64_t kWritten = 1;

// push_kind of an answer to kPushAverage.
inline constexpr std::uint8_t kAverage = 1;

// push_kind of kMeasure: squares of lamb's direction in place of those of the gradient.
inline constexpr std::uint8_t kDirection = 1;
// push_kind of kFinish: the round changes nothing but the version.
inline constexpr std::uint8_t kDiscard = 1;

// push_kind of a kAgree that another server has answered before.
inline constexpr std::uint8_t kHadAnswer = 1;

inline constexpr std::size_t kHeaderBytes = 112;
using EncodedHeader = std::array<std::byte, kHeaderBytes>;
EncodedHeader encode(const MessageHeader& header);
// kCorrupt unless encode() could have made it: magic, version, checksum, kind, outcome,
// payload_bytes within kMaxPayloadBytes, finite weight and rate.
Result<MessageHeader> decode(std::span<const std::byte, kHeaderBytes> bytes);

}  // namespace tally::server
