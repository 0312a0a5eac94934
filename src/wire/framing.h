#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tally/error.h"

namespace tally::wire {

// How the messages of a connection are told apart. A message is a payload of at least one byte; its
// first byte is the kind.
enum class Framing {
  kControlFrame,  // one kControl frame with checksums, at most kMaxPayloadBytes
  kLengthPrefix,  // a u32 with the length, at most kMaxPrefixedBytes: for pipes, which lose nothing
};
inline constexpr std::size_t kMaxPrefixedBytes = std::size_t{16} << 20;

// The payload with its frame, ready to be sent. It must not be empty or longer than `framing`
// allows.
std::vector<std::byte> frame(Framing framing, std::span<const std::byte> payload);

// Cuts arriving bytes into payloads. Holds one message and one read at most.
class FrameBuffer final {
 public:
  explicit FrameBuffer(Framing framing) : framing_(framing) {}

  void add(std::span<const std::byte> bytes);
  // The next payload, or none until more bytes have arrived. kCorrupt if the bytes cannot be a
  // message; every later call says the same.
  Result<std::optional<std::vector<std::byte>>> next();

 private:
  std::span<const std::byte> unread() const {
    return std::span<const std::byte>(bytes_).subspan(read_bytes_);
  }

  const Framing framing_;
  std::vector<std::byte> bytes_;
  std::size_t read_bytes_ = 0;  // of bytes_
};

}  // namespace tally::wire
