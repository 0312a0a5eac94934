#pragma once
#include <algorithm>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "server/client/client_node.h"

namespace tally::server {

inline constexpr NodeId kSelf = 9;

struct Sent {
  NodeId to = 0;
  MessageHeader header;
  std::span<const std::byte> payload;
  std::span<std::byte> reply;
};

// Records the messages sent; of those to the directory, the kinds.
class RecordingTransport final : public NodeTransport {
 public:
  void connect(const ServerInfo& server) override { connected_to.push_back(server.id); }
  void disconnect(NodeId peer) override {
    dropped.push_back(peer);
    if (on_drop) on_drop();
  }
  void disconnect_then(NodeId peer, std::function<void()> released) override {
    disconnect(peer);
    if (!stands_still) return released();
    unreleased.push_back(std::move(released));
  }
  void send(NodeId to, const MessageHeader& header, std::vector<std::byte> payload) override {
    if (to == kDirectoryId) {
      if (const auto before = std::exchange(on_directory, {})) before();
      return to_directory.push_back(header.kind);
    }
    owned.push_back(std::move(payload));
    sent.push_back({.to = to, .header = header, .payload = owned.back()});
  }
  void send_from(NodeId to, const MessageHeader& header, std::span<const std::byte> payload,
                 std::span<std::byte> reply) override {
    sent.push_back({to, header, payload, reply});
  }
  void send_written(NodeId, const MessageHeader&, std::size_t) override { FAIL(); }

  std::vector<Sent> take() { return std::exchange(sent, {}); }

  std::vector<NodeId> connected_to;
  std::vector<NodeId> dropped;
  std::vector<Sent> sent;
  std::deque<std::vector<std::byte>> owned;  // payloads that the transport owns
  std::vector<MessageKind> to_directory;
  std::function<void()> on_directory;  // runs once, before a message to the directory goes
  std::function<void()> on_drop;
  // True: servers do not notice that their links have ended.
  bool stands_still = false;
  std::vector<std::function<void()>> unreleased;
};

inline View view_of(std::uint32_t number, std::vector<std::vector<NodeId>> chains) {
  View view{.number = number, .chains = std::move(chains), .workers = {{.id = kSelf, .rank = 3}}};
  for (const NodeId id : {1U, 2U}) {
    for (const auto& chain : view.chains) {
      if (std::count(chain.begin(), chain.end(), id) == 0) continue;
      view.servers.push_back({.id = id, .address = "127.0.0.1:1"});
      break;
    }
  }
  return view;
}

// A worker with a directory and servers 1 and 2. The test plays the other nodes.
class ClientNodeTest : public testing::Test {
 protected:
  void SetUp() override {
    node.join();
    show(view_of(1, {{1, 2}, {2, 1}}));
    node.on_linked(1);
    node.on_linked(2);
    // Three whole parts and a partial one, alternating between the servers.
    dense = {.name = "w", .count = 3 * kElements + 10};
  }

  void show(const View& view) {
    const auto bytes = encode(view);
    node.on_message(kDirectoryId,
                    {.header = {.kind = MessageKind::kView, .part = kSelf}, .payload = bytes});
  }
  void answer(const Sent& sent, MessageHeader options = {},
              std::span<const std::byte> payload = {}) {
    options.kind = MessageKind::kAnswer;
    options.table = sent.header.table;
    options.part = sent.header.part;
    options.sequence = sent.header.sequence;
    node.on_message(sent.to, {.header = options, .payload = payload});
  }
  TableId define(const TableSpec& spec) {
    const Ticket ticket = node.define(spec);
    for (const Sent& sent : transport.take()) answer(sent);
    const auto id = node.take_define(ticket);
    EXPECT_TRUE(id.has_value());
    return *id;
  }
  std::span<const std::byte> gradient() { return std::as_bytes(std::span(values)); }
  std::span<std::byte> room() { return std::as_writable_bytes(std::span(values)); }

  static constexpr std::size_t kElements = kPartBytes / sizeof(float);
  RecordingTransport transport;
  int progress = 0;
  ClientNode node{
      transport, {.rank = 3, .in_flight_bytes = std::size_t{1} << 20}, {}, [this] { ++progress; }};
  TableSpec dense;
  std::vector<float> values = std::vector<float>(3 * kElements + 10);
};

}  // namespace tally::server
