#include "server/client/ledger.h"

#include <fmt/format.h>

#include "base/check.h"

namespace tally::server {

Ticket Ledger::open(std::unique_ptr<Request> request, std::vector<Errand> errands) {
  const Ticket ticket = next_ticket_++;
  requests_.emplace(ticket, std::move(request));
  add(ticket, std::move(errands));
  return ticket;
}

void Ledger::add(Ticket ticket, std::vector<Errand> errands) {
  Request* owner = request(ticket);
  TALLY_CHECK(owner != nullptr);
  owner->open_errands += errands.size();
  for (Errand& errand : errands) {
    errand.ticket = ticket;
    errand.header.sequence = next_sequence_++;
    errands_.emplace_hint(errands_.end(), errand.header.sequence, errand);
  }
}

void Ledger::repeat(Errand errand) {
  errand.ticket = 0;
  errand.state = Errand::State::kWaiting;
  errands_.emplace(errand.header.sequence, errand);
}

Errand* Ledger::find(std::uint64_t sequence) {
  const auto found = errands_.find(sequence);
  return found == errands_.end() ? nullptr : &found->second;
}

Request* Ledger::settle(std::uint64_t sequence) {
  const auto found = errands_.find(sequence);
  TALLY_CHECK(found != errands_.end());
  Request* owner = request(found->second.ticket);
  errands_.erase(found);
  if (owner != nullptr && --owner->open_errands == 0) ++completions_;
  return owner;
}

Request* Ledger::request(Ticket ticket) {
  const auto found = requests_.find(ticket);
  return found == requests_.end() ? nullptr : found->second.get();
}

bool Ledger::done(Ticket ticket) const {
  const auto found = requests_.find(ticket);
  return found == requests_.end() || found->second->open_errands == 0;
}

Result<std::unique_ptr<Request>> Ledger::take(Ticket ticket) {
  const auto found = requests_.find(ticket);
  if (found == requests_.end())
    return Error{.code = ErrorCode::kInvalid,
                 .message = fmt::format("ticket {} is not known, or was waited for", ticket)};
  if (found->second->open_errands != 0)
    return Error{.code = ErrorCode::kInvalid,
                 .message = fmt::format("ticket {} is not done", ticket)};
  std::unique_ptr<Request> request = std::move(found->second);
  requests_.erase(found);
  return request;
}

std::unique_ptr<Request> Ledger::forget(Ticket ticket) {
  const auto found = requests_.find(ticket);
  if (found == requests_.end()) return nullptr;
  for (auto errand = errands_.begin(); errand != errands_.end();)
    errand = errand->second.ticket == ticket ? errands_.erase(errand) : std::next(errand);
  std::unique_ptr<Request> request = std::move(found->second);
  requests_.erase(found);
  return request;
}

std::vector<std::shared_ptr<void>> Ledger::staged() const {
  std::vector<std::shared_ptr<void>> memory;
  for (const auto& [ticket, request] : requests_) {
    if (request->staged) memory.push_back(request->staged);
  }
  return memory;
}

void Ledger::fail_all(const Error& why) {
  errands_.clear();
  for (auto& [ticket, request] : requests_) {
    if (request->open_errands == 0) continue;
    request->open_errands = 0;
    if (!request->error) request->error = why;
  }
}

}  // namespace tally::server
