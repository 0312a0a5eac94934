#include "server/client/pending_requests.h"

#include "base/check.h"

namespace tally::server {

Ticket PendingRequests::open(std::unique_ptr<Request> request,
                             std::vector<Subrequest> subrequests) {
  const Ticket ticket = next_ticket_++;
  requests_.emplace(ticket, std::move(request));
  add(ticket, std::move(subrequests));
  return ticket;
}

void PendingRequests::add(Ticket ticket, std::vector<Subrequest> subrequests) {
  Request* owner = request(ticket);
  TALLY_CHECK(owner != nullptr);
  owner->open_subrequests += subrequests.size();
  for (Subrequest& subrequest : subrequests) {
    subrequest.ticket = ticket;
    subrequest.header.sequence = next_sequence_++;
    subrequests_.emplace_hint(subrequests_.end(), subrequest.header.sequence, subrequest);
  }
}

void PendingRequests::repeat(Subrequest subrequest) {
  subrequest.ticket = 0;
  subrequest.state = Subrequest::State::kWaiting;
  subrequests_.emplace(subrequest.header.sequence, subrequest);
}

Subrequest* PendingRequests::find(std::uint64_t sequence) {
  const auto found = subrequests_.find(sequence);
  return found == subrequests_.end() ? nullptr : &found->second;
}

Request* PendingRequests::settle(std::uint64_t sequence) {
  const auto found = subrequests_.find(sequence);
  TALLY_CHECK(found != subrequests_.end());
  Request* owner = request(found->second.ticket);
  subrequests_.erase(found);
  if (owner != nullptr && --owner->open_subrequests == 0) ++completions_;
  return owner;
}

Request* PendingRequests::request(Ticket ticket) {
  const auto found = requests_.find(ticket);
  return found == requests_.end() ? nullptr : found->second.get();
}

bool PendingRequests::done(Ticket ticket) const {
  const auto found = requests_.find(ticket);
  return found == requests_.end() || found->second->open_subrequests == 0;
}

Result<std::unique_ptr<Request>> PendingRequests::take(Ticket ticket) {
  const auto found = requests_.find(ticket);
  if (found == requests_.end()) return invalid("ticket {} is not known, or was waited for", ticket);
  if (found->second->open_subrequests != 0) return invalid("ticket {} is not done", ticket);
  std::unique_ptr<Request> request = std::move(found->second);
  requests_.erase(found);
  return request;
}

std::unique_ptr<Request> PendingRequests::forget(Ticket ticket) {
  const auto found = requests_.find(ticket);
  if (found == requests_.end()) return nullptr;
  for (auto subrequest = subrequests_.begin(); subrequest != subrequests_.end();)
    subrequest = subrequest->second.ticket == ticket ? subrequests_.erase(subrequest)
                                                     : std::next(subrequest);
  std::unique_ptr<Request> request = std::move(found->second);
  requests_.erase(found);
  return request;
}

std::vector<std::shared_ptr<void>> PendingRequests::staged() const {
  std::vector<std::shared_ptr<void>> memory;
  for (const auto& [ticket, request] : requests_) {
    if (request->staged) memory.push_back(request->staged);
  }
  return memory;
}

void PendingRequests::fail_all(const Error& why) {
  subrequests_.clear();
  for (auto& [ticket, request] : requests_) {
    if (request->open_subrequests == 0) continue;
    request->open_subrequests = 0;
    if (!request->error) request->error = why;
  }
}

}  // namespace tally::server
