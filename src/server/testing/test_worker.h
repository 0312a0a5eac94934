#pragma once
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "server/protocol/payloads.h"
#include "server/storage/storage.h"
#include "server/testing/test_network.h"
#include "wire/error_body.h"

namespace tally::server::test {

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

// A worker that follows the protocol: it resends unanswered requests when the view changes or when
// a server redirects it.
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
    network_.transport(id_).send(kDirectoryId, {.kind = MessageKind::kJoin},
                                 encode(Joining{.rank = rank_}));
  }
  void leave() { network_.transport(id_).send(kDirectoryId, {.kind = MessageKind::kLeave}, {}); }

  // Sends a request to the part's primary and returns its sequence number.
  std::uint64_t ask(MessageHeader header, std::vector<std::byte> payload) {
    return ask_server(kNoNode, header, std::move(payload));
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
  struct PushOptions {
    MessageKind message = MessageKind::kPush;
    PushKind kind = PushKind::kGradient;
    std::uint64_t clock = 0;
    std::uint64_t version = 0;
    double rate = 1;
    double weight = 1;
    std::uint64_t least_version = 0;
    std::uint64_t least_clock = 0;
  };
  std::uint64_t push(TableId table, std::uint32_t part, const PushOptions& facts,
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
  // Forgets the answer and sends the request again.
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
    if (header.outcome == Outcome::kNotPrimary) {
      request->second.sent_to = kNoNode;
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
      if (request.sent_to == peer) request.sent_to = kNoNode;
  }
  void settle(TimePoint) override {}

 private:
  struct Request {
    NodeId to = kNoNode;  // kNoNode: the part's primary
    MessageHeader header;
    std::vector<std::byte> payload;
    NodeId sent_to = kNoNode;
  };
  NodeId target(const Request& request) const {
    if (request.to != kNoNode) return request.to;
    const auto slots = static_cast<std::uint32_t>(view_.chains.size());
    const std::uint32_t slot = request.header.kind == MessageKind::kAgree
                                   ? 0
                                   : slot_of(request.header.table, request.header.part, slots);
    return view_.chains[slot].empty() ? kNoNode : view_.chains[slot].front();
  }
  void send(Request& request) {
    request.sent_to = target(request);
    if (request.sent_to == kNoNode) return;
    request.header.view = view_.number;
    network_.transport(id_).send(request.sent_to, request.header, request.payload);
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

}  // namespace tally::server::test
