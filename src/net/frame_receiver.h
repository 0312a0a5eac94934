#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "net/stream.h"
#include "net/transport.h"
#include "wire/frame.h"

namespace tally::net {

// The incoming half of one connection: turns the bytes of a stream into checked frames for a
// Receiver. Small frames are read many at a time into a buffer. The payload of a large frame is
// read directly into the memory from Receiver::place(). Incoming bytes do not determine how much
// memory is allocated. Threads: calls must not overlap.
class FrameReceiver final {
 public:
  struct Config {
    Rank peer = kNoRank;
    std::uint32_t generation = 0;
    bool checksummed = true;  // false where the stream itself guards the bytes
  };
  FrameReceiver(const Config& config, Counters& counters);

  enum class End {
    kDrained,  // nothing more to read now
    kMore,     // the budget is used up
    kHeld,     // the receiver holds off the next frame
    kGoodbye,  // the peer has left in good order
    kFailed,   // failure() says why: kPeerLost, kCorrupt, kSystem
  };
  struct Pumped {
    bool moved = false;
    End end = End::kDrained;
  };
  // Reads and delivers frames, about `budget_bytes` at most.
  Pumped pump(Stream& stream, Receiver& receiver, std::size_t budget_bytes);

  const Error& failure() const { return failure_; }

 private:
  enum class Next { kFrame, kBytes, kHeld, kGoodbye, kFailed };

  Next advance(Receiver& receiver);
  bool open_frame(Receiver& receiver);
  bool fill_payload();
  Next close_frame(Receiver& receiver);
  Next offer(Receiver& receiver);
  std::span<const std::byte> payload() const;

  Io read(Stream& stream, std::size_t* wanted_bytes);
  void make_room(std::size_t bytes);
  std::size_t buffered_bytes() const { return end_ - begin_; }
  bool placed() const { return !place_.empty(); }

  bool corrupt(std::string message);
  End ended(const Io& io, const Stream& stream);

  const Config config_;
  Counters& counters_;
  std::unique_ptr<std::byte[]> buffer_;  // bytes begin_ to end_ have been read and not used
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t ahead_bytes_;  // to read beyond the current frame

  // The current frame: its header, and the place of its payload (empty: in the buffer).
  std::optional<wire::FrameHeader> frame_;
  std::span<std::byte> place_;
  std::size_t filled_bytes_ = 0;  // of place_
  bool held_ = false;             // complete, verified and offered at least once
  std::uint32_t next_number_ = 0;
  Error failure_;
};

}  // namespace tally::net
