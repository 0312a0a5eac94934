#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tally/deadline.h"
#include "tally/error.h"
#include "wire/frame.h"

namespace tally::net {

// Exact counts of what one rank's transport did. Threads: readable while the transport runs.
struct Counters {
  std::atomic<std::uint64_t> frames_sent{0};
  std::atomic<std::uint64_t> frames_received{0};
  std::atomic<std::uint64_t> payload_bytes_sent{0};
  std::atomic<std::uint64_t> payload_bytes_received{0};
  std::atomic<std::uint64_t> corrupt_frames{0};  // failed length, checksum, number or kind
  std::atomic<std::uint64_t> stale_frames{0};    // of another generation: dropped
};

enum class Acceptance { kTaken, kHold };

// Where arriving frames go. Called only from inside Transport::progress().
class Receiver {
 public:
  virtual ~Receiver() = default;

  // The memory that the payload of this frame is to be written to directly, exactly
  // header.payload_bytes long; empty if the transport is to use memory of its own.
  virtual std::span<std::byte> place(Rank from, const wire::FrameHeader& header) = 0;

  // A whole, verified frame of the transport's generation. Frames of one peer come in the order in
  // which they were posted. `payload` is what place() gave or memory valid during the call. After
  // kHold the transport keeps the frame, reads no more from that peer, and offers it again later.
  virtual Acceptance deliver(Rank from, const wire::FrameHeader& header,
                             std::span<const std::byte> payload) = 0;

  // Nothing more will come from `peer`: kPeerLost, kCorrupt or kSystem. Told once per peer. Of a
  // peer that leaves in good order deliver() gets a kGoodbye frame instead, as the last one.
  virtual void lost(Rank peer, const Error& why) = 0;
};

// One message on its way out; the transport cuts it into frames. Belongs to the poster, who keeps
// it and its payload in place until sent() or Transport::withdraw().
class Outgoing {
 public:
  // Everything but kind, channel, sequence, step and signature is filled in by the transport.
  wire::FrameHeader header;
  std::span<const std::byte> payload;

  bool sent() const { return sent_; }

  // For transports: how far the message has come.
  std::size_t queued_bytes_ = 0;
  bool sent_ = false;
};

// Moves messages between the ranks of a job. Never blocks except in wait().
// Threads: post(), withdraw(), progress(), close() must not overlap each other; wait() may run
// beside them, in one thread.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  // Queues `message` for `to` (not this rank). Order per peer is kept. A message to a peer that is
  // lost counts as sent at once: the loss itself is what the receiver hears of.
  virtual void post(Rank to, Outgoing& message) = 0;

  // Forgets a posted message so that its memory may go: frames that have begun are completed, the
  // rest of the message is never sent, later messages are.
  virtual void withdraw(Rank to, Outgoing& message) = 0;

  // Moves what can be moved without waiting; true if anything moved.
  virtual bool progress(Receiver& receiver) = 0;

  // Before wait(): from here on nothing that becomes ready is missed. The caller looks once more
  // and then either waits or calls it off.
  virtual void prepare_wait() {}
  virtual void cancel_wait() {}

  // Sleeps until progress() may have something to do or `by` passes. May return early.
  virtual void wait(Deadline by) = 0;

  // Ends a wait() that runs in another thread.
  virtual void wake() = 0;

  // Says goodbye to all peers, sends what is queued for at most a moment, and lets go of
  // everything.
  virtual void close() = 0;

  virtual const Counters& counters() const = 0;
};

}  // namespace tally::net
