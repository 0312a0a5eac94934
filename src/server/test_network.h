#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "server/bodies.h"
#include "server/directory_node.h"
#include "server/server_node.h"
#include "server/storage.h"
#include "wire/error_body.h"

// Nodes that one thread drives, and a network between them by seed: messages of one sender to one receiver stay in order, all others come in any.

namespace tally::server::test {

class Network {
 public:
  explicit Network(std::uint64_t seed = 1) : rng_(seed) {}

  Postman& postman(NodeId id) {
    auto& postman = postmen_[id];
    if (!postman) postman = std::make_unique<Mailman>(*this, id);
    return *postman;
  }
  void add(NodeId id, Node* node) { nodes_[id] = node; }

  // The process ends: what it sent and was not delivered may be lost, too.
  void kill(NodeId id, bool loses_mail = true) {
    nodes_.erase(id);
    for (auto& [link, mails] : mails_)
      if (link.second == id || (link.first == id && loses_mail)) mails.clear();
    for (auto& [other, node] : nodes_) losses_.emplace_back(other, id);
    std::erase_if(links_, [&](const auto& link) { return link.first == id || link.second == id; });
  }
  // The link between two ends and comes again; what was under way is gone.
  void break_link(NodeId a, NodeId b) {
    mails_[{a, b}].clear();
    mails_[{b, a}].clear();
    for (const auto& [at, peer] : {std::pair{a, b}, std::pair{b, a}}) {
      nodes_[at]->on_lost(peer, {.code = ErrorCode::kPeerLost, .message = "the link broke"});
      nodes_[at]->on_linked(peer);
    }
  }

