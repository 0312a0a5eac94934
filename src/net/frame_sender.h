#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "net/stream.h"
#include "net/transport.h"
#include "wire/frame.h"

namespace tally::net {

// The outgoing half of one connection: cuts queued messages into frames, one at a time and as late
// as possible, and writes header and payload together without a copy. Threads: calls must not
// overlap.
class FrameSender final {
 public:
  struct Config {
    std::uint32_t generation = 0;
    bool checksummed = true;  // false where the stream itself guards the bytes
  };
  FrameSender(const Config& config, Counters& counters) : config_(config), counters_(counters) {}

  void queue(Outgoing& message);
  // Whether nothing is queued or held by the stream.
  bool idle() const { return queue_.empty() && taken_.empty(); }

  struct Pumped {
    bool moved = false;
    Io::State end = Io::State::kMoved;  // kMoved: everything written, or the budget is used up
  };
  // Writes as much as `stream` accepts, about `budget_bytes` at most.
  Pumped pump(Stream& stream, std::size_t budget_bytes);

  // Drops `message`. If one of its frames is partly written, the rest of that frame is sent from a
  // copy.
  void withdraw(Outgoing& message);
  // Drops all messages; they count as sent.
  void abandon();

 private:
  void cut(Outgoing& message);
  Io write_frame(Stream& stream);
  void finish_frame(Outgoing& message);
  void settle(const Stream& stream);

  const Config config_;
  Counters& counters_;
  std::deque<Outgoing*> queue_;  // the front message is in progress
  // Messages that the stream has accepted but may still buffer. They count as sent when the stream
  // has flushed, because after the operation ends no thread may be left to flush it.
  std::vector<Outgoing*> taken_;
  // The frame in progress, if any: its header, its part of the front message, the bytes written.
  bool open_ = false;
  wire::EncodedHeader header_{};
  std::span<const std::byte> payload_;
  std::size_t written_bytes_ = 0;
  std::uint32_t next_number_ = 0;
  // The rest of a frame whose message was withdrawn.
  Outgoing orphan_;
  std::vector<std::byte> orphan_bytes_;
};

}  // namespace tally::net
