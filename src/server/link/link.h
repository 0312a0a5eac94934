#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "net/stream.h"
#include "server/link/greeting.h"
#include "server/link/link_receiver.h"
#include "server/link/link_sender.h"
#include "server/link/regions.h"

namespace tally::server {

// What crossed all links of a transport. Threads: safe.
struct LinkCounters {
  std::atomic<std::uint64_t> bytes_sent{0};
  std::atomic<std::uint64_t> bytes_received{0};
};

// One connection with a peer, watched by one thread's epoll. Whoever sends writes at once if
// nothing waits; the rest is written by that thread. While that thread works off a burst of the
// peer's messages, headers without a payload wait for each other and are written a few at a time,
// at the latest when the burst is over: each writing wakes the peer. Threads: send*() and close()
// any; everything else that one.
class Link final {
 public:
  struct Config {
    NodeId peer = kNoNode;
    Role role = Role::kWorker;  // the peer's
    bool dialled = false;       // by this side
    // Reading stops while so much of what was sent to the peer is unsent, so that one who asks and
    // does not read costs no more memory. 0: never, as between servers, who could wait for each
    // other.
    std::size_t backlog_bytes = 0;
  };
  // What the links of a transport have in common.
  struct Shared {
    OwnRegions regions;
    PayloadPool pool;
    LinkCounters counters;
  };
  Link(const Config& config, std::unique_ptr<net::Stream> socket, Shared& shared);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const Config& config() const { return config_; }
  bool local() const { return socket_->local(); }

  void send(const MessageHeader& header, std::vector<std::byte> payload);
  // Payload and reply in regions are named to a local peer instead of sent.
  void send_from(const MessageHeader& header, std::span<const std::byte> payload,
                 std::span<std::byte> reply);
  void send_written(const MessageHeader& header, std::size_t bytes);

  // Nothing is sent or received after it; memory that was lent is free.
  void close();
  bool closed() const { return closed_.load(std::memory_order_acquire); }

  // Puts the link under this epoll, with itself as data; or takes it out.
  Result<void> watch(int epoll);
  void unwatch();

  // Writes what waits. False: the connection has failed, error() says why.
  bool flush(std::size_t budget_bytes);
  // Whether everything that was sent is with the system.
  bool flushed() const;
  void shutdown() { socket_->shutdown(); }

  struct Received {
    std::size_t messages = 0;
    bool more = false;  // the budget was used up: call again
    bool alive = true;  // false: error() says why, or close() was called
  };
  Received receive(LinkReceiver::Sink& sink, std::size_t budget_bytes);
  // Reads what there is for nobody, and writes to no lent memory any more. False: the peer has
  // closed.
  bool discard();
  // Until flush() has made room.
  void pause_reading();
  // Whether more of what was sent to the peer is unsent than it may have.
  bool choked() const {
    return config_.backlog_bytes > 0 &&
           backlog_.load(std::memory_order_relaxed) > config_.backlog_bytes;
  }
  void forget_regions() { receiver_.forget_regions(); }
  Error error() const;

 private:
  void enqueue(const MessageHeader& header, std::vector<std::byte> owned,
               std::span<const std::byte> borrowed, std::uint16_t newest_region);
  void show_regions(std::uint16_t newest) TALLY_REQUIRES(tx_);
  void pump(std::size_t budget_bytes) TALLY_REQUIRES(tx_);
  void begin_burst();
  void end_burst();
  void update_interest();

  const Config config_;
  const std::unique_ptr<net::Stream> socket_;
  Shared& shared_;
  LinkReceiver receiver_;

  mutable Mutex tx_;
  LinkSender sender_ TALLY_GUARDED_BY(tx_);
  std::uint16_t shown_ TALLY_GUARDED_BY(tx_) = 0;  // regions that the peer knows
  bool in_burst_ TALLY_GUARDED_BY(tx_) = false;    // the peer's messages are being worked off
  int gathered_ TALLY_GUARDED_BY(tx_) = 0;         // headers that wait for the burst's end
  bool failed_ TALLY_GUARDED_BY(tx_) = false;      // writing has; reading will tell, too
  Error write_error_ TALLY_GUARDED_BY(tx_);
  Error read_error_;

  std::atomic<bool> closed_{false};
  std::atomic<bool> wants_out_{false};
  std::atomic<bool> wants_in_{true};
  std::atomic<std::size_t> backlog_{0};

  Mutex interest_;
  int epoll_ TALLY_GUARDED_BY(interest_) = -1;
  std::uint32_t events_ TALLY_GUARDED_BY(interest_) = 0;
};

}  // namespace tally::server
