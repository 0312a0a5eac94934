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

// What arrived.
struct Message {
  MessageHeader header;
  // Valid during the call, unless `stays`: then it is the sender's own memory, readable and
  // unchanged until the request is answered (and readable until the link to the sender is lost and
  // on_lost() has returned).
  std::span<const std::byte> payload;
  bool stays = false;
  // The sender's memory for the answer's payload, good for as long; empty: answers travel on the
  // wire.
  std::span<std::byte> reply;
};

// How a node reaches others. Threads: safe; may be called from inside a Node's calls. Nothing here
// blocks or fails: what is sent to somebody who is gone is dropped, and on_lost() tells.
class NodeTransport {
 public:
  virtual ~NodeTransport() = default;

  // Keeps a link to that server from now on, made anew while it does not come about; until disconnect().
  virtual void connect(const ServerInfo& server) = 0;
  virtual void disconnect(NodeId peer) = 0;
  // As disconnect(). A neighbour to whom memory was shown may be at it until it has noticed: `released`
  // is called when it has closed its end; at once where no memory is shared. From any thread,
  // without locks, perhaps before this returns; destroyed uncalled if the NodeTransport ends before.
  virtual void disconnect_then(NodeId peer, std::function<void()> released) {
    disconnect(peer);
    released();
  }

  // Memory of any content for the payload of a send(), which gives it back when it is sent.
  virtual std::vector<std::byte> buffer(std::size_t bytes) { return std::vector<std::byte>(bytes); }

  // Messages to one peer arrive in this order or not at all.
  virtual void send(NodeId to, const MessageHeader& header, std::vector<std::byte> payload) = 0;
  // Payload and reply stay in place until the answer has come, the link is lost, or disconnect() has
  // returned.
  virtual void send_from(NodeId to, const MessageHeader& header, std::span<const std::byte> payload,
                         std::span<std::byte> reply) = 0;
  // The answer's payload was written to Message::reply: `bytes` of it.
  virtual void send_written(NodeId to, const MessageHeader& header, std::size_t bytes) = 0;
};

// The deciding part of a directory, server or client. Knows no socket, thread or clock: a transport
// calls it, over sockets or in a simulation.
class Node {
 public:
  virtual ~Node() = default;

  virtual void on_message(NodeId from, const Message& message) = 0;
  // Where the payload of this answer is to be received; exactly header.payload_bytes. Empty: memory
  // of the transport.
  virtual std::span<std::byte> place(NodeId from, const MessageHeader& header) = 0;
  // A link came about (again), or ended. A peer that was linked twice is told as lost in between.
  virtual void on_linked(NodeId peer) = 0;
  virtual void on_lost(NodeId peer, const Error& why) = 0;
  // After each burst of messages, and at least every 20 ms.
  virtual void settle(TimePoint now) = 0;
};

}  // namespace tally::server
