#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "server/node/server_node.h"

namespace tally::server {
namespace {

// Bytes under way to servers that are being filled. Other records wait behind them.
constexpr std::int64_t kMaxFillBytes = std::int64_t{16} << 20;

// A dense table of 256 GiB.
constexpr std::uint32_t kMaxParts = 1U << 20;

}  // namespace

void ServerNode::take_view(const Message& message) {
  auto view = decode_view(message.payload);
  if (!view) return say(fmt::format("the directory sent a corrupt view: {}", view.error().message));
  const std::uint32_t number = view->number;
  {
    const MutexLock lock(structure_);
    const bool is_sound = view->number > view_.number && !view->chains.empty() &&
                          (view_.number == 0 || view->chains.size() == view_.chains.size());
    if (!is_sound || expelled()) return;
    if (awaited_heartbeat_.load() != 0 && has_server(*view, message.header.part)) {
      kept_header_ = message.header;
      kept_view_.assign(message.payload.begin(), message.payload.end());
      return;
    }
    id_.store(message.header.part);
    // Half of the silence limit, since an answer may be under way for as long.
    lease_.store(static_cast<std::int64_t>(message.header.clock / 2));
    if (has_server(*view, id())) {
      install(std::move(*view));
    } else {
      awaited_heartbeat_.store(0);
      become_expelled("the directory has removed it");
    }
  }
  admit(number);
  pump_fills();
}

ChainPosition ServerNode::position_in(const View& next, std::uint32_t slot) const {
  const std::vector<NodeId>& chain = next.chains[slot];
  ChainPosition position{.view = next.number};
  const auto me = std::find(chain.begin(), chain.end(), id());
  if (me == chain.end()) return position;
  position.role =
      me == chain.begin() ? ChainPosition::Role::kPrimary : ChainPosition::Role::kBackup;
  if (me != chain.begin()) position.predecessor = *(me - 1);
  if (me + 1 == chain.end()) return position;
  position.successor = *(me + 1);
  position.is_linked = linked_.contains(position.successor);
  // A server that is new in the chain has nothing, and knows it. Others may have any state.
  const bool is_next_view = next.number == view_.number + 1;
  const bool was_there = view_.number != 0 && contains(view_.chains[slot], position.successor);
  position.successor_state = is_next_view && !was_there ? Replication::PeerState::kUnfilled
                                                        : Replication::PeerState::kInDoubt;
  return position;
}

void ServerNode::install(View next) {
  std::vector<Slot> slots(next.chains.size());
  for (std::uint32_t slot = 0; slot < slots.size(); ++slot) {
    slots[slot].position = position_in(next, slot);
    const bool stays =
        view_.number != 0 && contains(view_.chains[slot], id()) && slots_[slot].is_settled;
    // In the first view there are no tables to miss.
    slots[slot].is_settled =
        slots[slot].position.role != ChainPosition::Role::kNone && (next.number == 1 || stays);
  }
  connect_neighbours(next, slots);
  const std::vector<Slot> old_slots = std::exchange(slots_, std::move(slots));
  const View before = std::exchange(view_, std::move(next));
  view_number_.store(view_.number);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const NodeId successor = slots_[slot].position.successor;
    if (old_slots.empty() || old_slots[slot].position.successor != successor)
      send_listing(slot, true);
  }
  for (const auto& table : tables_.all())
    for (const auto& part : table->parts())
      part->install(slots_[part->slot()].position, view_.workers);
  queue_fills();
  report_lost(before);
  jobs_.keep_only(view_.workers);
  Agreement::Answers answers;
  {
    const MutexLock lock(agreement_mutex_);
    agrees_ = slots_[0].position.role == ChainPosition::Role::kPrimary;
    answers = agreement_.set_members(view_.workers);
  }
  send_agreed(answers);
}

// This server connects to its successors; predecessors connect to it.
void ServerNode::connect_neighbours(const View& next, const std::vector<Slot>& slots) {
  std::set<NodeId> successors;
  std::set<NodeId> neighbours;
  for (const Slot& slot : slots) {
    if (slot.position.successor != kNoNode) successors.insert(slot.position.successor);
    neighbours.insert(slot.position.predecessor);
  }
  neighbours.insert(successors.begin(), successors.end());
  for (const ServerInfo& server : next.servers)
    if (successors.contains(server.id) && reached_.insert(server.id).second)
      transport_.connect(server);
  std::erase_if(reached_, [&](NodeId peer) {
    if (neighbours.contains(peer)) return false;
    transport_.disconnect(peer);
    return true;
  });
}

// Reports each loss once: a new primary reports parts that never arrived, the server with the
// lowest number reports slots without servers.
void ServerNode::report_lost(const View& before) {
  if (before.number == 0) return;
  const bool is_first = std::all_of(view_.servers.begin(), view_.servers.end(),
                                    [&](const ServerInfo& other) { return other.id >= id(); });
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const bool nobody_left = view_.chains[slot].empty() && !before.chains[slot].empty();
    const bool took_over = slots_[slot].position.role == ChainPosition::Role::kPrimary &&
                           !before.chains[slot].empty() && before.chains[slot].front() != id();
    if (!(nobody_left && is_first) && !took_over) continue;
    std::vector<std::string> names;
    for (const auto& table : tables_.all()) {
      const bool is_lost =
          std::any_of(table->parts().begin(), table->parts().end(), [&](const auto& part) {
            return part->slot() == slot && (nobody_left || part->is_lost());
          });
      if (is_lost) names.push_back(table->config().spec.name);
    }
    if (names.empty()) continue;
    const std::string snapshot = newest_snapshot_.path();
    say(fmt::format("lost: parts of table {} were on server {}, and nobody else has them; {}",
                    fmt::join(names, ", "), fmt::join(before.chains[slot], " and "),
                    snapshot.empty() ? std::string("there is no snapshot")
                                     : fmt::format("the newest snapshot is {}", snapshot)));
  }
}

