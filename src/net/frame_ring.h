#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/frame.h"

namespace tally::net {

// A ring of frames in shared memory with one writer and one reader, each with its own FrameRing
// over the same bytes. The other side is not trusted: everything that it writes is checked before
// use.
class FrameRing {
 public:
  // `memory` has 256 bytes for the positions and then `capacity` bytes, a power of two.
  FrameRing(std::byte* memory, std::size_t capacity);

  std::size_t max_payload_bytes() const { return capacity_ / 4; }

  // False if there is no room now. `payload` has at most max_payload_bytes().
  bool push(const wire::FrameHeader& header, std::span<const std::byte> payload);

  struct Front {
    wire::FrameHeader header;
    std::span<const std::byte> payload;  // in the ring, valid until pop()
  };
  // The oldest frame, if there is one. kCorrupt if the ring's contents cannot be right.
  Result<std::optional<Front>> front();
  void pop();

 private:
  struct Positions {
    alignas(128) std::atomic<std::uint64_t> written;
    alignas(128) std::atomic<std::uint64_t> read;
  };
  static_assert(sizeof(Positions) == 256);

  Positions& positions_;
  std::byte* const bytes_;
  const std::size_t capacity_;
  std::uint64_t known_read_ = 0;   // writer: last known value of `read`
  std::uint64_t front_bytes_ = 0;  // reader: size of the record at the front
};

}  // namespace tally::net
