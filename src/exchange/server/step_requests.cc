#include "exchange/server/step_requests.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/stopwatch.h"
#include "codec/encoder/encoder.h"
#include "exchange/low_rank_round.h"

namespace tally::exchange {
namespace {

// Parts that are pushed or encoded together: a quarter of a mebibyte each.
constexpr std::uint32_t kRun = 4;

std::vector<std::span<const std::byte>> spans_of(const CodedTable::Messages& messages,
                                                 const ServerClient::PartRange& range) {
  return {messages.begin() + range.first, messages.begin() + range.first + range.count};
}

// powersgd: replaces the gradients of all tables with this codec by low-rank means over all
// workers, and encodes the means as messages. Returns the total weight, at 0 without means; none if
// there is no such table. Collective.
Result<std::optional<double>> mean_gradients(ServerWorker& worker, GradientRoom& room,
                                             double weight) {
  std::vector<std::size_t> tables;
  std::vector<LowRankRound<double>::Item> items;
  for (std::size_t t = 0; t < room.flat.size(); ++t) {
    const ServerTables::Table& table = worker.tables().all()[t];
    if (!table.is_low_rank()) continue;
    tables.push_back(t);
    items.push_back(
        {.matrix = &table.coded->matrix(), .gradient = elements_of<float>(room.flat[t])});
  }
  if (tables.empty()) return std::optional<double>();
  LowRankRound<double> round;
  round.project(std::move(items),
                {.weight = weight, .feedback = worker.tables().options().codec.feedback});
  Result<void> summed = worker.sum(round.left());
  const double total = round.total();
  if (summed.has_value() && total > 0) {
    round.correlate();
    summed = worker.sum(round.right());
    if (summed.has_value()) round.finish();
  }
  // A worker may go on after an error, from a checkpoint.
  if (!summed.has_value()) {
    round.give_up();
    return std::move(summed).error();
  }
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const ServerTables::Table& table = worker.tables().all()[tables[i]];
    CodedTable::Messages& messages = room.messages[tables[i]];
    for (std::vector<std::byte>& message : messages) message.clear();
    if (total > 0)
      table.coded->encode_factors(round.left_factor(i), round.right_factor(i), messages);
  }
  return std::optional(total);
}

}  // namespace

void StepRequests::begin(const policy::StepChoice& choice, GradientRoom& room) {
  choice_ = choice;
  room_ = &room;
  has_pushed_ = false;
  total_weight_ = 0;
  pending_.clear();
  for (const ServerTables::Table& table : worker_.tables().all())
    pending_.push_back(table.part_owners);
  next_.assign(pending_.size(), 0);
  codec_step_ = present_codec_step();
  room_->is_plain = codec::is_plain_at(worker_.tables().options().codec, codec_step_);
}

// The steps before this one, as codecs count them. In step they are versions, by which servers
// count as well. Otherwise versions are gradients of all workers, and would end a warm-up early.
std::uint64_t StepRequests::present_codec_step() const {
  const bool in_step = worker_.rules().update == plan::Update::kBsp;
  return in_step ? choice_.version : worker_.steps();
}

