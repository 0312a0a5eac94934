#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "server/client/sparse_request.h"
#include "server/protocol/message.h"
#include "server/snapshot/snapshot.h"
#include "tally/error.h"
#include "tally/server.h"

namespace tally::server {

// One message of a request, to the primary of a part or to one server.
struct Subrequest {
  enum class State : std::uint8_t { kWaiting, kSent };

  Ticket ticket = 0;  // 0: no request waits for the answer
  MessageHeader header;
  // Memory of the caller or of the Request.
  std::span<const std::byte> payload;
  std::span<std::byte> reply;
  Client::Average* average = nullptr;    // memory of the caller for an average
  Client::Measured* measured = nullptr;  // likewise for a measurement, or the end of a round
  NodeId server = kNoNode;               // the receiver; kNoNode: the primary of the part
  State state = State::kWaiting;
  NodeId sent_to = kNoNode;
  std::uint32_t after_view = 0;  // to be sent in a newer view than this
  // A gradient that the server holds until it has enough others, perhaps of this worker, or, on a
  // measured table, until this worker has measured and finished all parts. Its payload does not
  // count as in flight: otherwise those later requests could never be sent.
  bool gathered = false;
  // The payload of a subrequest that outlives its request; shared by copies of this struct.
  std::shared_ptr<const std::vector<std::byte>> kept;
};

// A request of a caller.
struct Request {
  MessageKind kind = MessageKind::kPush;
  TableId table = 0;
  std::size_t open_subrequests = 0;
  Completion completion;
  bool has_answers = false;
  std::optional<Error> error;
  // Lost parts, and the newest snapshot as the servers know it.
  std::vector<std::uint32_t> lost_parts;
  std::string snapshot;
  // By kind.
  std::vector<std::byte> body;  // payload that is not the caller's memory
  std::optional<SparseRequest> sparse;
  // Returns the memory of `sparse` when destroyed. Shared with ended links, since servers may use
  // the memory until the release.
  std::shared_ptr<void> staged;
  Client::Size size;
  std::string text;
  std::string snapshot_name;        // after the first round
  std::vector<SnapshotFile> files;  // written in the first round
  std::vector<NodeId> writers;      // the servers that wrote them
  std::vector<double> sums;
};

// The requests of a worker that are not taken yet, and their unanswered subrequests by number.
class PendingRequests {
 public:
  // Opens a request; its subrequests get the next numbers, in order. Without any it is done.
  Ticket open(std::unique_ptr<Request> request, std::vector<Subrequest> subrequests) {
    const Ticket ticket = next_ticket_++;
    requests_.emplace(ticket, std::move(request));
    add(ticket, std::move(subrequests));
    return ticket;
  }

  // Adds subrequests to a request that is not done.
  void add(Ticket ticket, std::vector<Subrequest> subrequests) {
    Request* owner = request(ticket);
    TALLY_CHECK(owner != nullptr);
    owner->open_subrequests += subrequests.size();
    for (Subrequest& subrequest : subrequests) {
      subrequest.ticket = ticket;
      subrequest.header.sequence = next_sequence_++;
      subrequests_.emplace_hint(subrequests_.end(), subrequest.header.sequence, subrequest);
    }
  }

  // Adds a subrequest without a request, with the unused number in its header.
  void repeat(Subrequest subrequest) {
    subrequest.ticket = 0;
    subrequest.state = Subrequest::State::kWaiting;
    subrequests_.emplace(subrequest.header.sequence, subrequest);
  }

  // Unanswered ones by number, since they are sent again in order.
  std::map<std::uint64_t, Subrequest>& subrequests() { return subrequests_; }
  Subrequest* find(std::uint64_t sequence) {
    const auto found = subrequests_.find(sequence);
    return found == subrequests_.end() ? nullptr : &found->second;
  }

  // Ends a subrequest; returns its request, or null.
  Request* settle(std::uint64_t sequence) {
    const auto found = subrequests_.find(sequence);
    TALLY_CHECK(found != subrequests_.end());
    Request* owner = request(found->second.ticket);
    subrequests_.erase(found);
    if (owner != nullptr && --owner->open_subrequests == 0) ++completions_;
    return owner;
  }

  Request* request(Ticket ticket) {
    const auto found = requests_.find(ticket);
    return found == requests_.end() ? nullptr : found->second.get();
  }

  bool done(Ticket ticket) const {
    const auto found = requests_.find(ticket);
    return found == requests_.end() || found->second->open_subrequests == 0;
  }

  // kInvalid for a ticket that is not known or not done.
  Result<std::unique_ptr<Request>> take(Ticket ticket) {
    const auto found = requests_.find(ticket);
    if (found == requests_.end())
      return invalid("ticket {} is not known, or was waited for", ticket);
    if (found->second->open_subrequests != 0) return invalid("ticket {} is not done", ticket);
    std::unique_ptr<Request> request = std::move(found->second);
    requests_.erase(found);
    return request;
  }

  // Removes the request and its subrequests; null if there is none. Its memory lives as long as the
  // result.
  std::unique_ptr<Request> forget(Ticket ticket) {
    const auto found = requests_.find(ticket);
    if (found == requests_.end()) return nullptr;
    std::erase_if(subrequests_, [&](const auto& entry) { return entry.second.ticket == ticket; });
    std::unique_ptr<Request> request = std::move(found->second);
    requests_.erase(found);
    return request;
  }

  // The memory of all open requests.
  std::vector<std::shared_ptr<void>> staged() const {
    std::vector<std::shared_ptr<void>> memory;
    for (const auto& [ticket, request] : requests_) {
      if (request->staged) memory.push_back(request->staged);
    }
    return memory;
  }

  // Ends all open requests with `why`, unless they have an error.
  void fail_all(const Error& why) {
    subrequests_.clear();
    for (auto& [ticket, request] : requests_) {
      if (request->open_subrequests == 0) continue;
      request->open_subrequests = 0;
      if (!request->error) request->error = why;
    }
  }

  // How often a request ran out of subrequests.
  std::uint64_t completions() const { return completions_; }
  // The number of the next subrequest.
  std::uint64_t next_sequence() const { return next_sequence_; }

 private:
  std::map<std::uint64_t, Subrequest> subrequests_;
  std::map<Ticket, std::unique_ptr<Request>> requests_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t completions_ = 0;
  Ticket next_ticket_ = 1;
};

}  // namespace tally::server
