#pragma once
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "net/stream.h"
#include "server/link/link_socket.h"
#include "server/protocol/message.h"
#include "server/link/payload_pool.h"

namespace tally::server {

// A message on its way out: a header and a payload, owned or somebody else's.
struct Outgoing {
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

  void queue(Outgoing message);
  bool idle() const { return queue_.empty(); }
  // Memory of what waits: payloads that are its own, and what each message costs beside them.
  std::size_t owned_bytes() const { return owned_bytes_; }

  struct Pumped {
    std::size_t bytes = 0;
    // kMoved: everything is written, or the budget is used up.
    net::Io::State end = net::Io::State::kMoved;
  };
  Pumped pump(LinkSocket& socket, std::size_t budget_bytes);
  // Forgets everything.
  void clear();

 private:
  std::size_t gather(std::span<iovec> parts) const;
  void advance(std::size_t bytes);

  PayloadPool& pool_;  // where memory of sent payloads goes
  std::deque<Outgoing> queue_;
  std::size_t written_bytes_ = 0;  // of the front one
  std::size_t owned_bytes_ = 0;
};

}  // namespace tally::server
