#pragma once
#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "server/node/server_node.h"
#include "server/protocol/payloads.h"
#include "server/storage/storage.h"

// One server without a network: the messages it sends are recorded. For tests that depend on
// threads or on memory that a worker shares.

namespace tally::server::test {

class LoneServer final : public NodeTransport {
 public:
  static constexpr NodeId kServer = 1;
  static constexpr NodeId kFirstWorker = 2;

  struct Sent {
    NodeId to = kNoNode;
    MessageHeader header;
    std::vector<std::byte> payload;
  };

  explicit LoneServer(int workers, std::function<TimePoint()> clock = {})
      : node(*this, {.self = {.address = "host:1"}, .clock = std::move(clock)}, {}) {
    view.servers = {{.id = kServer}};
    view.chains = {{kServer}};
    for (int rank = 0; rank < workers; ++rank)
      view.workers.push_back({.id = kFirstWorker + static_cast<NodeId>(rank), .rank = rank});
    show_view();
  }

  // Sends the next view, as the directory does. It grants the server a lease of two seconds.
  void show_view() {
    ++view.number;
    say(kDirectoryId,
        {.kind = MessageKind::kView, .part = kServer, .view = view.number, .clock = 4'000'000'000},
        encode(view));
  }
  TableId define(const TableSpec& spec) {
    const TableId table = table_id(spec.name);
    ask(kFirstWorker, {.kind = MessageKind::kDefine, .table = table}, encode(spec));
    return table;
  }
  void say(NodeId from, const MessageHeader& header, const std::vector<std::byte>& payload) {
    node.on_message(from, {.header = header, .payload = payload});
  }
  // Sends a request with the worker's next sequence number and returns that number. One thread per
  // worker.
  std::uint64_t ask(NodeId worker, MessageHeader header, std::span<const std::byte> payload,
                    bool stays = false) {
    header.view = view.number;
    header.sequence = ++sequences_[worker];
    header.weight = 1;
    node.on_message(worker, {.header = header, .payload = payload, .stays = stays});
    return header.sequence;
  }

  // The first answer; null if none.
  const Sent* answer(NodeId worker, std::uint64_t sequence) const {
    const std::lock_guard lock(mutex_);
    const auto found = answers_.find({worker, sequence});
    return found == answers_.end() ? nullptr : &found->second;
  }
  // Messages to a node, other than answers.
  std::vector<Sent> sent(NodeId to, MessageKind kind) const {
    const std::lock_guard lock(mutex_);
    std::vector<Sent> found;
    for (const Sent& one : others_)
      if (one.to == to && one.header.kind == kind) found.push_back(one);
    return found;
  }

  void connect(const ServerInfo&) override {}
  void disconnect(NodeId) override {}
  void send(NodeId to, const MessageHeader& header, std::vector<std::byte> payload) override {
    const std::lock_guard lock(mutex_);
    Sent sent{.to = to, .header = header, .payload = std::move(payload)};
    if (header.kind == MessageKind::kAnswer) {
      answers_.emplace(std::pair(to, header.sequence), std::move(sent));
    } else {
      others_.push_back(std::move(sent));
    }
  }
  void send_from(NodeId, const MessageHeader&, std::span<const std::byte>,
                 std::span<std::byte>) override {}
  void send_written(NodeId to, const MessageHeader& header, std::size_t) override {
    send(to, header, {});
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<NodeId, std::uint64_t>, Sent> answers_;
  std::vector<Sent> others_;
  std::array<std::uint64_t, 16> sequences_{};

 public:
  View view;
  ServerNode node;
};

}  // namespace tally::server::test
