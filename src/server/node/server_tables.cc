#include <utility>

#include <fmt/format.h>

#include "server/node/server_node.h"

namespace tally::server {
namespace {

// Dense tables of up to 256 GiB.
constexpr std::uint32_t kMaxParts = 1U << 20;

}  // namespace

Result<void> ServerNode::add_table(TableId id, const TableSpec& spec) {
  if (const Table* known = tables_.find(id); known != nullptr) {
    if (known->facts().encoded == encode(spec)) return {};
    return Error{.code = ErrorCode::kMismatch,
                 .message = fmt::format("table '{}' is there as '{}', with another spec", spec.name,
                                        known->facts().spec.name)};
  }
  TALLY_TRY(TableFacts facts, facts_of(id, spec, static_cast<std::uint32_t>(slots_.size())));
  if (facts.parts > kMaxParts)
    return Error{.code = ErrorCode::kExhausted,
                 .message = fmt::format("table '{}' has {} parts, limit {}", spec.name, facts.parts,
                                        kMaxParts)};
  auto table = std::make_unique<Table>(std::move(facts), around_);
  for (const auto& part : table->parts()) {
    const Slot& slot = slots_[part->slot()];
    Position position = slot.position;
    // Whoever follows here was in the chain before the table was.
    position.standing = slot.is_settled ? Replication::Peer::kInStep : Replication::Peer::kUnfilled;
    if (position.successor == kUnnumbered) position.standing = Replication::Peer::kNone;
    if (slot.is_settled && position.role != Position::Role::kNone) {
      TALLY_TRY(part->make_present());
    }
    part->install(position, view_.workers);
  }
  const Table& added = *table;
  tables_.add(std::move(table));
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const Position& position = slots_[slot].position;
    if (slots_[slot].is_settled && position.successor != kUnnumbered && position.is_linked)
      send_spec(position.successor, slot, added, kSpec);
  }
  return {};
}

void ServerNode::send_spec(NodeId to, std::uint32_t slot, const Table& table, std::uint8_t flags) {
  postman_.send(to,
                {.kind = MessageKind::kRecord,
                 .push_kind = flags,
                 .table = table.facts().id,
                 .part = slot,
                 .view = view_.number},
                table.facts().encoded);
}

// Which tables the successor has to be sent, before any of them: so it knows what it does not have.
// `all`: it is new; else those whose parts are not yet all under way.
void ServerNode::send_listing(std::uint32_t slot, bool all) {
  const Position& position = slots_[slot].position;
  if (position.successor == kUnnumbered || !position.is_linked || !slots_[slot].is_settled) return;
  for (const auto& table : tables_.all()) {
    bool is_behind = all;
    for (const auto& part : table->parts())
      is_behind = is_behind || (part->slot() == slot && part->is_successor_behind());
    if (is_behind)
      send_spec(position.successor, slot, *table, static_cast<std::uint8_t>(kSpec | kListing));
  }
  postman_.send(
      position.successor,
      {.kind = MessageKind::kRecord, .push_kind = kListing, .part = slot, .view = view_.number},
      {});
}

void ServerNode::take_spec(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  const MutexLock lock(structure_);
  const std::uint32_t slot = header.part;
  // Also of an older view: who goes before this server in a chain stays there until it is gone.
  if (slot >= slots_.size() || slots_[slot].position.predecessor != from) return;
  if ((header.push_kind & kSpec) != 0) {
    auto spec = decode_spec(message.payload);
    if (!spec) return say(fmt::format("server {} sent no table: {}", from, spec.error().message));
    if (auto added = add_table(header.table, *spec); !added)
      return say(fmt::format("table '{}' of server {} cannot be copied: {}", spec->name, from,
                             added.error().message));
    if ((header.push_kind & kListing) == 0) return;
    for (const auto& part : tables_.find(header.table)->parts())
      if (part->slot() == slot) part->await_record();
    return;
  }
  slots_[slot].is_settled = true;
  for (const auto& table : tables_.all())
    for (const auto& part : table->parts()) {
      if (part->slot() != slot) continue;
      if (auto made = part->end_of_listing(); !made) say(made.error().message);
    }
  send_listing(slot, true);
}

}  // namespace tally::server
