#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "group/refusals.h"
#include "net/socket.h"
#include "server/link/connector.h"
#include "server/link/event_loop.h"
#include "server/link/greeting.h"
#include "server/link/link.h"
#include "server/link/regions.h"
#include "server/protocol/node.h"
#include "tally/error.h"
#include "tally/job.h"
#include "tally/server.h"

namespace tally::server {

// Links within this host that this side has ended. Until the peer closes its end, it may read and
// write shared memory. Threads: safe.
class ClosingLinks final {
 public:
  // Closed links with the writing side shut down. poll() calls `released`, without locks, when the
  // peer has closed them all.
  void add(std::vector<std::shared_ptr<Link>> links, std::function<void()> released) {
    const MutexLock lock(mutex_);
    waiting_.push_back({.links = std::move(links), .released = std::move(released)});
  }

  void poll() {
    std::vector<ClosingLink> over;
    {
      const MutexLock lock(mutex_);
      for (ClosingLink& one : waiting_) {
        std::erase_if(one.links, [](const auto& link) { return !link->discard(); });
        if (one.links.empty()) over.push_back(std::move(one));
      }
      std::erase_if(waiting_, [](const ClosingLink& one) { return one.links.empty(); });
    }
    for (const ClosingLink& one : over) one.released();
  }

  // Forgets all links.
  void clear() {
    std::vector<ClosingLink> forgotten;  // without the lock
    {
      const MutexLock lock(mutex_);
      forgotten.swap(waiting_);
    }
  }

 private:
  struct ClosingLink {
    std::vector<std::shared_ptr<Link>> links;
    std::function<void()> released;
  };
  Mutex mutex_;
  std::vector<ClosingLink> waiting_ TALLY_GUARDED_BY(mutex_);
};

// Assigns peers to event loops: round robin by role, so that two workers get two threads whatever
// their numbers are. A peer keeps its loop when it connects again. Threads: safe.
class LoopAssignment final {
 public:
  // `loops` is the same in all calls, at least 1.
  std::size_t take(NodeId peer, Role role, std::size_t loops) {
    const MutexLock lock(mutex_);
    const auto found = assignment_.find(peer);
    if (found != assignment_.end()) return found->second;
    // An implausible number of peers: remember no more of them.
    if (assignment_.size() >= kMost) return peer % loops;
    std::size_t& next = next_[static_cast<std::size_t>(role) % next_.size()];
    return assignment_[peer] = next++ % loops;
  }

  // For a peer that has a loop.
  std::size_t of(NodeId peer, std::size_t loops) const {
    const MutexLock lock(mutex_);
    const auto found = assignment_.find(peer);
    return found != assignment_.end() ? found->second : peer % loops;
  }

 private:
  static constexpr std::size_t kMost = 65536;

