// The requests of a ServerExchange to servers.
#include <algorithm>
#include <utility>

#include "adapters/torch/server_exchange.h"
#include "base/stopwatch.h"

namespace tally::adapter {
namespace {

// Parts that are pushed together during backward: one mebibyte.
constexpr std::uint32_t kServerRequestsRun = 4;

}  // namespace

void ServerExchange::Reading::take(const server::Completion& completion) {
  if (!read) {
    read = policy::Read{.version = completion.version,
                        .clock = completion.clock,
                        .newest_version = completion.version};
    return;
  }
  read->version = std::min(read->version, completion.version);
  read->clock = std::min(read->clock, completion.clock);
  read->newest_version = std::max(read->newest_version, completion.version);
}

// Pushes the complete parts at the front, once there are enough for a message.
void ServerExchange::push_ready(std::size_t t) {
  if (is_low_rank(t)) return;
  const Table& table = tables_.tables()[t];
  std::uint32_t end = next_[t];
  while (end < table.parts && pending_[t][end] == 0) ++end;
  if (end - next_[t] >= kServerRequestsRun || (end == table.parts && end > next_[t]))
    push(t, next_[t], end - next_[t]);
}

server::PushOptions ServerExchange::push_facts(std::size_t t) const {
  return {.clock = choice_.clock,
          .version = choice_.version,
          .weight = gift_.contribution.samples,
          .rate = gift_.rates[tables_.tables()[t].group]};
}

void ServerExchange::push(std::size_t t, std::uint32_t first, std::uint32_t count) {
  if (coded_[t] != nullptr) return push_coded(t, first, count);
  const Table& table = tables_.tables()[t];
  ServerTables::Gradients& room = gradients();
  const server::Client::PartRange range{.table = table.id, .first = first, .count = count};
  const server::PushOptions facts = push_facts(t);
  const auto gradient = ServerTables::bytes_of(table, room.flat[t], first, count);
  has_begun_ = true;
  next_[t] = first + count;
  if (choice_.one_request) {
    const auto values = ServerTables::bytes_of(table, table.values, first, count);
    requests_.push_back(client().push_pull(
        range, facts,
        {.least_version = choice_.read.least_version, .least_clock = choice_.read.least_clock},
        gradient, values));
  } else {
    room.pushes.push_back(client().push(range, facts, gradient));
  }
}

void ServerExchange::push_rest() {
  for (std::size_t t = 0; t < tables_.tables().size(); ++t)
    if (next_[t] < tables_.tables()[t].parts && !is_low_rank(t))
      push(t, next_[t], tables_.tables()[t].parts - next_[t]);
}

void ServerExchange::pull_all(const server::PullOptions& facts,
                              std::vector<server::Ticket>& tickets) {
  for (const Table& table : tables_.tables())
    tickets.push_back(client().pull({.table = table.id, .first = 0, .count = table.parts}, facts,
                                    ServerTables::bytes_of(table, table.values, 0, table.parts)));
}

// Pushes the gradients of rows together with the dense gradient. A worker without samples pushes no
// keys, which completes the round.
void ServerExchange::push_rows() {
  ServerTables::Gradients& room = gradients();
  const auto tickets = options_.embeddings->push(room.rows, {.clock = choice_.clock,
                                                             .version = choice_.version,
                                                             .weight = gift_.contribution.samples,
                                                             .rate = gift_.rates.front()});
  room.pushes.insert(room.pushes.end(), tickets.begin(), tickets.end());
}

// Forward passes pull rows when they need them; a worker that must wait for others waits here.
void ServerExchange::await_rows(const server::PullOptions& facts,
                                std::vector<server::Ticket>& tickets) {
  if (!has_embeddings()) return;
  const auto awaited = options_.embeddings->await(facts);
  tickets.insert(tickets.end(), awaited.begin(), awaited.end());
}

server::TableId ServerExchange::first_table() const {
  return tables_.tables().empty() ? options_.embeddings->first_table()
                                  : tables_.tables().front().id;
}

void ServerExchange::tell_clock(std::uint64_t clock) {
  for (const Table& table : tables_.tables())
    or_throw(client().wait(client().clock(table.id, clock)));
  if (!has_embeddings()) return;
  for (const server::TableId table : options_.embeddings->tables())
    or_throw(client().wait(client().clock(table, clock)));
}

server::Completion ServerExchange::wait(server::Ticket ticket) {
  const Stopwatch watch(waited_);
  return or_throw(client().wait(ticket));
}

// Waits until no push uses the room any more.
void ServerExchange::settle(ServerTables::Gradients& gradients) {
  // A gradient that is pushed in several requests counts once.
  const bool is_current = &gradients == room_;
  if (!is_current) is_counted_ = false;
  for (const server::Ticket push : gradients.pushes) note(wait(push));
  gradients.pushes.clear();
  if (!is_current) is_counted_ = false;
}

void ServerExchange::settle_all() {
  for (const auto& room : rooms_) settle(*room);
}

// Abandons the requests in progress: they use no memory of this worker after this call.
void ServerExchange::give_up() {
  std::vector<server::Ticket> tickets = std::exchange(requests_, {});
  for (std::vector<Asked>* const asked : {&asked_, &factors_})
    for (const Asked& each : std::exchange(*asked, {})) tickets.push_back(each.ticket);
  for (const auto& room : rooms_)
    for (const server::Ticket push : std::exchange(room->pushes, {})) tickets.push_back(push);
  for (const server::Ticket ticket : tickets)
    (void)client().wait(ticket, Deadline::after(Duration{}));
}

// A gradient counts once, by the first of its ranges with an outcome.
void ServerExchange::note(const server::Completion& completion) {
  if (is_counted_ || completion.applied + completion.dropped == 0) return;
  is_counted_ = true;
  if (completion.applied > 0)
    staleness_.add(completion.staleness);
  else
    ++dropped_;
}

// Updates the own copy as servers do with a single gradient. The next pull includes the gradients
// of other workers.
void ServerExchange::move_own_copy(const StepGift& gift) {
  const at::NoGradGuard no_grad;
  policy::Rules rules = options_.rules;
  for (std::size_t t = 0; t < tables_.tables().size(); ++t) {
    const Table& table = tables_.tables()[t];
    rules.momentum = options_.optimizers[table.group].momentum;
    const double rate = gift.rates[table.group] * policy::rate_factor(rules, 1);
    const double decay = options_.optimizers[table.group].weight_decay;
    at::Tensor values = table.values;
    if (decay != 0) values.mul_(1 - rate * decay);
    values.add_(gradients().flat[t], -rate);
  }
}

// Pushes the sum that was kept for a later push.
void ServerExchange::flush() {
  if (kept_.empty()) return;
  begin();
  choice_.push = true;
  choice_.pull = false;
  choice_.one_request = false;
  choice_.apply_locally = false;
  choice_.clock = me_.clock;
  ServerTables::Gradients& room = gradients();
  for (at::Tensor& flat : room.flat) flat.zero_();
  gift_.contribution = {.samples = 1, .weight = 1};
  prepare(gift_);
  push_rest();
  settle(room);
  take_in(choice_, {});
}

// Pulls the newest values, independent of the progress of other workers.
void ServerExchange::refresh() {
  std::vector<server::Ticket> tickets;
  pull_all({}, tickets);
  await_rows({}, tickets);
  Reading reading;
  for (const server::Ticket ticket : tickets) reading.take(wait(ticket));
  // A worker that is in step already has these values and their state.
  if (reading.read->version != me_.version || reading.read->newest_version != me_.version)
    read_own_state();
  const policy::StepChoice only_read{
      .takes_part = false, .push = false, .pull = true, .clock = me_.clock};
  take_in(only_read, reading);
}

}  // namespace tally::adapter
