#pragma once
#include <array>
#include <cstddef>
#include <deque>
#include <span>
#include <utility>
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
  std::vector<std::byte> take(std::size_t bytes) {
    std::vector<std::byte> memory;
    if (bytes >= kLeastBytes) {
      const MutexLock lock(mutex_);
      // The newest first: it is likely to be in a cache.
      for (auto at = kept_.rbegin(); at != kept_.rend(); ++at) {
        if (at->capacity() < bytes) continue;
        memory = std::move(*at);
        kept_bytes_ -= memory.capacity();
        kept_.erase(std::next(at).base());
        break;
      }
    }
    memory.resize(bytes);
    return memory;
  }

  // Keeps the memory, or frees it if there is enough.
  void give(std::vector<std::byte> memory) {
    if (memory.capacity() < kLeastBytes) return;
    const MutexLock lock(mutex_);
    if (kept_bytes_ + memory.capacity() > kMostKeptBytes) return;
    kept_bytes_ += memory.capacity();
    kept_.push_back(std::move(memory));
  }

 private:
  // The allocator reuses smaller ones itself.
  static constexpr std::size_t kLeastBytes = std::size_t{32} << 10;
  static constexpr std::size_t kMostKeptBytes = std::size_t{32} << 20;

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

  std::size_t bytes() const { return kHeaderBytes + payload.size(); }
  // Memory that it takes in a queue.
  std::size_t cost() const { return sizeof(QueuedMessage) + owned.size(); }
};

// The outgoing half of a link: writes headers and payloads together without a copy. Threads: calls
// must not overlap.
class LinkSender final {
 public:
  explicit LinkSender(PayloadPool& pool) : pool_(pool) {}

  void queue(QueuedMessage message) {
    owned_bytes_ += message.cost();
    queue_.push_back(std::move(message));
  }

  bool idle() const { return queue_.empty(); }
  // Memory of the queue: owned payloads and a constant per message.
  std::size_t owned_bytes() const { return owned_bytes_; }

  struct Pumped {
    std::size_t bytes = 0;
    // kMoved: everything is written, or the budget is used up.
    net::Io::State end = net::Io::State::kMoved;
  };
  Pumped pump(net::Stream& socket, std::size_t budget_bytes) {
    Pumped pumped;
    std::array<iovec, 64> parts;
    while (!queue_.empty() && pumped.bytes < budget_bytes) {
      const std::size_t count = gather(parts);
      const int descriptor = written_bytes_ == 0 ? queue_.front().descriptor : -1;
      const net::Io io = socket.write_with(std::span(parts).first(count), descriptor);
      pumped.end = io.state;
      if (io.state != net::Io::State::kMoved) return pumped;
      pumped.bytes += io.bytes;
      advance(io.bytes);
    }
    return pumped;
  }

  // Drops the queue.
  void clear() {
    queue_.clear();
    written_bytes_ = 0;
    owned_bytes_ = 0;
  }

 private:
  static iovec part(std::span<const std::byte> bytes) {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // only read from
  }

  // Collects the next bytes. A descriptor goes with the first byte of its message, in a write that
  // ends with that message.
  std::size_t gather(std::span<iovec> parts) const {
    std::size_t count = 0;
    std::size_t skip = written_bytes_;
    for (const QueuedMessage& message : queue_) {
      if (count + 2 > parts.size() || (message.descriptor >= 0 && count > 0)) break;
      if (skip < kHeaderBytes) parts[count++] = part(std::span(message.header).subspan(skip));
      const std::size_t payload_skip = skip > kHeaderBytes ? skip - kHeaderBytes : 0;
      if (message.payload.size() > payload_skip)
        parts[count++] = part(message.payload.subspan(payload_skip));
      skip = 0;
      if (message.descriptor >= 0) break;
    }
    return count;
  }

  void advance(std::size_t bytes) {
    written_bytes_ += bytes;
    while (!queue_.empty() && written_bytes_ >= queue_.front().bytes()) {
      written_bytes_ -= queue_.front().bytes();
      owned_bytes_ -= queue_.front().cost();
      pool_.give(std::move(queue_.front().owned));
      queue_.pop_front();
    }
  }

  PayloadPool& pool_;  // takes the memory of sent payloads
  std::deque<QueuedMessage> queue_;
  std::size_t written_bytes_ = 0;  // of the front one
  std::size_t owned_bytes_ = 0;
};

}  // namespace tally::server
