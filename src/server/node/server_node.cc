#include "server/node/server_node.h"

#include <utility>

#include <fmt/format.h>

namespace tally::server {
namespace {

constexpr Duration kBeatEvery = std::chrono::milliseconds(200);

}  // namespace

ServerNode::ServerNode(Postman& postman, const ServerNodeOptions& options, EventSink on_event)
    : postman_(postman),
      options_(options),
      on_event_(std::move(on_event)),
      budget_(options.memory_limit_bytes),
      around_{.postman = postman,
              .budget = budget_,
              .snapshot = newest_snapshot_,
              .fill_bytes = fill_bytes_,
              .left_over = left_over_} {}

void ServerNode::join() {
  postman_.send(kDirectory, {.kind = MessageKind::kJoin},
                encode(Joining{.is_server = true, .server = options_.self}));
}

std::span<std::byte> ServerNode::place(NodeId, const MessageHeader&) { return {}; }

void ServerNode::on_linked(NodeId peer) {
  {
    const MutexLock lock(structure_);
    linked_.insert(peer);
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
      Position& position = slots_[slot].position;
      if (position.successor != peer) continue;
      position.is_linked = true;
      send_listing(slot, false);
    }
    for (const auto& table : tables_.all())
      for (const auto& part : table->parts()) part->linked(peer);
    queue_fills();
  }
  pump_fills();
}

void ServerNode::on_lost(NodeId peer, const Error& why) {
  {
    // Their payloads may lie in the peer's memory. What it still wants it asks again.
    const MutexLock lock(early_mutex_);
    for (auto early = early_.begin(); early != early_.end();) {
      if (early->from != peer) {
        ++early;
        continue;
      }
      early_bytes_ -= early->owned.size();
      early = early_.erase(early);
    }
  }
  const MutexLock lock(structure_);
  linked_.erase(peer);
  if (peer == kDirectory) return become_expelled(fmt::format("no directory: {}", why.message));
  for (Slot& slot : slots_)
    if (slot.position.successor == peer) slot.position.is_linked = false;
  for (const auto& table : tables_.all())
    for (const auto& part : table->parts()) part->lost(peer);
  const MutexLock agreement_lock(agreement_mutex_);
  agreement_.forget(peer);
}

void ServerNode::settle(TimePoint now) {
  look_at_clock(now);
  std::int64_t due = next_beat_.load();
  if (now.count() >= due && next_beat_.compare_exchange_strong(due, (now + kBeatEvery).count()))
    beat();
  for (Part* const part : left_over_.take()) part->work_off();
  pump_fills();
}

void ServerNode::say(const std::string& sentence) const {
  if (on_event_) on_event_(sentence);
}

}  // namespace tally::server
