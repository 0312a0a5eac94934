#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "net/transport.h"

namespace tally::net {

// The frames of one communicator. Called with Router::mutex held.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual std::span<std::byte> place(Rank from, const wire::FrameHeader& header) = 0;
  virtual Acceptance deliver(Rank from, const wire::FrameHeader& header,
                             std::span<const std::byte> payload) = 0;
  virtual void lost(Rank peer, const Error& why) = 0;
  // The peer left in good order: no more frames will arrive from it.
  virtual void departed(Rank peer) = 0;
};

// Lets all communicators of a rank share its Transport: routes arriving frames to channels, and
// lets one waiting thread at a time drive the transport for all. Ranks are those of the job.
class Router final : public Receiver {
 public:
  Router(Transport& transport, const Clock& clock) : transport_(transport), clock_(clock) {}

  // Guards the transport and the state of all channels.
  Mutex mutex;

  const Clock& clock() const { return clock_; }
  // Use it with the mutex held.
  Transport& transport() { return transport_; }

  // `id` must be new on every rank that uses it, and larger than all before.
  void open(std::uint32_t id, Channel& channel) TALLY_REQUIRES(mutex);
  void close(std::uint32_t id) TALLY_REQUIRES(mutex);
  // An id that this rank has never used.
  std::uint32_t unused_id() const TALLY_REQUIRES(mutex) { return unused_id_; }

  // Other ranks use `id`; this rank never will.
  void skip_id(std::uint32_t id) TALLY_REQUIRES(mutex);

  bool progress() TALLY_REQUIRES(mutex);

  // Releases the mutex and sleeps until something may have changed or `by` passes. `ready` is
  // called once more, with the mutex held, after the sleep has been announced.
  void wait(Deadline by, const std::function<bool()>& ready) TALLY_REQUIRES(mutex);

  std::span<std::byte> place(Rank from, const wire::FrameHeader& header) override;
  Acceptance deliver(Rank from, const wire::FrameHeader& header,
                     std::span<const std::byte> payload) override;
  void lost(Rank peer, const Error& why) override;

 private:
  struct Early {
    Rank from;
    wire::FrameHeader header;
    std::vector<std::byte> payload;
  };

  Transport& transport_;  // guarded by mutex, except wait()
  const Clock& clock_;
  std::map<std::uint32_t, Channel*> channels_ TALLY_GUARDED_BY(mutex);
  std::uint32_t unused_id_ TALLY_GUARDED_BY(mutex) = 0;
  // Frames for channels that a peer opened before this rank did.
  std::vector<Early> early_ TALLY_GUARDED_BY(mutex);
  std::size_t early_bytes_ TALLY_GUARDED_BY(mutex) = 0;
  std::map<Rank, Error> lost_ TALLY_GUARDED_BY(mutex);
  std::set<Rank> departed_ TALLY_GUARDED_BY(mutex);
  bool asleep_ TALLY_GUARDED_BY(mutex) = false;  // a thread is inside transport_.wait()
  ConditionVariable changed_;
};

}  // namespace tally::net
