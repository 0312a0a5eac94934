#include "exchange/server/gradient_rooms.h"

#include <algorithm>
#include <utility>

namespace tally::exchange {

std::vector<RealSpan> GradientRoom::all(const ServerTables& tables) const {
  std::vector<RealSpan> all;
  for (std::size_t t = 0; t < flat.size(); ++t)
    all.push_back({.type = tables.all()[t].type, .bytes = flat[t]});
  for (const SparseRows::Used& used : rows)
    all.push_back({.bytes = std::as_writable_bytes(used.gradient)});
  return all;
}

// With kbatch and kasync servers may hold earlier pushes until this worker has pushed again.
Result<GradientRoom*> GradientRooms::take() {
  const policy::Rules& rules = worker_.rules();
  const auto most = static_cast<std::size_t>(rules.has_rounds() ? rules.needed + 1 : 2);
  const auto is_free = [this](const std::unique_ptr<GradientRoom>& room) {
    return std::all_of(room->pushes.begin(), room->pushes.end(),
                       [this](const Push& push) { return worker_.client().done(push.ticket); });
  };
  auto chosen = std::find_if(rooms_.begin(), rooms_.end(), is_free);
  if (chosen == rooms_.end() && rooms_.size() < most) {
    auto made = std::make_unique<GradientRoom>();
    TALLY_TRY(made->flat, worker_.tables().allocate(worker_.client()));
    for (const ServerTables::Table& table : worker_.tables().all())
      made->messages.emplace_back(table.is_coded ? table.parts : 0);
    rooms_.push_back(std::move(made));
    return rooms_.back().get();
  }
  // The room in use for longest is first.
  if (chosen == rooms_.end()) chosen = rooms_.begin();
  TALLY_TRY(settle(**chosen));
  std::rotate(chosen, chosen + 1, rooms_.end());
  rooms_.back()->is_counted = false;
  return rooms_.back().get();
}

Result<void> GradientRooms::settle(GradientRoom& room) {
  while (!room.pushes.empty()) {
    const Push push = room.pushes.front();
    room.pushes.erase(room.pushes.begin());
    TALLY_TRY(const server::Completion completion, worker_.wait(push.ticket));
    note(room, push, completion);
  }
  return {};
}

Result<void> GradientRooms::settle_all() {
  for (const auto& room : rooms_) TALLY_TRY(settle(*room));
  return {};
}

void GradientRooms::give_up() {
  for (const auto& room : rooms_)
    for (const Push& push : std::exchange(room->pushes, {})) worker_.client().abandon(push.ticket);
}

void GradientRooms::note(GradientRoom& room, const Push& push,
                         const server::Completion& completion) {
  const ServerTables::Table* const table =
      push.table ? &worker_.tables().all()[*push.table] : nullptr;
  if (table != nullptr && table->coded != nullptr && !table->is_low_rank() && !room.is_plain)
    for (const std::uint32_t part : completion.dropped_parts)
      table->coded->take_back(part, room.messages[*push.table][part]);
  if (room.is_counted || completion.applied + completion.dropped == 0) return;
  room.is_counted = true;
  if (completion.applied > 0)
    worker_.figures.staleness.add(completion.staleness);
  else
    ++worker_.figures.dropped;
}

}  // namespace tally::exchange
