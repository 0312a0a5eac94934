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

// Bytes over all links of a transport. Threads: safe.
struct LinkCounters {
  std::atomic<std::uint64_t> bytes_sent{0};
  std::atomic<std::uint64_t> bytes_received{0};
};

// A connection with a peer, watched by the epoll of one thread. A sender writes at once if nothing
// is queued; that thread writes the rest. While it handles a burst of the peer's messages, headers
// without a payload are collected and written a few at a time, since every write wakes the peer.
// Threads: send*() and close() from any; all other calls from that thread.
class Link final {
 public:
  struct Config {
    NodeId peer = kNoNode;
    Role role = Role::kWorker;  // the peer's
    bool dialled = false;       // by this side
    // Reading stops while more bytes than this are queued for the peer: a peer that sends requests
    // and does not read answers costs bounded memory. 0: no limit, as between servers, which could
    // deadlock.
    std::size_t backlog_bytes = 0;
  };
  // Shared by the links of a transport.
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
  // A local peer gets the place of payload and reply in a region instead of the bytes.
  void send_from(const MessageHeader& header, std::span<const std::byte> payload,
                 std::span<std::byte> reply);
  void send_written(const MessageHeader& header, std::size_t bytes);

  // Ends sending and receiving; lent memory is not used afterwards.
  void close();
  bool closed() const { return closed_.load(std::memory_order_acquire); }

  // Adds the link to an epoll, with this object as data; or removes it.
  Result<void> watch(int epoll);
  void unwatch();

  // Writes queued messages. False: the connection has failed, see error().
  bool flush(std::size_t budget_bytes);
  // Whether everything is written to the socket.
  bool flushed() const;
  void shutdown() { socket_->shutdown(); }

  // kShut: closed; kFailed: see error().
  LinkReceiver::Pumped receive(LinkReceiver::Sink& sink, std::size_t budget_bytes);
  // Reads and discards. False: the peer has closed.
  bool discard();
  // Stops reading until flush() has made room.
  void pause_reading();
  // Whether more than backlog_bytes are queued.
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
  bool failed_ TALLY_GUARDED_BY(tx_) = false;      // writing failed; reading will report it as well
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
