#pragma once
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "net/stream.h"
#include "server/protocol/message.h"

namespace tally::server {

// Memory of payloads that were sent, for those that will be: new memory of this size costs as much
// as sending it, because the system hands out every page empty. Threads: safe.
class PayloadPool final {
 public:
  // Of any content.
  std::vector<std::byte> take(std::size_t bytes);
  // Kept, or freed where there is enough already.
  void give(std::vector<std::byte> memory);

 private:
  Mutex mutex_;
  std::vector<std::vector<std::byte>> kept_ TALLY_GUARDED_BY(mutex_);
  std::size_t kept_bytes_ TALLY_GUARDED_BY(mutex_) = 0;
};

// A message on its way out: a header and a payload, owned or somebody else's.
struct QueuedMessage {
  EncodedHeader header{};
  std::vector<std::byte> owned;
  std::span<const std::byte> payload;  // of `owned` or borrowed
  int descriptor = -1;                 // goes along; not owned
};

// The outgoing half of a link: writes headers and payloads together from where they lie. Threads:
// calls must not overlap.
class LinkSender final {
 public:
  explicit LinkSender(PayloadPool& pool) : pool_(pool) {}

  void queue(QueuedMessage message);
  bool idle() const { return queue_.empty(); }
  // Memory of what waits: payloads that are its own, and what each message costs beside them.
  std::size_t owned_bytes() const { return owned_bytes_; }

  struct Pumped {
    std::size_t bytes = 0;
    // kMoved: everything is written, or the budget is used up.
    net::Io::State end = net::Io::State::kMoved;
  };
  Pumped pump(net::Stream& socket, std::size_t budget_bytes);
  // Forgets everything.
  void clear();

 private:
  std::size_t gather(std::span<iovec> parts) const;
  void advance(std::size_t bytes);

  PayloadPool& pool_;  // where memory of sent payloads goes
  std::deque<QueuedMessage> queue_;
  std::size_t written_bytes_ = 0;  // of the front one
  std::size_t owned_bytes_ = 0;
};

}  // namespace tally::server
