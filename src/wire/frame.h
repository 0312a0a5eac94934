#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tally/error.h"
#include "tally/types.h"

namespace tally::wire {

inline constexpr std::uint16_t kProtocolVersion = 5;
inline constexpr std::size_t kMaxPayloadBytes = std::size_t{256} << 10;

enum class FrameKind : std::uint8_t {
  kData = 1,   // part of a message of a collective operation
  kPoint = 2,  // part of a send/receive message; `sequence` is the tag, `step` the message's number
  kAbort = 3,  // the sender abandons the channel; payload: the Error
  kQuery = 4,  // asks for the peer's status; empty payload
  kStatus = 5,   // the answer: the sender's operation and the ranks that it waits for
  kGoodbye = 6,  // the sender leaves after all its operations are done
  kControl = 7,  // joining; payload: one of the bodies of group/
};

// The operation that a rank takes part in. Ranks with different signatures called different
// operations.
struct Signature {
  std::uint64_t count = 0;  // elements; for unequal parts as base/part_counts.h
  std::uint8_t operation = 0;
  std::uint8_t type = 0;
  std::uint8_t reduce_op = 0;
  std::uint8_t algorithm = 0;
  std::int32_t root = 0;

  friend bool operator==(const Signature&, const Signature&) = default;
};

struct FrameHeader {
  FrameKind kind = FrameKind::kData;
  std::uint32_t generation = 0;
  std::uint32_t channel = 0;   // the communicator
  std::uint32_t sequence = 0;  // the operation's number on that communicator
  std::uint32_t step = 0;      // the message's number within the operation
  std::uint32_t number = 0;    // of this frame on its connection, from 0
  Signature signature;
  std::uint64_t message_bytes = 0;  // of the whole message that this frame is a part of
  std::uint64_t offset_bytes = 0;   // of this frame's payload within the message
  std::uint32_t payload_bytes = 0;
  std::uint32_t payload_checksum = 0;  // CRC32C; 0 where TLS guards the bytes

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

inline constexpr std::size_t kHeaderBytes = 80;
using EncodedHeader = std::array<std::byte, kHeaderBytes>;

EncodedHeader encode(const FrameHeader& header);

// kCorrupt unless the bytes are a header that encode() could have made: magic, version, checksum,
// known kind, payload within kMaxPayloadBytes and within its message.
Result<FrameHeader> decode(std::span<const std::byte, kHeaderBytes> bytes);

}  // namespace tally::wire
