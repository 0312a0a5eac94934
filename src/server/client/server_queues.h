#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "server/client/pending_requests.h"
#include "server/protocol/node.h"
#include "server/protocol/view.h"

namespace tally::server {

// The ways from a worker to its servers: who has to be asked, in which order, how much at once. A
// part's messages go to one server at a time, in the order of their numbers. Threads: calls must
// not overlap.
class ServerQueues {
 public:
  // `in_flight_bytes`: of payloads that one server has not yet answered.
  ServerQueues(PendingRequests& pending, NodeTransport& transport, std::size_t in_flight_bytes)
      : pending_(pending), transport_(transport), in_flight_bytes_(in_flight_bytes) {}

  const View& view() const { return view_; }
  std::uint32_t slots() const { return static_cast<std::uint32_t>(view_.chains.size()); }
  NodeId primary(std::uint32_t slot) const;
  // Servers that have been in the chain of a slot and are no longer.
  std::vector<NodeId> gone(std::uint32_t slot) const;

  // A newer view, in two steps: between them the caller drops, without locks, the links to the
  // servers that the first one names; until the second nothing is sent.
  std::vector<NodeId> leave_behind(const View& view);
  void follow(View view);

  void linked(NodeId server);
  void lost(NodeId server);
  // Its link is about to be made anew: what was sent is to be sent again.
  const ServerInfo* renew(NodeId server);

  // Queues new messages, those from number `from` on.
  void queue_from(std::uint64_t from);
  // The message was answered.
  void answered(const Subrequest& subrequest);
  // The server is not the part's primary in its view, which has this number.
  void not_primary(Subrequest& subrequest, std::uint32_t view);
  // Order has changed: everything that waits is queued anew by the next send().
  void disturb() { disturbed_ = true; }

  // Sends what may be sent.
  void send();
  // Messages from number `from` on that nobody can answer: their part has no server left, or the
  // server they are for has gone.
  std::vector<std::uint64_t> unroutable(std::uint64_t from) const;

 private:
  struct Queue {
    ServerInfo server;
    bool linked = false;
    std::size_t in_flight = 0;
    std::deque<std::uint64_t> waiting;  // numbers, rising
  };

  NodeId target(const Subrequest& subrequest) const;
  void queue_all();
  void send(NodeId to, Queue& queue);

  PendingRequests& pending_;
  NodeTransport& transport_;
  const std::size_t in_flight_bytes_;
  View view_;
  std::map<NodeId, Queue> queues_;
  std::vector<std::set<NodeId>> gone_;  // by slot
  bool disturbed_ = false;
  bool halted_ = false;
};

}  // namespace tally::server
