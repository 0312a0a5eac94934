#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "base/mutex.h"
#include "net/stream.h"
#include "server/link/regions.h"
#include "server/protocol/message.h"
#include "server/protocol/node.h"
#include "tally/error.h"

namespace tally::server {

// The incoming half of a link: parses and checks messages. A large payload is read straight into
// the node's memory, or into one reused buffer; payloads in shared memory are not copied. Threads:
// pump() calls must not overlap; shut() may be called from any thread.
class LinkReceiver final {
 public:
  // Called by pump() without locks.
  class Sink {
   public:
    virtual ~Sink() = default;
    // As Node::place().
    virtual std::span<std::byte> place(const MessageHeader& header) = 0;
    // False: no more for now.
    virtual bool deliver(const Message& message) = 0;
  };

  LinkReceiver();

  enum class End {
    kDrained,  // nothing more to read now
    kMore,     // the budget is used up, or the sink wants no more
    kShut,     // by shut()
    kFailed,   // failure() says why: kPeerLost, kCorrupt, kSystem
  };
  struct Pumped {
    std::size_t bytes = 0;
    std::size_t messages = 0;
    End end = End::kDrained;
  };
  // Reads and delivers about `budget_bytes`; payloads in shared memory count.
  Pumped pump(net::Stream& socket, Sink& sink, std::size_t budget_bytes);

  // Afterwards nothing is written to memory of place().
  void shut();
  // Unmaps the peer's regions. Not while pump() runs.
  void forget_regions() { regions_.clear(); }

  const Error& failure() const { return failure_; }

 private:
  enum class Next { kMessage, kBytes, kShut };

  Result<Next> advance(net::Stream& socket, Sink& sink);
  Result<void> open_message(net::Stream& socket, Sink& sink);
  Result<void> open_payload(Sink& sink);
  bool fill_from_buffer();
  Result<void> close_message(net::Stream& socket, Sink& sink);
  net::Io read(net::Stream& socket);
  std::span<const std::byte> buffered() const { return {buffer_.get() + begin_, end_ - begin_}; }
  std::span<std::byte> own_memory(std::size_t bytes);
  End ended(const net::Io& io, const net::Stream& socket);

  std::unique_ptr<std::byte[]> buffer_;  // bytes begin_ to end_ have been read and not used
  std::size_t begin_ = 0;
  std::size_t end_ = 0;

  // The current message, and the received part of its payload.
  std::optional<Message> message_;
  std::span<std::byte> place_;
  std::size_t filled_bytes_ = 0;
  std::size_t in_place_bytes_ = 0;  // of the last message
  bool satisfied_ = false;          // the sink wants no more for now

  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> own_;  // for payloads that the node has no place for
  std::size_t own_bytes_ = 0;
  ShownRegions regions_;
  Error failure_;

  Mutex gate_;
  bool shut_ TALLY_GUARDED_BY(gate_) = false;
};

}  // namespace tally::server
