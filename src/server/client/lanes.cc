#include "server/client/lanes.h"

#include <algorithm>

namespace tally::server {
namespace {

// What a message counts against the bytes in flight; what it asks for does not.
std::size_t weight(const Errand& errand) {
  return kHeaderBytes + (errand.gathered ? 0 : errand.payload.size());
}

bool serves(const View& view, NodeId server) {
  return std::any_of(view.servers.begin(), view.servers.end(),
                     [&](const ServerInfo& info) { return info.id == server; });
}

}  // namespace

NodeId Lanes::primary(std::uint32_t slot) const {
  if (slot >= view_.chains.size() || view_.chains[slot].empty()) return kUnnumbered;
  return view_.chains[slot].front();
}

std::vector<NodeId> Lanes::gone(std::uint32_t slot) const {
  if (slot >= gone_.size()) return {};
  return {gone_[slot].begin(), gone_[slot].end()};
}

NodeId Lanes::target(const Errand& errand) const {
  if (errand.server != kUnnumbered) return errand.server;
  if (errand.header.kind == MessageKind::kAgree) return primary(0);
  return slots() == 0 ? kUnnumbered
                      : primary(slot_of(errand.header.table, errand.header.part, slots()));
}

std::vector<NodeId> Lanes::leave_behind(const View& view) {
  std::vector<NodeId> behind;
  for (auto& [id, lane] : lanes_) {
    if (!serves(view, id)) behind.push_back(id);
  }
  halted_ = true;
  return behind;
}

void Lanes::follow(View view) {
  for (auto lane = lanes_.begin(); lane != lanes_.end();) {
    if (serves(view, lane->first)) {
      ++lane;
      continue;
    }
    lost(lane->first);
    lane = lanes_.erase(lane);
  }
  gone_.resize(view.chains.size());
  for (std::size_t slot = 0; slot < view_.chains.size() && slot < gone_.size(); ++slot) {
    for (const NodeId server : view_.chains[slot]) {
      if (std::count(view.chains[slot].begin(), view.chains[slot].end(), server) == 0)
        gone_[slot].insert(server);
    }
  }
  view_ = std::move(view);
  for (const ServerInfo& server : view_.servers) {
    if (lanes_.count(server.id) > 0) continue;
    lanes_[server.id].server = server;
    postman_.reach(server);
  }
  halted_ = false;
  disturbed_ = true;
}

void Lanes::linked(NodeId server) {
  const auto lane = lanes_.find(server);
  if (lane != lanes_.end()) lane->second.linked = true;
}

void Lanes::lost(NodeId server) {
  const auto lane = lanes_.find(server);
  if (lane == lanes_.end()) return;
  lane->second.linked = false;
  lane->second.in_flight = 0;
  for (auto& [sequence, errand] : ledger_.errands()) {
    if (errand.state == Errand::State::kSent && errand.sent_to == server)
      errand.state = Errand::State::kWaiting;
  }
  disturbed_ = true;
}

const ServerInfo* Lanes::renew(NodeId server) {
  const auto lane = lanes_.find(server);
  if (lane == lanes_.end()) return nullptr;
  lost(server);
  return &lane->second.server;
}

void Lanes::queue_from(std::uint64_t from) {
  if (disturbed_ || halted_) return;
  auto& errands = ledger_.errands();
  for (auto errand = errands.lower_bound(from); errand != errands.end(); ++errand) {
    const auto lane = lanes_.find(target(errand->second));
    if (lane != lanes_.end()) lane->second.waiting.push_back(errand->first);
  }
}

void Lanes::answered(const Errand& errand) {
  if (errand.state != Errand::State::kSent) return;
  const auto lane = lanes_.find(errand.sent_to);
  if (lane != lanes_.end()) lane->second.in_flight -= weight(errand);
}

void Lanes::elsewhere(Errand& errand, std::uint32_t view) {
  answered(errand);
  errand.state = Errand::State::kWaiting;
  errand.after_view = view;
  disturbed_ = true;
}

// A message that has to wait for a newer view holds back those of the same part behind it: a server
// takes a lower number after a higher one for a repetition.
void Lanes::queue_all() {
  disturbed_ = false;
  for (auto& [id, lane] : lanes_) lane.waiting.clear();
  std::set<std::pair<std::uint16_t, std::uint32_t>> held;
  for (auto& [sequence, errand] : ledger_.errands()) {
    if (errand.state != Errand::State::kWaiting) continue;
    const std::pair part{errand.header.table, errand.header.part};
    if (errand.after_view != 0 && errand.after_view >= view_.number) held.insert(part);
    if (!held.empty() && held.count(part) > 0) continue;
    const auto lane = lanes_.find(target(errand));
    if (lane != lanes_.end()) lane->second.waiting.push_back(sequence);
  }
}

void Lanes::send() {
  if (halted_) return;
  if (disturbed_) queue_all();
  for (auto& [id, lane] : lanes_) send(id, lane);
}

void Lanes::send(NodeId to, Lane& lane) {
  while (lane.linked && !lane.waiting.empty()) {
    Errand* errand = ledger_.find(lane.waiting.front());
    if (errand == nullptr || errand->state != Errand::State::kWaiting) {  // cancelled
      lane.waiting.pop_front();
      continue;
    }
    if (lane.in_flight != 0 && lane.in_flight + weight(*errand) > in_flight_bytes_) return;
    lane.waiting.pop_front();
    lane.in_flight += weight(*errand);
    const bool again = errand->sent_to != kUnnumbered;
    errand->state = Errand::State::kSent;
    errand->sent_to = to;
    errand->header.view = view_.number;
    if (!again) {
      postman_.send_from(to, errand->header, errand->payload, errand->reply);
      continue;
    }
    // The answer to the first copy may come while this one is on its way, and ends the caller's
    // loan.
    std::vector<std::byte> copy = postman_.buffer(errand->payload.size());
    std::copy(errand->payload.begin(), errand->payload.end(), copy.begin());
    postman_.send(to, errand->header, std::move(copy));
  }
}

std::vector<std::uint64_t> Lanes::unroutable(std::uint64_t from) const {
  std::vector<std::uint64_t> found;
  const auto& errands = ledger_.errands();
  for (auto at = errands.lower_bound(from); at != errands.end(); ++at) {
    if (at->second.state == Errand::State::kWaiting && lanes_.count(target(at->second)) == 0)
      found.push_back(at->first);
  }
  return found;
}

}  // namespace tally::server
