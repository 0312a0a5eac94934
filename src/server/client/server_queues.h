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

// A queue of subrequests for each server, with a limit on unanswered bytes. The subrequests of a
// part go to one server at a time, in the order of their numbers. Threads: calls must not
// overlap.
class ServerQueues {
 public:
  // `in_flight_bytes` limits the unanswered payloads per server.
  ServerQueues(PendingRequests& pending, NodeTransport& transport, std::size_t in_flight_bytes)
      : pending_(pending), transport_(transport), in_flight_bytes_(in_flight_bytes) {}

  const View& view() const { return view_; }
  std::uint32_t slots() const { return static_cast<std::uint32_t>(view_.chains.size()); }
  NodeId primary(std::uint32_t slot) const;
  // Servers that were in the chain of a slot and are lost.
  std::vector<NodeId> gone(std::uint32_t slot) const;

  // A newer view, in two steps. leave_behind() stops sending and returns the servers that are not
  // in the view; the caller disconnects them without locks and calls follow().
  std::vector<NodeId> leave_behind(const View& view);
  void follow(View view);

  void linked(NodeId server);
  void lost(NodeId server);
  // The link will be renewed: unanswered subrequests are sent again. Null for an unknown server.
  const ServerInfo* renew(NodeId server);

  // Queues new subrequests, from number `from` on.
  void queue_from(std::uint64_t from);
  // The subrequest was answered.
  void answered(const Subrequest& subrequest);
  // The server answered that it is not the primary in `view`.
  void not_primary(Subrequest& subrequest, std::uint32_t view);
  // The next send() rebuilds all queues.
  void disturb() { disturbed_ = true; }

  // Sends as much as the limits allow.
  void send();
  // Subrequests from number `from` on whose server or part is lost.
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
