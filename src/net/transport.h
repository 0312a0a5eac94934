#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tally/deadline.h"
#include "tally/error.h"
#include "wire/frame.h"

namespace tally::net {

// Exact counters of one rank's transport. Threads: readable while the transport runs.
struct Counters {
  std::atomic<std::uint64_t> frames_sent{0};
  std::atomic<std::uint64_t> frames_received{0};
  std::atomic<std::uint64_t> payload_bytes_sent{0};
  std::atomic<std::uint64_t> payload_bytes_received{0};
  std::atomic<std::uint64_t> corrupt_frames{0};  // failed length, checksum, number or kind
  std::atomic<std::uint64_t> stale_frames{0};    // of another generation: dropped
};

enum class Acceptance { kTaken, kHold };

// Receives the frames of a Transport. Called only from inside Transport::progress().
class Receiver {
 public:
  virtual ~Receiver() = default;

  // The memory into which the transport writes the payload of this frame, exactly
  // header.payload_bytes long; empty: the transport uses memory of its own.
  virtual std::span<std::byte> place(Rank from, const wire::FrameHeader& header) = 0;

  // A whole, verified frame of the transport's generation. Frames of one peer arrive in the order
  // in which they were posted. `payload` is the memory from place(), or memory valid during the
  // call. After kHold the transport keeps the frame, reads no more from that peer, and offers the
  // frame again later.
  virtual Acceptance deliver(Rank from, const wire::FrameHeader& header,
                             std::span<const std::byte> payload) = 0;

  // No more frames will arrive from `peer`: kPeerLost, kCorrupt or kSystem. Called once per peer. A
  // peer that leaves in good order ends with a kGoodbye frame to deliver() instead.
  virtual void lost(Rank peer, const Error& why) = 0;
};

// One outgoing message; the transport cuts it into frames. The poster owns it, and keeps it and its
// payload in place until sent() or Transport::withdraw(). Threads: a thread of the transport may
// report the message as sent while the poster asks.
class Outgoing {
 public:
  // The transport fills in everything but kind, channel, sequence, step and signature.
  wire::FrameHeader header;
  std::span<const std::byte> payload;

  bool sent() const { return sent_.load(std::memory_order_acquire); }

  // For transports: the progress of the message. The transport does not touch a message after
  // finish().
  void begin() {
    queued_bytes_ = 0;
    sent_.store(false, std::memory_order_relaxed);
  }
  void finish() { sent_.store(true, std::memory_order_release); }
  std::size_t queued_bytes_ = 0;

 private:
  std::atomic<bool> sent_{false};
};

// Moves messages between the ranks of a job. Never blocks except in wait().
// Threads: post(), withdraw(), progress(), close() must not overlap each other; wait() may run
// beside them, in one thread.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  // Queues `message` for `to` (not this rank). Order per peer is kept. A message to a lost peer
  // counts as sent at once; Receiver::lost() reports the loss.
  virtual void post(Rank to, Outgoing& message) = 0;

  // Drops a posted message, so that its memory may be freed: a frame that has begun is completed,
  // the rest of the message is never sent, and later messages are sent.
  virtual void withdraw(Rank to, Outgoing& message) = 0;

  // Moves as many bytes as possible without waiting; true if anything moved.
  virtual bool progress(Receiver& receiver) = 0;

  // Call before wait(): from here on no event is missed. The caller checks once more and then
  // either waits or cancels.
  virtual void prepare_wait() {}
  virtual void cancel_wait() {}

  // Sleeps until progress() may have something to do or `by` passes. May return early.
  virtual void wait(Deadline by) = 0;

  // Ends a wait() that runs in another thread.
  virtual void wake() = 0;

  // Says goodbye to all peers, sends queued messages for a short time at most, and closes
  // everything.
  virtual void close() = 0;

  virtual const Counters& counters() const = 0;
};

}  // namespace tally::net
