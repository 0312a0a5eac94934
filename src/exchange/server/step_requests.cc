#include "exchange/server/step_requests.h"

#include <algorithm>
#include <utility>

#include "base/stopwatch.h"
#include "exchange/server/low_rank_means.h"

namespace tally::exchange {
namespace {

// Parts that are pushed or encoded together: a quarter of a mebibyte each.
constexpr std::uint32_t kRun = 4;

std::vector<std::span<const std::byte>> spans_of(const CodedTable::Messages& messages,
                                                 const ServerClient::PartRange& range) {
  return {messages.begin() + range.first, messages.begin() + range.first + range.count};
}

}  // namespace

StepRequests::StepRequests(ServerWorker& worker, GradientRooms& rooms)
    : worker_(worker), rooms_(rooms) {}

void StepRequests::begin(const policy::StepChoice& choice, GradientRoom& room) {
  choice_ = choice;
  room_ = &room;
  has_pushed_ = false;
  total_weight_ = 0;
  pending_.clear();
  for (const ServerTables::Table& table : worker_.tables().all())
    pending_.push_back(table.part_owners);
  next_.assign(pending_.size(), 0);
}

server::PushOptions StepRequests::push_facts(std::size_t group) const {
  return {.clock = choice_.clock,
          .version = choice_.version,
          .weight = contribution_.samples,
          .rate = contribution_.rates[group]};
}

server::PullOptions StepRequests::pull_facts() const {
  return {.least_version = choice_.read.least_version, .least_clock = choice_.read.least_clock};
}

CodedTable::Step StepRequests::coded_step(const ServerTables::Table& table) const {
  return {.version = choice_.version,
          .clock = choice_.clock,
          .weight = contribution_.samples,
          .rate = contribution_.rates[table.group]};
}

void StepRequests::ready(std::size_t parameter) {
  const ServerTables::Place& place = worker_.tables().places()[parameter];
  const ServerTables::Table& table = worker_.tables().all()[place.table];
  std::vector<std::uint32_t>& pending = pending_[place.table];
  for (std::uint32_t part = place.first_part; part < place.end_part; ++part) --pending[part];
  if (table.is_low_rank()) return;
  const std::uint32_t first = next_[place.table];
  std::uint32_t end = first;
  while (end < table.parts && pending[end] == 0) ++end;
  if (end - first >= kRun || (end == table.parts && end > first))
    push(place.table, first, end - first);
}

void StepRequests::push_rest() {
  for (std::size_t t = 0; t < next_.size(); ++t) {
    const ServerTables::Table& table = worker_.tables().all()[t];
    if (next_[t] < table.parts && !table.is_low_rank()) push(t, next_[t], table.parts - next_[t]);
  }
}

void StepRequests::push(std::size_t t, std::uint32_t first, std::uint32_t count) {
  const ServerTables::Table& table = worker_.tables().all()[t];
  has_pushed_ = true;
  next_[t] = first + count;
  if (table.coded != nullptr) return push_coded(t, first, count);
  const ServerClient::PartRange range{.table = table.id, .first = first, .count = count};
  const auto gradient = table.bytes_of(range, room_->flat[t]);
  if (choice_.one_request) {
    requests_.push_back(worker_.client().push_pull(range, push_facts(table.group), pull_facts(),
                                                   gradient, table.bytes_of(range, table.next)));
  } else {
    room_->pushes.push_back(worker_.client().push(range, push_facts(table.group), gradient));
  }
}

void StepRequests::push_coded(std::size_t t, std::uint32_t first, std::uint32_t count) {
  const ServerTables::Table& table = worker_.tables().all()[t];
  const server::PushOptions facts = push_facts(table.group);
  ServerClient& client = worker_.client();
  for (std::uint32_t begin = first; begin < first + count; begin += kRun) {
    const ServerClient::PartRange range{
        .table = table.id, .first = begin, .count = std::min(kRun, first + count - begin)};
    {
      const Stopwatch watch(worker_.figures.copying);
      for (std::uint32_t part = begin; part < begin + range.count; ++part)
        table.coded->encode(part, elements_of<float>(room_->flat[t]), coded_step(table),
                            room_->messages[t][part]);
    }
    const auto messages = spans_of(room_->messages[t], range);
    const auto values = table.bytes_of(range, table.next);
    if (table.coded->in_step()) {
      const server::Ticket ticket =
          client.push_average(range, facts, pull_facts(), messages, values,
                              table.coded->averages(range.first, range.count));
      asked_.push_back({.ticket = ticket, .table = t, .range = range});
    } else if (choice_.one_request) {
      requests_.push_back(client.push_pull_encoded(range, facts, pull_facts(), messages, values));
    } else {
      room_->pushes.push_back(client.push_encoded(range, facts, messages));
    }
  }
}

void StepRequests::push_rows() {
  const auto& tables = worker_.tables().sparse();
  for (std::size_t i = 0; i < tables.size(); ++i)
    room_->pushes.push_back(worker_.client().push_rows(
        tables[i], push_facts(0), room_->rows[i].keys, room_->rows[i].gradient));
}

Result<void> StepRequests::push_low_rank() {
  TALLY_TRY(const auto total, mean_gradients(worker_, *room_, contribution_.samples));
  if (!total) return {};
  total_weight_ = *total;
  has_pushed_ = true;
  for (std::size_t t = 0; t < next_.size(); ++t) {
    const ServerTables::Table& table = worker_.tables().all()[t];
    if (!table.is_low_rank()) continue;
    server::PushOptions facts = push_facts(table.group);
    facts.weight = total_weight_;
    const server::Ticket ticket = worker_.client().push_encoded(
        table.all(), facts, spans_of(room_->messages[t], table.all()));
    asked_.push_back({.ticket = ticket, .table = t, .range = table.all()});
    next_[t] = table.parts;
  }
  return {};
}

void StepRequests::pull(bool with_push) {
  if (!with_push) worker_.pull_values(pull_facts(), requests_);
  worker_.await_rows(pull_facts(), requests_);
}

Result<Reading> StepRequests::await() {
  Reading reading;
  while (!requests_.empty()) {
    const server::Ticket request = requests_.front();
    requests_.erase(requests_.begin());
    TALLY_TRY(const server::Completion completion, worker_.wait(request));
    rooms_.note(*room_, completion);
    reading.take(completion);
  }
  while (!asked_.empty()) {
    Asked asked = asked_.front();
    asked_.erase(asked_.begin());
    TALLY_TRY(follow(asked, reading));
    answered_.push_back(asked);
  }
  return reading;
}

Result<void> StepRequests::follow(Asked& asked, Reading& reading) {
  const ServerTables::Table& table = worker_.tables().all()[asked.table];
  TALLY_TRY(const server::Completion completion, worker_.wait(asked.ticket));
  rooms_.note(*room_, completion);
  if (table.is_low_rank()) return follow_low_rank(asked, completion, reading);
  reading.take(completion);
  const Stopwatch watch(worker_.figures.copying);
  return table.coded->follow(worker_.client(), asked.range.first, asked.range.count,
                             elements_of<float>(table.next), coded_step(table));
}

// The answer has no values: the worker has the mean, unless servers have applied another one.
Result<void> StepRequests::follow_low_rank(Asked& asked, const server::Completion& completion,
                                           Reading& reading) {
  const ServerTables::Table& table = worker_.tables().all()[asked.table];
  asked.has_values = completion.dropped > 0 || completion.version != choice_.version + 1;
  if (!asked.has_values) {
    reading.take(completion);
    return {};
  }
  TALLY_TRY(const server::Completion pulled,
            worker_.wait(worker_.client().pull(table.all(), pull_facts(), table.next)));
  reading.take(pulled);
  return table.coded->read_state(worker_.client());
}

void StepRequests::apply() {
  const Stopwatch watch(worker_.figures.copying);
  for (const Asked& asked : std::exchange(answered_, {})) {
    const ServerTables::Table& table = worker_.tables().all()[asked.table];
    const std::span<const float> present = elements_of<float>(table.values);
    const std::span<float> next = elements_of<float>(table.next);
    if (!table.is_low_rank()) {
      table.coded->apply(asked.range.first, asked.range.count, present, next, coded_step(table));
    } else if (!asked.has_values && total_weight_ > 0) {
      table.coded->apply_mean(elements_of<float>(room_->flat[asked.table]), present, next,
                              coded_step(table));
    } else if (!asked.has_values) {
      std::copy(present.begin(), present.end(), next.begin());
    }
  }
}

void StepRequests::give_up() {
  for (const server::Ticket request : std::exchange(requests_, {}))
    worker_.client().abandon(request);
  for (const Asked& asked : std::exchange(asked_, {})) worker_.client().abandon(asked.ticket);
  answered_.clear();
  worker_.tables().discard();
}

}  // namespace tally::exchange