// Handles the messages that waited for this view, before newer messages of the same senders.
void ServerNode::admit(std::uint32_t number) {
  const MutexLock lock(early_mutex_);
  if (awaited_heartbeat_.load() != 0) return;
  std::deque<KeptMessage> later;
  for (KeptMessage& early : std::exchange(early_, {})) {
    if (early.message.header.view > number) {
      later.push_back(std::move(early));
    } else {
      early_bytes_ -= early.owned.size();
      dispatch(early.from, early.message);
    }
  }
  early_ = std::move(later);
  admitted_view_.store(number, std::memory_order_release);
}

void ServerNode::become_expelled(const std::string& why) {
  if (expelled_.exchange(true)) return;
  say(fmt::format("this server serves no more: {}", why));
  for (Slot& slot : slots_) slot.position = {.view = slot.position.view};
  for (const auto& table : tables_.all())
    for (const auto& part : table->parts())
      part->install(slots_[part->slot()].position, view_.workers);
  Agreement::Answers answers;
  {
    const MutexLock lock(agreement_mutex_);
    agrees_ = false;
    answers = agreement_.give_up();
  }
  send_agreed(answers);
}

void ServerNode::queue_fills() {
  const MutexLock lock(fills_mutex_);
  fills_.clear();
  for (const auto& table : tables_.all())
    for (const auto& part : table->parts())
      if (part->wants_fill()) fills_.push_back(part.get());
  has_fills_.store(!fills_.empty());
}

// Sends whole parts to servers that joined a chain, a few at a time.
void ServerNode::pump_fills() {
  while (has_fills_.load() && fill_bytes_.load() < kMaxFillBytes) {
    TablePart* part = nullptr;
    {
      const MutexLock lock(fills_mutex_);
      if (fills_.empty()) return;
      part = fills_.front();
      fills_.pop_front();
      has_fills_.store(!fills_.empty());
    }
    part->fill();
  }
}

Result<void> ServerNode::add_table(TableId id, const TableSpec& spec) {
  if (const Table* known = tables_.find(id); known != nullptr) {
    if (known->config().encoded == encode(spec)) return {};
    return make_error(ErrorCode::kMismatch, "table '{}' is there as '{}', with another spec",
                      spec.name, known->config().spec.name);
  }
  TALLY_TRY(TableConfig config,
            make_table_config(id, spec, static_cast<std::uint32_t>(slots_.size())));
  if (config.parts > kMaxParts)
    return make_error(ErrorCode::kExhausted, "table '{}' has {} parts, limit {}", spec.name,
                      config.parts, kMaxParts);
  auto table = std::make_unique<Table>(std::move(config), context_);
  for (const auto& part : table->parts()) {
    const Slot& slot = slots_[part->slot()];
    ChainPosition position = slot.position;
    // The successor was in the chain before the table existed.
    position.successor_state =
        slot.is_settled ? Replication::PeerState::kInStep : Replication::PeerState::kUnfilled;
    if (position.successor == kNoNode) position.successor_state = Replication::PeerState::kNone;
    if (slot.is_settled && position.role != ChainPosition::Role::kNone) {
      TALLY_TRY(part->make_present());
    }
    part->install(position, view_.workers);
  }
  const Table& added = *table;
  tables_.add(std::move(table));
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const ChainPosition& position = slots_[slot].position;
    if (slots_[slot].is_settled && position.successor != kNoNode && position.is_linked)
      send_spec(position.successor, slot, added, kSpec);
  }
  return {};
}

void ServerNode::send_spec(NodeId to, std::uint32_t slot, const Table& table, std::uint8_t flags) {
  transport_.send(to,
                  {.kind = MessageKind::kRecord,
                   .push_kind = flags,
                   .table = table.config().id,
                   .part = slot,
                   .view = view_.number},
                  table.config().encoded);
}

// Lists the tables that the successor will receive, so that it knows what it lacks: all tables for
// a new successor, else the tables whose parts are not all under way.
void ServerNode::send_listing(std::uint32_t slot, bool all) {
  const ChainPosition& position = slots_[slot].position;
  if (position.successor == kNoNode || !position.is_linked || !slots_[slot].is_settled) return;
  for (const auto& table : tables_.all()) {
    bool is_behind = all;
    for (const auto& part : table->parts())
      is_behind = is_behind || (part->slot() == slot && part->is_successor_behind());
    if (is_behind)
      send_spec(position.successor, slot, *table, static_cast<std::uint8_t>(kSpec | kListing));
  }
  transport_.send(
      position.successor,
      {.kind = MessageKind::kRecord, .push_kind = kListing, .part = slot, .view = view_.number},
      {});
}

void ServerNode::take_spec(NodeId from, const Message& message) {
  const MessageHeader& header = message.header;
  const MutexLock lock(structure_);
  const std::uint32_t slot = header.part;
  // A message of an older view also counts: a predecessor stays one until it is removed.
  if (slot >= slots_.size() || slots_[slot].position.predecessor != from) return;
  if ((header.push_kind & kSpec) != 0) {
    auto spec = decode_spec(message.payload);
    if (!spec)
      return say(fmt::format("server {} sent a corrupt table: {}", from, spec.error().message));
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
