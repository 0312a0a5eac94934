#pragma once
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "server/protocol/node.h"

// Nodes driven by one thread, and a network between them with a seed. Messages from one sender to
// one receiver stay in order; all others arrive in random order.

namespace tally::server::test {

class Network {
 public:
  explicit Network(std::uint64_t seed = 1) : rng_(seed) {}

  NodeTransport& transport(NodeId id) {
    auto& transport = transports_[id];
    if (!transport) transport = std::make_unique<TestTransport>(*this, id);
    return *transport;
  }
  void add(NodeId id, Node* node) { nodes_[id] = node; }

  // Ends the process of a node. `loses_mail`: its undelivered messages are lost.
  void kill(NodeId id, bool loses_mail = true) {
    nodes_.erase(id);
    for (auto& [link, mails] : mails_)
      if (link.second == id || (link.first == id && loses_mail)) mails.clear();
    for (auto& [other, node] : nodes_) losses_.emplace_back(other, id);
    std::erase_if(links_, [&](const auto& link) { return link.first == id || link.second == id; });
  }
  // Breaks the link between two nodes and reconnects it; the messages in flight are lost.
  void break_link(NodeId a, NodeId b) {
    mails_[{a, b}].clear();
    mails_[{b, a}].clear();
    for (const auto& [at, peer] : {std::pair{a, b}, std::pair{b, a}}) {
      nodes_[at]->on_lost(peer, {.code = ErrorCode::kPeerLost, .message = "the link broke"});
      nodes_[at]->on_linked(peer);
    }
  }

  // Delivers all messages, including those sent in response.
  void run() {
    while (step()) {
    }
  }
  // Delivers messages until `is_over`, including those that threads of the nodes send.
  void run_until(const std::function<bool()>& is_over) {
    while (!is_over()) {
      if (step()) continue;
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [&] {
        return std::any_of(mails_.begin(), mails_.end(), [&](const auto& entry) {
          return !entry.second.empty() && !is_held(entry.first);
        });
      });
    }
  }
  bool step() {
    if (!losses_.empty()) {
      const auto [at, peer] = losses_.front();
      // The lost node's messages are delivered before its loss is reported.
      if (!mails_[{peer, at}].empty()) {
        deliver({peer, at});
        return true;
      }
      losses_.pop_front();
      if (nodes_.contains(at))
        nodes_[at]->on_lost(peer, {.code = ErrorCode::kPeerLost, .message = "its process ended"});
      return true;
    }
    if (!new_links_.empty()) {
      const auto [at, peer] = new_links_.front();
      new_links_.pop_front();
      if (nodes_.contains(at) && nodes_.contains(peer)) nodes_[at]->on_linked(peer);
      return true;
    }
    std::vector<std::pair<NodeId, NodeId>> ready;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [link, mails] : mails_)
        if (!mails.empty() && !is_held(link)) ready.push_back(link);
    }
    if (ready.empty()) return false;
    deliver(ready[rng_.below(ready.size())]);
    return true;
  }
  // Stops delivery from one node to another until release().
  void hold(NodeId from, NodeId to) { held_.insert({from, to}); }
  void release(NodeId from, NodeId to) { held_.erase({from, to}); }

  // Sent but not delivered.
  std::size_t bytes_under_way(NodeId from, NodeId to) {
    std::size_t bytes = 0;
    for (const Mail& mail : mails_[{from, to}]) bytes += mail.payload.size();
    return bytes;
  }
  std::uint64_t delivered(MessageKind kind) const {
    const auto count = delivered_.find(kind);
    return count == delivered_.end() ? 0 : count->second;
  }
  std::uint64_t delivered_bytes(MessageKind kind) const {
    const auto count = delivered_bytes_.find(kind);
    return count == delivered_bytes_.end() ? 0 : count->second;
  }

 private:
  struct Mail {
    MessageHeader header;
    std::vector<std::byte> payload;
  };
  class TestTransport final : public NodeTransport {
   public:
    TestTransport(Network& network, NodeId id) : network_(network), id_(id) {}
    void connect(const ServerInfo& server) override { network_.link(id_, server.id); }
    void disconnect(NodeId) override {}
    void send(NodeId to, const MessageHeader& header, std::vector<std::byte> payload) override {
      const std::lock_guard lock(network_.mutex_);
      network_.mails_[{id_, to}].push_back({header, std::move(payload)});
      network_.arrived_.notify_all();
    }
    void send_from(NodeId to, const MessageHeader& header, std::span<const std::byte> payload,
                   std::span<std::byte>) override {
      send(to, header, {payload.begin(), payload.end()});
    }
    void send_written(NodeId, const MessageHeader&, std::size_t) override {}

   private:
    Network& network_;
    const NodeId id_;
  };

  bool is_held(const std::pair<NodeId, NodeId>& link) const { return held_.contains(link); }
  void link(NodeId a, NodeId b) {
    if (!nodes_.contains(b) || !links_.insert({std::min(a, b), std::max(a, b)}).second) {
      // The other node has already made the link, and both nodes are told.
      return;
    }
    new_links_.emplace_back(a, b);
    new_links_.emplace_back(b, a);
  }
  void deliver(const std::pair<NodeId, NodeId>& link) {
    Mail mail;
    {
      const std::lock_guard lock(mutex_);
      mail = std::move(mails_[link].front());
      mails_[link].pop_front();
    }
    const auto node = nodes_.find(link.second);
    if (node == nodes_.end()) return;
    ++delivered_[mail.header.kind];
    delivered_bytes_[mail.header.kind] += mail.payload.size();
    Message message{.header = mail.header, .payload = mail.payload};
    message.header.payload_bytes = static_cast<std::uint32_t>(mail.payload.size());
    node->second->on_message(link.first, message);
  }

  Rng rng_;
  std::mutex mutex_;  // guards mails_, because nodes may have threads
  std::condition_variable arrived_;
  std::map<NodeId, std::unique_ptr<TestTransport>> transports_;
  std::map<NodeId, Node*> nodes_;
  std::map<std::pair<NodeId, NodeId>, std::deque<Mail>> mails_;
  std::deque<std::pair<NodeId, NodeId>> losses_;
  std::deque<std::pair<NodeId, NodeId>> new_links_;
  std::set<std::pair<NodeId, NodeId>> links_;
  std::set<std::pair<NodeId, NodeId>> held_;
  std::map<MessageKind, std::uint64_t> delivered_;
  std::map<MessageKind, std::uint64_t> delivered_bytes_;
};

}  // namespace tally::server::test
