#pragma once
#include <atomic>
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
// overlap, except failed() and, once it is true, failure().
class FrameSender final {
 public:
  struct Config {
    Rank peer = kNoRank;
    std::uint32_t generation = 0;
    bool checksummed = true;  // false where the stream itself guards the bytes
  };
  FrameSender(const Config& config, Counters& counters) : config_(config), counters_(counters) {}

  void queue(Outgoing& message);
  // Whether nothing is queued or held by the stream.
  bool idle() const { return queue_.empty() && taken_.empty(); }

  struct Pumped {
    bool moved = false;
    bool finished = false;              // messages count as sent that did not before
    Io::State end = Io::State::kMoved;  // kMoved: everything written, or the budget is used up
  };
  // Writes as much as `stream` accepts, about `budget_bytes` at most. When writing fails, all
  // messages count as sent.
  Pumped pump(Stream& stream, std::size_t budget_bytes);

  // Whether writing has failed, and why: kPeerLost or kSystem. No message may be queued afterwards.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  const Error& failure() const { return failure_; }

  // Drops `message`. If one of its frames is partly written, the rest of that frame is sent from a
  // copy.
  void withdraw(Outgoing& message);
  // Drops all messages; they count as sent.
  void abandon();
  // As abandon(), and nothing more will be written.
  void fail(Error why);

 private:
  Pumped write_queue(Stream& stream, std::size_t budget_bytes);
  void cut(Outgoing& message);
  Io write_frame(Stream& stream);
  void finish_frame(Outgoing& message);
  bool settle(const Stream& stream);

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
  Error failure_;
  std::atomic<bool> failed_{false};
};

}  // namespace tally::net