  mutable Mutex mutex_;
  std::unordered_map<NodeId, std::size_t> assignment_ TALLY_GUARDED_BY(mutex_);
  std::array<std::size_t, 4> next_ TALLY_GUARDED_BY(mutex_) = {};  // by role
};

struct SocketTransportOptions {
  Role role = Role::kWorker;
  // The address to listen on; none: the node accepts no connections.
  std::optional<net::Address> listen;
  // The pre-shared key of TLS 1.3 for every TCP connection. Without one, only loopback addresses
  // are allowed.
  std::optional<Secret> secret;
  int threads = 1;
  // How to connect to servers: kAuto uses shared memory within this host.
  TransportKind transport = TransportKind::kAuto;
  // Limit of unread answers per worker.
  std::size_t backlog_bytes = std::size_t{4} << 20;
  // How long stop() sends what is left.
  Duration last_words = std::chrono::seconds(1);
};

// Runs a node over sockets: TCP, plain or TLS, and shared memory within a host. The directory
// numbers the nodes that join; they learn their number from the first kView and state it in the
// greetings of links between each other. The link to the directory is made once: without a
// directory there is no job.
//   one Connector thread  accepts and connects, calls settle() every 20 ms
//   `threads` EventLoops  messages; those of one peer in one thread, so its calls do not overlap
// Every on_linked() is followed by an on_lost(), also after disconnect(). Threads: safe.
class SocketTransport final : public NodeTransport,
                              private Connector::Owner,
                              private EventLoop::Owner {
 public:
  // Listens at once, so that address() is known before start(). kInvalid for options that do not
  // fit together.
  static Result<std::unique_ptr<SocketTransport>> make(const SocketTransportOptions& options,
                                                       EventSink on_event);
  // stop()s.
  ~SocketTransport() override;
  SocketTransport(const SocketTransport&) = delete;
  SocketTransport& operator=(const SocketTransport&) = delete;

  // `node` outlives stop().
  void start(Node& node);
  // Connects to the directory; on_linked() has been called when it returns. kRefused at once, and
  // kTimeout with the reason of the last attempt.
  Result<void> join(const net::Address& directory, Deadline by);
  // Sends queued messages, for about a second at most, and ends all threads and links. The node
  // gets no more calls.
  void stop();

  // How other nodes connect to this one; without `id`.
  ServerInfo info() const;
  std::string address() const { return address_; }
  NodeId id() const { return id_.load(); }

  // Memory that servers on this host use in place; it lives as long as the transport.
  Result<std::span<std::byte>> allocate(std::size_t bytes) {
    return shared_.regions.allocate(bytes);
  }

  const LinkCounters& counters() const { return shared_.counters; }

  void connect(const ServerInfo& server) override;
  void disconnect(NodeId peer) override { disconnect_then(peer, {}); }
  void disconnect_then(NodeId peer, std::function<void()> released) override;
  std::vector<std::byte> buffer(std::size_t bytes) override { return shared_.pool.take(bytes); }
  void send(NodeId to, const MessageHeader& header, std::vector<std::byte> payload) override;
  void send_from(NodeId to, const MessageHeader& header, std::span<const std::byte> payload,
                 std::span<std::byte> reply) override;
  void send_written(NodeId to, const MessageHeader& header, std::size_t bytes) override;

 private:
  // Two nodes that connect to each other at the same time have two links: the node sends on the
  // first, receives on both, and they end together.
  struct Peer {
    std::vector<std::shared_ptr<Link>> links;
    std::optional<Connector::Target> wanted;  // by connect()
  };
  struct Joining {
    bool linked = false;
    Error last_miss{.code = ErrorCode::kTimeout, .message = "it does not answer"};
  };

  SocketTransport(const SocketTransportOptions& options, EventSink on_event);
  Result<void> open();

  LinkAnswer judge(const LinkGreeting& greeting) override;
  void came(std::unique_ptr<net::Stream> socket, const LinkGreeting& greeting) override;
  LinkGreeting greeting_to(NodeId id) override;
  void reached(std::unique_ptr<net::Stream> socket, const LinkAnswer& answer) override;
  void missed(NodeId id, const Error& why) override;
  void turned_away(const std::string& from, const std::string& why) override;
  void tick(TimePoint now) override;

  std::span<std::byte> place(Link& link, const MessageHeader& header) override;
  void deliver(Link& link, const Message& message) override;
  void ended(Link& link) override;
  void settle() override;

  EventLoop& loop_of(NodeId peer) { return *loops_[assignment_.of(peer, loops_.size())]; }
  std::shared_ptr<Link> sending_link(NodeId to);
  Result<Connector::Target> target_for(const ServerInfo& server) const;
  void hand_over(std::unique_ptr<net::Stream> socket, const Link::Config& config);
  void adopt(const std::shared_ptr<Link>& link);
  void finish(NodeId peer, const std::vector<std::shared_ptr<Link>>& links, const Error& why);

  const SocketTransportOptions options_;
  const EventSink on_event_;
  std::string address_;
  std::string local_name_;
  std::string host_;
  Token token_{};  // drawn by the directory, which sends it to all nodes
  Node* node_ = nullptr;
  bool running_ = false;

  Link::Shared shared_;
  std::atomic<NodeId> id_{kNoNode};
  NodeId next_number_ = 1;  // the directory's; the connector's thread only
  group::Refusals refusals_;
  ClosingLinks closing_links_;

  mutable Mutex mutex_;
  ConditionVariable joined_;
  std::unordered_map<NodeId, Peer> peers_ TALLY_GUARDED_BY(mutex_);
  Joining joining_ TALLY_GUARDED_BY(mutex_);

  std::unique_ptr<Connector> connector_;
  LoopAssignment assignment_;
  std::vector<std::unique_ptr<EventLoop>> loops_;
};

}  // namespace tally::server