bool StepRequests::sends_factors(const ServerTables::Table& table) const {
  return table.is_low_rank() && !room_->is_plain;
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

void StepRequests::ready(std::size_t parameter) {
  const ServerTables::Place& place = worker_.tables().places()[parameter];
  const ServerTables::Table& table = worker_.tables().all()[place.table];
  std::vector<std::uint32_t>& pending = pending_[place.table];
  for (std::uint32_t part = place.first_part; part < place.end_part; ++part) --pending[part];
  if (sends_factors(table)) return;
  const std::uint32_t first = next_[place.table];
  std::uint32_t end = first;
  while (end < table.parts && pending[end] == 0) ++end;
  if (end - first >= kRun || (end == table.parts && end > first))
    push(place.table, first, end - first);
}

void StepRequests::push_rest() {
  for (std::size_t t = 0; t < next_.size(); ++t) {
    const ServerTables::Table& table = worker_.tables().all()[t];
    if (next_[t] < table.parts && !sends_factors(table)) push(t, next_[t], table.parts - next_[t]);
  }
}

void StepRequests::push(std::size_t t, std::uint32_t first, std::uint32_t count) {
  const ServerTables::Table& table = worker_.tables().all()[t];
  has_pushed_ = true;
  next_[t] = first + count;
  if (table.coded == nullptr) {
    const ServerClient::PartRange range{.table = table.id, .first = first, .count = count};
    return send(t, {.range = range, .gradient = table.bytes_of(range, room_->flat[t])});
  }
  for (std::uint32_t begin = first; begin < first + count; begin += kRun) {
    const ServerClient::PartRange range{
        .table = table.id, .first = begin, .count = std::min(kRun, first + count - begin)};
    {
      const Stopwatch watch(worker_.figures.copying);
      for (std::uint32_t part = begin; part < begin + range.count; ++part)
        table.coded->encode(part, elements_of<float>(room_->flat[t]), push_facts(table.group),
                            codec_step_, room_->messages[t][part]);
    }
    const auto messages = spans_of(room_->messages[t], range);
    send(t, {.range = range, .messages = messages});
  }
}

// `request` has the gradient.
void StepRequests::send(std::size_t t, ServerClient::Request request) {
  const ServerTables::Table& table = worker_.tables().all()[t];
  request.push = push_facts(table.group);
  if (table.coded != nullptr && room_->is_plain)
    request.push->kind = server::PushKind::kPlainGradient;
  if (!choice_.one_request) {
    room_->pushes.push_back({.ticket = worker_.client().send(request), .table = t});
    return;
  }
  request.pull = pull_facts();
  request.values = table.bytes_of(request.range, table.next);
  if (table.coded != nullptr && table.coded->in_step()) {
    request.averages = table.coded->averages(request.range.first, request.range.count);
    asked_.push_back(
        {.push = {.ticket = worker_.client().send(request), .table = t}, .range = request.range});
  } else {
    requests_.push_back({.ticket = worker_.client().send(request), .table = t});
  }
}

void StepRequests::push_rows() {
  const auto& tables = worker_.tables().sparse();
  for (std::size_t i = 0; i < tables.size(); ++i)
    room_->pushes.push_back(
        {.ticket = worker_.client().push_rows(tables[i], push_facts(0), room_->rows[i].keys,
                                              room_->rows[i].gradient)});
}

Result<void> StepRequests::push_low_rank() {
  if (room_->is_plain) return {};
  TALLY_TRY(const auto total, mean_gradients(worker_, *room_, contribution_.samples));
  if (!total) return {};
  total_weight_ = *total;
  has_pushed_ = true;
  for (std::size_t t = 0; t < next_.size(); ++t) {
    const ServerTables::Table& table = worker_.tables().all()[t];
    if (!table.is_low_rank()) continue;
    server::PushOptions facts = push_facts(table.group);
    facts.weight = total_weight_;
    const auto messages = spans_of(room_->messages[t], table.all());
    const server::Ticket ticket =
        worker_.client().send({.range = table.all(), .push = facts, .messages = messages});
    asked_.push_back({.push = {.ticket = ticket, .table = t}, .range = table.all()});
    next_[t] = table.parts;
  }
  return {};
}

void StepRequests::pull(bool with_push) {
  std::vector<server::Ticket> tickets;
  if (!with_push) worker_.pull_values(pull_facts(), tickets);
  worker_.await_rows(pull_facts(), tickets);
  for (const server::Ticket ticket : tickets) requests_.push_back({.ticket = ticket});
}

Result<Reading> StepRequests::await() {
  Reading reading;
  while (!requests_.empty()) {
    const Push request = requests_.front();
    requests_.erase(requests_.begin());
    TALLY_TRY(const server::Completion completion, worker_.wait(request.ticket));
    rooms_.note(*room_, request, completion);
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
  const ServerTables::Table& table = worker_.tables().all()[*asked.push.table];
  TALLY_TRY(const server::Completion completion, worker_.wait(asked.push.ticket));
  rooms_.note(*room_, asked.push, completion);
  if (sends_factors(table)) return follow_low_rank(asked, completion, reading);
  reading.take(completion);
  const Stopwatch watch(worker_.figures.copying);
  return table.coded->follow(worker_.client(), asked.range.first, asked.range.count,
                             elements_of<float>(table.next), push_facts(table.group));
}

// The answer has no values: the worker has the mean, unless servers have applied another one.
Result<void> StepRequests::follow_low_rank(Asked& asked, const server::Completion& completion,
                                           Reading& reading) {
  const ServerTables::Table& table = worker_.tables().all()[*asked.push.table];
  asked.has_values = completion.dropped > 0 || completion.version != choice_.version + 1;
  if (!asked.has_values) {
    reading.take(completion);
    return {};
  }
  TALLY_TRY(const server::Completion pulled,
            worker_.wait(worker_.client().send(
                {.range = table.all(), .pull = pull_facts(), .values = table.next})));
  reading.take(pulled);
  return table.coded->read_state(worker_.client());
}

void StepRequests::apply(std::span<const RoundNorms::PartFinishes> finishes) {
  const Stopwatch watch(worker_.figures.copying);
  for (const Asked& asked : std::exchange(answered_, {})) {
    const std::size_t t = *asked.push.table;
    const ServerTables::Table& table = worker_.tables().all()[t];
    const std::span<const ServerClient::FinishOptions> finish =
        finishes.empty() ? std::span<const ServerClient::FinishOptions>() : finishes[t];
    const std::span<const float> present = elements_of<float>(table.values);
    const std::span<float> next = elements_of<float>(table.next);
    if (!sends_factors(table)) {
      table.coded->apply(asked.range.first, asked.range.count, present, next,
                         push_facts(table.group), finish);
    } else if (!asked.has_values && total_weight_ > 0) {
      table.coded->apply_mean(elements_of<float>(room_->flat[t]), present, next,
                              push_facts(table.group), finish);
    } else if (!asked.has_values) {
      std::copy(present.begin(), present.end(), next.begin());
    }
  }
}

void StepRequests::give_up() {
  for (const Push& request : std::exchange(requests_, {})) worker_.client().abandon(request.ticket);
  for (const Asked& asked : std::exchange(asked_, {})) worker_.client().abandon(asked.push.ticket);
  answered_.clear();
  worker_.tables().discard();
}

}  // namespace tally::exchange
