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
// as possible, and writes header and payload together from where they lie. Threads: calls must not
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
  // Writes what `stream` takes, about `budget_bytes` at most.
  Pumped pump(Stream& stream, std::size_t budget_bytes);

  // Forgets `message`; of a frame that has begun a copy is sent to its end.
  void withdraw(Outgoing& message);
  // Forgets everything; the messages count as sent.
  void abandon();

 private:
  void cut(Outgoing& message);
  Io write_frame(Stream& stream);
  void finish_frame(Outgoing& message);
  void settle(const Stream& stream);

  const Config config_;
  Counters& counters_;
  std::deque<Outgoing*> queue_;  // the front one is under way
  // Messages that the stream has taken but may hold back: they count as sent when it holds nothing,
  // since nobody may come to push it once the operation that sent them is over.
  std::vector<Outgoing*> taken_;
  // The frame under way, if any: its header, its part of the front message, how much is written.
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
