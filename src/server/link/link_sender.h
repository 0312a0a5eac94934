#pragma once
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "net/stream.h"
#include "server/protocol/message.h"

namespace tally::server {

// Reuses the memory of sent payloads: page faults on new memory cost as much as sending it.
// Threads: safe.
class PayloadPool final {
 public:
  // With any content.
  std::vector<std::byte> take(std::size_t bytes);
  // Keeps the memory, or frees it if there is enough.
  void give(std::vector<std::byte> memory);

 private:
  Mutex mutex_;
  std::vector<std::vector<std::byte>> kept_ TALLY_GUARDED_BY(mutex_);
  std::size_t kept_bytes_ TALLY_GUARDED_BY(mutex_) = 0;
};

// A message to send: a header and a payload, owned or borrowed.
struct QueuedMessage {
  EncodedHeader header{};
  std::vector<std::byte> owned;
  std::span<const std::byte> payload;  // of `owned` or borrowed
  int descriptor = -1;                 // sent along; not owned
};

// The outgoing half of a link: writes headers and payloads together without a copy. Threads: calls
// must not overlap.
class LinkSender final {
 public:
  explicit LinkSender(PayloadPool& pool) : pool_(pool) {}

  void queue(QueuedMessage message);
  bool idle() const { return queue_.empty(); }
  // Memory of the queue: owned payloads and a constant per message.
  std::size_t owned_bytes() const { return owned_bytes_; }

  struct Pumped {
    std::size_t bytes = 0;
    // kMoved: everything is written, or the budget is used up.
    net::Io::State end = net::Io::State::kMoved;
  };
  Pumped pump(net::Stream& socket, std::size_t budget_bytes);
  // Drops the queue.
  void clear();

 private:
  std::size_t gather(std::span<iovec> parts) const;
  void advance(std::size_t bytes);

  PayloadPool& pool_;  // takes the memory of sent payloads
  std::deque<QueuedMessage> queue_;
  std::size_t written_bytes_ = 0;  // of the front one
  std::size_t owned_bytes_ = 0;
};

}  // namespace tally::server
