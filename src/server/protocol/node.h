#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "server/protocol/message.h"
#include "server/protocol/view.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::server {

// How often servers and workers tell the directory that they are alive.
inline constexpr Duration kHeartbeatInterval = std::chrono::milliseconds(200);

// A message that arrived.
struct Message {
  MessageHeader header;
  // Valid during the call. If `stays`, it is memory of the sender: unchanged until the request is
  // answered, and readable until the link is lost and on_lost() has returned.
  std::span<const std::byte> payload;
  bool stays = false;
  // The sender's memory for the payload of the answer, valid as long; empty: it goes by wire.
  std::span<std::byte> reply;
};

// A message that is kept after its delivery, with a copy of the payload unless it `stays`.
struct KeptMessage {
  KeptMessage(NodeId sender, const Message& original) : from(sender), message(original) {
    if (original.stays) return;
    owned.assign(original.payload.begin(), original.payload.end());
    message.payload = owned;
  }
  // A moved vector keeps its memory, so the payload stays valid.
  KeptMessage(KeptMessage&&) = default;
  KeptMessage& operator=(KeptMessage&&) = default;

  NodeId from;
  Message message;
  std::vector<std::byte> owned;
};

// Connects a node with its peers. Threads: safe; a Node may call it from its own calls. No call
// blocks or fails: messages to a lost peer are dropped, and on_lost() reports the loss.
class NodeTransport {
 public:
  virtual ~NodeTransport() = default;

  // Keeps a link to the server until disconnect(), and makes it again whenever it is lost.
  virtual void connect(const ServerInfo& server) = 0;
  virtual void disconnect(NodeId peer) = 0;
  // As disconnect(). A peer on this host may use shared memory until it has closed its end of the
  // link: `released` is called then, and at once where no memory is shared. The call comes from any
  // thread, without locks, perhaps before this returns; never after the transport has ended.
  virtual void disconnect_then(NodeId peer, std::function<void()> released) {
    disconnect(peer);
    released();
  }

  // Memory for the payload of a send(), with any content; the transport reuses it afterwards.
  virtual std::vector<std::byte> buffer(std::size_t bytes) { return std::vector<std::byte>(bytes); }

  // Messages to one peer arrive in the order of the calls, or not at all.
  virtual void send(NodeId to, const MessageHeader& header, std::vector<std::byte> payload) = 0;
  // The caller keeps payload and reply in place until the answer has arrived, the link is lost, or
  // disconnect() has returned.
  virtual void send_from(NodeId to, const MessageHeader& header, std::span<const std::byte> payload,
                         std::span<std::byte> reply) = 0;
  // For an answer whose payload, of `bytes`, was written to Message::reply.
  virtual void send_written(NodeId to, const MessageHeader& header, std::size_t bytes) = 0;
};

// The logic of a directory, server or client, without sockets, threads or clocks: SocketTransport
// or a simulation calls it.
class Node {
 public:
  virtual ~Node() = default;

  virtual void on_message(NodeId from, const Message& message) = 0;
  // Memory of header.payload_bytes that receives the payload of this answer; empty: memory of the
  // transport.
  virtual std::span<std::byte> place(NodeId /*from*/, const MessageHeader& /*header*/) {
    return {};
  }
  // A link was made or lost. Between two on_linked() of a peer there is an on_lost().
  virtual void on_linked(NodeId peer) = 0;
  virtual void on_lost(NodeId peer, const Error& why) = 0;
  // Runs after each burst of messages, and at least every 20 ms.
  virtual void settle(TimePoint now) = 0;
};

}  // namespace tally::server
