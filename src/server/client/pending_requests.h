#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/client/sparse_request.h"
#include "server/protocol/message.h"
#include "server/snapshot/snapshot.h"
#include "tally/error.h"
#include "tally/server.h"

namespace tally::server {

// One message of a worker's request: what is asked of one part's primary, or of one server.
struct Subrequest {
  enum class State : std::uint8_t { kWaiting, kSent };

  Ticket ticket = 0;  // 0: nobody waits for the answer
  MessageHeader header;
  // Memory of the caller or of the request.
  std::span<const std::byte> payload;
  std::span<std::byte> reply;
  Client::Average* average = nullptr;  // of the caller, too: where one goes that comes instead
  NodeId server = kNoNode;             // asked of this one; else of the part's primary
  State state = State::kWaiting;
  NodeId sent_to = kNoNode;
  std::uint32_t after_view = 0;  // not to be sent before a newer view
  // A gradient that is held until as many others have come as the table's rule says, perhaps of
  // this same worker: its payload does not count against what may be in flight, or those others
  // could never follow.
  bool gathered = false;
  // The payload of a message that outlives its request; shared by the copies of the message.
  std::shared_ptr<const std::vector<std::byte>> kept;
};

// What a caller waits for.
struct Request {
  MessageKind kind = MessageKind::kPush;
  TableId table = 0;
  std::size_t open_subrequests = 0;
  Completion completion;
  bool has_answers = false;
  std::optional<Error> error;
  // What was said to be lost.
  std::vector<std::uint32_t> lost_parts;
  std::string snapshot;
  // By kind.
  std::vector<std::byte> body;  // what is sent, where it is not the caller's memory
  std::optional<SparseRequest> sparse;
  // Gives the memory of `sparse` back. Shared with links that were ended: servers may be at it
  // until those are released.
  std::shared_ptr<void> staged;
  Client::Size size;
  std::string text;
  std::string snapshot_name;        // of one that is written, once all have
  std::vector<SnapshotFile> files;  // of a snapshot, that servers have written
  std::vector<NodeId> writers;      // those servers
  std::vector<double> sums;
};

// The requests of a worker that are not yet taken, and their messages that are not yet answered, by
// number.
class PendingRequests {
 public:
  // Opens a request with these messages, which get the next numbers in this order. Without any it
  // is done.
  Ticket open(std::unique_ptr<Request> request, std::vector<Subrequest> subrequests);
  // More messages for a request that is not done.
  void add(Ticket ticket, std::vector<Subrequest> subrequests);
  // Puts back a message that nobody waits for, with the number in its header, which is not in use.
  void repeat(Subrequest subrequest);

  // Unanswered, by number. Ordered, because everything that is sent again is sent in order.
  std::map<std::uint64_t, Subrequest>& subrequests() { return subrequests_; }
  Subrequest* find(std::uint64_t sequence);
  // The message needs nothing more; null if no request is left that it belongs to.
  Request* settle(std::uint64_t sequence);

  Request* request(Ticket ticket);
  bool done(Ticket ticket) const;
  // kInvalid for a ticket that is not known or not done.
  Result<std::unique_ptr<Request>> take(Ticket ticket);
  // Forgets the request and its messages; null if there is none. What it had stays in place as long
  // as it is kept.
  std::unique_ptr<Request> forget(Ticket ticket);
  // Memory of all requests that are open.
  std::vector<std::shared_ptr<void>> staged() const;
  // All open requests end with this, unless they have an error; all messages are forgotten.
  void fail_all(const Error& why);

  // How often a request's last message was settled: it is done then, unless it gets more.
  std::uint64_t completions() const { return completions_; }
  // The number that the next message gets.
  std::uint64_t next_sequence() const { return next_sequence_; }

 private:
  std::map<std::uint64_t, Subrequest> subrequests_;
  std::map<Ticket, std::unique_ptr<Request>> requests_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t completions_ = 0;
  Ticket next_ticket_ = 1;
};

}  // namespace tally::server