  // Delivers everything, also what comes of it.
  void run() {
    while (step()) {
    }
  }
  // Delivers until that is so, also what threads of the nodes send.
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
      // What it had sent comes first.
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
  // Until further notice nothing comes from one to the other.
  void hold(NodeId from, NodeId to) { held_.insert({from, to}); }
  void release(NodeId from, NodeId to) { held_.erase({from, to}); }

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
  class Mailman final : public Postman {
   public:
    Mailman(Network& network, NodeId id) : network_(network), id_(id) {}
    void reach(const ServerInfo& server) override { network_.link(id_, server.id); }
    void drop(NodeId) override {}
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
      // Linked already, by the other: it has been told.
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
  std::mutex mutex_;  // of mails_: nodes may have threads
  std::condition_variable arrived_;
  std::map<NodeId, std::unique_ptr<Mailman>> postmen_;
  std::map<NodeId, Node*> nodes_;
  std::map<std::pair<NodeId, NodeId>, std::deque<Mail>> mails_;
  std::deque<std::pair<NodeId, NodeId>> losses_;
  std::deque<std::pair<NodeId, NodeId>> new_links_;
  std::set<std::pair<NodeId, NodeId>> links_;
  std::set<std::pair<NodeId, NodeId>> held_;
  std::map<MessageKind, std::uint64_t> delivered_;
  std::map<MessageKind, std::uint64_t> delivered_bytes_;
};

inline std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline std::vector<float> floats_of(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

inline std::vector<std::byte> sparse_payload(const std::vector<std::uint64_t>& keys,
                                             const std::vector<float>& rows) {
  std::vector<std::byte> bytes(8 + keys.size() * 8 + rows.size() * 4);
  const auto count = static_cast<std::uint32_t>(keys.size());
  std::memcpy(bytes.data(), &count, 4);
  if (!keys.empty()) std::memcpy(bytes.data() + 8, keys.data(), keys.size() * 8);
  if (!rows.empty()) std::memcpy(bytes.data() + 8 + keys.size() * 8, rows.data(), rows.size() * 4);
  return bytes;
}

// A worker that keeps to the contract: it sends again what is not answered when the view changes or it was told to ask elsewhere.
class Worker final : public Node {
 public:
  struct Answer {
    MessageHeader header;
    std::vector<std::byte> payload;
    Error error;  // kRefused
    std::vector<float> values() const { return floats_of(payload); }
  };

  Worker(Network& network, NodeId id, int rank) : network_(network), id_(id), rank_(rank) {
    network.add(id, this);
  }

  void join() {
    network_.postman(id_).send(kDirectory, {.kind = MessageKind::kJoin},
                               encode(Joining{.rank = rank_}));
  }
  void leave() { network_.postman(id_).send(kDirectory, {.kind = MessageKind::kLeave}, {}); }

  // To the part's primary; its number.
  std::uint64_t ask(MessageHeader header, std::vector<std::byte> payload) {
    return ask_server(kUnnumbered, header, std::move(payload));
  }
  std::uint64_t ask_server(NodeId server, MessageHeader header, std::vector<std::byte> payload) {
    header.sequence = ++sequence_;
    open_[sequence_] = {.to = server, .header = header, .payload = std::move(payload)};
    send(open_[sequence_]);
    return sequence_;
  }
  void define(const TableSpec& spec) {
    for (const ServerInfo& server : view_.servers)
      ask_server(server.id, {.kind = MessageKind::kDefine, .table = table_id(spec.name)},
                 encode(spec));
  }
  struct PushFacts {
    MessageKind message = MessageKind::kPush;
    PushKind kind = PushKind::kGradient;
    std::uint64_t clock = 0;
    std::uint64_t version = 0;
    double rate = 1;
    double weight = 1;
    std::uint64_t least_version = 0;
    std::uint64_t least_clock = 0;
  };
  std::uint64_t push(TableId table, std::uint32_t part, const PushFacts& facts,
                     std::vector<std::byte> payload) {
    return ask({.kind = facts.message,
                .push_kind = static_cast<std::uint8_t>(facts.kind),
                .table = table,
                .part = part,
                .clock = facts.clock,
                .version = facts.version,
                .least_version = facts.least_version,
                .least_clock = facts.least_clock,
                .weight = facts.weight,
                .rate = facts.rate},
               std::move(payload));
  }
  std::uint64_t pull(TableId table, std::uint32_t part, std::vector<std::byte> payload = {}) {
    return ask({.kind = MessageKind::kPull, .table = table, .part = part}, std::move(payload));
  }

  const Answer* answer(std::uint64_t sequence) const {
    const auto found = answers_.find(sequence);
    return found == answers_.end() ? nullptr : &found->second;
  }
  bool is_done(std::uint64_t sequence) const {
    const Answer* const found = answer(sequence);
    return found != nullptr && found->header.outcome == Outcome::kDone;
  }
  std::size_t open() const { return open_.size(); }
  const View& view() const { return view_; }
  NodeId id() const { return id_; }
  const std::vector<MessageHeader>& closed() const { return closed_; }
  // As if the answer had not come: it is asked again.
  void ask_again(std::uint64_t sequence) {
    answers_.erase(sequence);
    open_[sequence] = asked_.at(sequence);
    send(open_[sequence]);
  }

  void on_message(NodeId from, const Message& message) override {
    const MessageHeader& header = message.header;
    if (header.kind == MessageKind::kView) {
      auto view = decode_view(message.payload);
      if (!view || view->number <= view_.number) return;
      view_ = *view;
      for (auto& [sequence, request] : open_)
        if (request.sent_to != target(request)) send(request);
      return;
    }
    if (header.kind == MessageKind::kClosed) closed_.push_back(header);
    if (header.kind != MessageKind::kAnswer) return;
    const auto request = open_.find(header.sequence);
    if (request == open_.end() || request->second.sent_to != from) return;
    if (header.outcome == Outcome::kElsewhere) {
      request->second.sent_to = kUnnumbered;
      return;
    }
    Answer answer{.header = header, .payload = {message.payload.begin(), message.payload.end()}};
    if (header.outcome == Outcome::kRefused)
      static_cast<void>(wire::decode_error(message.payload, &answer.error));
    answers_[header.sequence] = std::move(answer);
    asked_[header.sequence] = std::move(request->second);
    open_.erase(request);
  }
  std::span<std::byte> place(NodeId, const MessageHeader&) override { return {}; }
  void on_linked(NodeId) override {}
  void on_lost(NodeId peer, const Error&) override {
    for (auto& [sequence, request] : open_)
      if (request.sent_to == peer) request.sent_to = kUnnumbered;
  }
  void settle(TimePoint) override {}

 private:
  struct Request {
    NodeId to = kUnnumbered;  // kUnnumbered: the part's primary
    MessageHeader header;
    std::vector<std::byte> payload;
    NodeId sent_to = kUnnumbered;
  };
  NodeId target(const Request& request) const {
    if (request.to != kUnnumbered) return request.to;
    const auto slots = static_cast<std::uint32_t>(view_.chains.size());
    const std::uint32_t slot = request.header.kind == MessageKind::kAgree
                                   ? 0
                                   : slot_of(request.header.table, request.header.part, slots);
    return view_.chains[slot].empty() ? kUnnumbered : view_.chains[slot].front();
  }
  void send(Request& request) {
    request.sent_to = target(request);
    if (request.sent_to == kUnnumbered) return;
    request.header.view = view_.number;
    network_.postman(id_).send(request.sent_to, request.header, request.payload);
  }

  Network& network_;
  const NodeId id_;
  const int rank_;
  View view_;
  std::uint64_t sequence_ = 0;
  std::map<std::uint64_t, Request> open_;
  std::map<std::uint64_t, Request> asked_;
  std::map<std::uint64_t, Answer> answers_;
  std::vector<MessageHeader> closed_;
};

// A job: a directory, servers 1 .. and workers behind them.
class Cluster {
 public:
  struct Shape {
    int servers = 1;
    int workers = 1;
    int replicas = 0;
    std::uint64_t seed = 1;
    std::filesystem::path snapshots = {};
    std::uint64_t memory_limit_bytes = 0;
  };

  explicit Cluster(const Shape& shape) : network(shape.seed), shape_(shape) {
    directory = std::make_unique<DirectoryNode>(
        network.postman(kDirectory),
        DirectoryRules{.servers = shape.servers, .replicas = shape.replicas}, sink());
    network.add(kDirectory, directory.get());
    for (int i = 0; i < shape.servers; ++i) add_server();
    network.run();
    for (int i = 0; i < shape.workers; ++i) add_worker(i);
    network.run();
  }

  NodeId add_server() {
    const NodeId id = next_++;
    servers[id] = std::make_unique<ServerNode>(
        network.postman(id),
        ServerNodeOptions{.self = {.address = "host:" + std::to_string(id)},
                          .memory_limit_bytes = shape_.memory_limit_bytes,
                          .snapshots = shape_.snapshots},
        sink());
    network.add(id, servers[id].get());
    servers[id]->on_linked(kDirectory);
    servers[id]->join();
    return id;
  }
  Worker& add_worker(int rank) {
    workers.push_back(std::make_unique<Worker>(network, next_++, rank));
    workers.back()->join();
    return *workers.back();
  }
  void kill_server(NodeId id, bool loses_mail = true) {
    network.kill(id, loses_mail);
    servers.erase(id);
  }
  void kill_worker(std::size_t index) { network.kill(workers[index]->id()); }
  TableId define(const TableSpec& spec) {
    for (auto& worker : workers) worker->define(spec);
    network.run();
    return table_id(spec.name);
  }
  Worker& worker(std::size_t index) { return *workers[index]; }
  // What an event says, if one has said it.
  bool has_event(const std::string& text) const {
    return std::any_of(events.begin(), events.end(), [&](const std::string& event) {
      return event.find(text) != std::string::npos;
    });
  }
  NodeId primary(TableId table, std::uint32_t part) const {
    const View view = directory->view();
    const auto slots = static_cast<std::uint32_t>(view.chains.size());
    return view.chains[slot_of(table, part, slots)].front();
  }

  Network network;
  std::unique_ptr<DirectoryNode> directory;
  std::map<NodeId, std::unique_ptr<ServerNode>> servers;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::string> events;

 private:
  EventSink sink() {
    return [this](const std::string& event) { events.push_back(event); };
  }
  const Shape shape_;
  NodeId next_ = 1;
};

}  // namespace tally::server::test
