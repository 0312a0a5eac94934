#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
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
  NodeId primary(std::uint32_t slot) const {
    if (slot >= view_.chains.size() || view_.chains[slot].empty()) return kNoNode;
    return view_.chains[slot].front();
  }

  // Servers that were in the chain of a slot and are lost.
  std::vector<NodeId> gone(std::uint32_t slot) const {
    if (slot >= gone_.size()) return {};
    return {gone_[slot].begin(), gone_[slot].end()};
  }

  // A newer view, in two steps. leave_behind() stops sending and returns the servers that are not
  // in the view; the caller disconnects them without locks and calls follow().
  std::vector<NodeId> leave_behind(const View& view) {
    std::vector<NodeId> behind;
    for (auto& [id, queue] : queues_) {
      if (!has_server(view, id)) behind.push_back(id);
    }
    halted_ = true;
    return behind;
  }

  void follow(View view) {
    std::erase_if(queues_, [&](const auto& queue) {
      if (has_server(view, queue.first)) return false;
      lost(queue.first);
      return true;
    });
    gone_.resize(view.chains.size());
    for (std::size_t slot = 0; slot < view_.chains.size() && slot < gone_.size(); ++slot) {
      for (const NodeId server : view_.chains[slot]) {
        if (std::count(view.chains[slot].begin(), view.chains[slot].end(), server) == 0)
          gone_[slot].insert(server);
      }
    }
    view_ = std::move(view);
    for (const ServerInfo& server : view_.servers) {
      if (queues_.count(server.id) > 0) continue;
      queues_[server.id].server = server;
      transport_.connect(server);
    }
    halted_ = false;
    disturbed_ = true;
  }

  void linked(NodeId server) {
    const auto queue = queues_.find(server);
    if (queue != queues_.end()) queue->second.linked = true;
  }

  void lost(NodeId server) {
    const auto queue = queues_.find(server);
    if (queue == queues_.end()) return;
    queue->second.linked = false;
    queue->second.in_flight = 0;
    for (auto& [sequence, subrequest] : pending_.subrequests()) {
      if (subrequest.state == Subrequest::State::kSent && subrequest.sent_to == server)
        subrequest.state = Subrequest::State::kWaiting;
    }
    disturbed_ = true;
  }

  // The link will be renewed: unanswered subrequests are sent again. Null for an unknown server.
  const ServerInfo* renew(NodeId server) {
    const auto queue = queues_.find(server);
    if (queue == queues_.end()) return nullptr;
    lost(server);
    return &queue->second.server;
  }

  // Queues new subrequests, from number `from` on.
  void queue_from(std::uint64_t from) {
    if (disturbed_ || halted_) return;
    auto& subrequests = pending_.subrequests();
    for (auto subrequest = subrequests.lower_bound(from); subrequest != subrequests.end();
         ++subrequest) {
      const auto queue = queues_.find(target(subrequest->second));
      if (queue != queues_.end()) queue->second.waiting.push_back(subrequest->first);
    }
  }

  // The subrequest was answered.
  void answered(const Subrequest& subrequest) {
    if (subrequest.state != Subrequest::State::kSent) return;
    const auto queue = queues_.find(subrequest.sent_to);
    if (queue != queues_.end()) queue->second.in_flight -= weight(subrequest);
  }

  // The server answered that it is not the primary in `view`.
  void not_primary(Subrequest& subrequest, std::uint32_t view) {
    answered(subrequest);
    subrequest.state = Subrequest::State::kWaiting;
    subrequest.after_view = view;
    disturbed_ = true;
  }

  // The next send() rebuilds all queues.
  void disturb() { disturbed_ = true; }

  // Sends as much as the limits allow.
  void send() {
    if (halted_) return;
    if (disturbed_) queue_all();
    for (auto& [id, queue] : queues_) send(id, queue);
  }

  // Subrequests from number `from` on whose server or part is lost.
  std::vector<std::uint64_t> unroutable(std::uint64_t from) const {
    std::vector<std::uint64_t> found;
    const auto& subrequests = pending_.subrequests();
    for (auto at = subrequests.lower_bound(from); at != subrequests.end(); ++at) {
      if (at->second.state == Subrequest::State::kWaiting && queues_.count(target(at->second)) == 0)
        found.push_back(at->first);
    }
    return found;
  }

 private:
  struct Queue {
    ServerInfo server;
    bool linked = false;
    std::size_t in_flight = 0;
    std::deque<std::uint64_t> waiting;  // numbers, rising
  };

  // The bytes in flight of a subrequest, without its answer.
  static std::size_t weight(const Subrequest& subrequest) {
    return kHeaderBytes + (subrequest.gathered ? 0 : subrequest.payload.size());
  }

  NodeId target(const Subrequest& subrequest) const {
    if (subrequest.server != kNoNode) return subrequest.server;
    if (subrequest.header.kind == MessageKind::kAgree) return primary(0);
    return slots() == 0
               ? kNoNode
               : primary(slot_of(subrequest.header.table, subrequest.header.part, slots()));
  }

  // A subrequest that waits for a newer view holds back later ones of the same part: a server takes
  // a lower number after a higher one for a repetition.
  void queue_all() {
    disturbed_ = false;
    for (auto& [id, queue] : queues_) queue.waiting.clear();
    std::set<std::pair<std::uint16_t, std::uint32_t>> held;
    for (auto& [sequence, subrequest] : pending_.subrequests()) {
      if (subrequest.state != Subrequest::State::kWaiting) continue;
      const std::pair part{subrequest.header.table, subrequest.header.part};
      if (subrequest.after_view != 0 && subrequest.after_view >= view_.number) held.insert(part);
      if (!held.empty() && held.count(part) > 0) continue;
      const auto queue = queues_.find(target(subrequest));
      if (queue != queues_.end()) queue->second.waiting.push_back(sequence);
    }
  }

  void send(NodeId to, Queue& queue) {
    while (queue.linked && !queue.waiting.empty()) {
      Subrequest* subrequest = pending_.find(queue.waiting.front());
      if (subrequest == nullptr ||
          subrequest->state != Subrequest::State::kWaiting) {  // settled or sent
        queue.waiting.pop_front();
        continue;
      }
      if (queue.in_flight != 0 && queue.in_flight + weight(*subrequest) > in_flight_bytes_) return;
      queue.waiting.pop_front();
      queue.in_flight += weight(*subrequest);
      const bool again = subrequest->sent_to != kNoNode;
      subrequest->state = Subrequest::State::kSent;
      subrequest->sent_to = to;
      subrequest->header.view = view_.number;
      if (!again) {
        transport_.send_from(to, subrequest->header, subrequest->payload, subrequest->reply);
        continue;
      }
      // Copied: an answer to the first copy may end the request while this one is under way.
      std::vector<std::byte> copy = transport_.buffer(subrequest->payload.size());
      std::copy(subrequest->payload.begin(), subrequest->payload.end(), copy.begin());
      transport_.send(to, subrequest->header, std::move(copy));
    }
  }

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
