// The part of ServerExchange for tables whose gradients are encoded.
//
// Most codecs: push_coded() encodes kRun parts at a time and pushes them. In step, the answer has
// the encoded averages, which follow() applies to the own copy. Otherwise the answer has values.
//
// powersgd: make_means() sums both factors over all workers, so that every worker knows the mean
// gradient. push_low_rank() pushes the factors and applies the mean to the own copy.
#include <algorithm>
#include <utility>

#include "adapters/torch/server_exchange.h"
#include "base/stopwatch.h"

namespace tally::adapter {
namespace {

// Parts that are encoded before they are sent: a quarter of a mebibyte each.
constexpr std::uint32_t kRun = 4;

std::span<float> floats_of(const at::Tensor& flat) {
  return {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
}

std::vector<std::span<const std::byte>> spans_of(const CodedTable::Messages& messages,
                                                 std::uint32_t first, std::uint32_t count) {
  return {messages.begin() + first, messages.begin() + first + count};
}

// Removes the next `count` values from `rest`, and returns them.
std::span<double> next_of(std::span<double>& rest, std::size_t count) {
  const std::span<double> next = rest.first(count);
  rest = rest.subspan(count);
  return next;
}

}  // namespace

void ServerExchange::make_coded() {
  const bool in_step = options_.rules.update == plan::Update::kBsp;
  for (const Table& table : tables_.tables()) {
    coded_.emplace_back();
    if (!table.is_coded) continue;
    const std::size_t p = table.parameters.front();
    codec::SenderFacts sender;
    if (table.group < options_.senders.size()) sender = options_.senders[table.group];
    sender.ranks = ranks_;
    coded_.back() = std::make_unique<CodedTable>(
        CodedTable::Options{.parameter = p,
                            .spec = options_.codec,
                            .shape = options_.infos[p].shape,
                            .sender = sender,
                            .seed = options_.seed,
                            .first_element = exchange::first_element_of(options_.infos, p),
                            .rank = rank_,
                            .in_step = in_step,
                            .copy = {.table = table.id,
                                     .optimizer = options_.optimizers[table.group],
                                     .part_elements = table.part_elements,
                                     .values = floats_of(table.values),
                                     .keeps_state = in_step}});
  }
}

CodedTable::Step ServerExchange::coded_step(std::size_t t) const {
  const server::PushOptions facts = push_facts(t);
  return {
      .version = facts.version, .clock = facts.clock, .weight = facts.weight, .rate = *facts.rate};
}

void ServerExchange::push_coded(std::size_t t, std::uint32_t first, std::uint32_t count) {
  const Table& table = tables_.tables()[t];
  CodedTable& coded = *coded_[t];
  ServerTables::Gradients& room = gradients();
  const server::PullOptions pull{.least_version = choice_.read.least_version,
                                 .least_clock = choice_.read.least_clock};
  has_begun_ = true;
  next_[t] = first + count;
  for (std::uint32_t begin = first; begin < first + count; begin += kRun) {
    const server::Client::PartRange range{
        .table = table.id, .first = begin, .count = std::min(kRun, first + count - begin)};
    {
      const Stopwatch watch(copying_);
      for (std::uint32_t part = begin; part < begin + range.count; ++part)
        coded.encode(part, floats_of(room.flat[t]), coded_step(t), room.messages[t][part]);
    }
    const auto messages = spans_of(room.messages[t], begin, range.count);
    const auto values = ServerTables::bytes_of(table, table.values, begin, range.count);
    if (coded.in_step()) {
      const server::Ticket ticket = client().push_average(
          range, push_facts(t), pull, messages, values, coded.averages(begin, range.count));
      asked_.push_back({.ticket = ticket, .table = t, .first = begin, .count = range.count});
    } else if (choice_.one_request) {
      requests_.push_back(client().push_pull_encoded(range, push_facts(t), pull, messages, values));
    } else {
      room.pushes.push_back(client().push_encoded(range, push_facts(t), messages));
    }
  }
}

// Waits for averages and applies them to the own copy.
void ServerExchange::follow(Reading& reading) {
  for (const Asked& asked : asked_) {
    const server::Completion completion = wait(asked.ticket);
    note(completion);
    reading.take(completion);
    const Stopwatch watch(copying_);
    or_throw(
        coded_[asked.table]->follow(client(), asked.first, asked.count, coded_step(asked.table)));
  }
  asked_.clear();
}

void ServerExchange::read_own_state() {
  for (const auto& coded : coded_)
    if (coded != nullptr && coded->in_step()) or_throw(coded->read_state(client()));
}

// powersgd: all workers have the factors of the mean before the push, so the answer needs no
// values. Servers use the factors of the first worker's push.
void ServerExchange::push_low_rank(Reading& reading) {
  std::vector<std::size_t> tables;
  for (std::size_t t = 0; t < coded_.size(); ++t)
    if (is_low_rank(t)) tables.push_back(t);
  if (tables.empty()) return;
  make_means(tables);
  has_begun_ = true;
  ServerTables::Gradients& room = gradients();
  for (const std::size_t t : tables) {
    const Table& table = tables_.tables()[t];
    server::PushOptions facts = push_facts(t);
    facts.weight = total_weight_;
    const server::Ticket ticket =
        client().push_encoded({.table = table.id, .first = 0, .count = table.parts}, facts,
                              spans_of(room.messages[t], 0, table.parts));
    factors_.push_back({.ticket = ticket, .table = t, .first = 0, .count = table.parts});
    next_[t] = table.parts;
  }
  for (const Asked& asked : factors_) {
    const server::Completion completion = wait(asked.ticket);
    note(completion);
    const Table& table = tables_.tables()[asked.table];
    CodedTable& coded = *coded_[asked.table];
    const bool follows = completion.dropped == 0 && completion.version == choice_.version + 1;
    if (follows) {
      reading.take(completion);
      if (total_weight_ > 0) coded.move(floats_of(room.flat[asked.table]), coded_step(asked.table));
      continue;
    }
    reading.take(wait(client().pull(
        {.table = table.id, .first = 0, .count = table.parts},
        {.least_version = choice_.read.least_version, .least_clock = choice_.read.least_clock},
        ServerTables::bytes_of(table, table.values, 0, table.parts))));
    or_throw(coded.read_state(client()));
  }
  factors_.clear();
}

// Replaces gradients by means over all workers, and encodes the means as messages.
void ServerExchange::make_means(const std::vector<std::size_t>& tables) {
  ServerTables::Gradients& room = gradients();
  const double weight = gift_.contribution.samples;
  std::size_t left_count = 0, right_count = 0;
  for (const std::size_t t : tables) {
    left_count += coded_[t]->matrix().p_count();
    right_count += coded_[t]->matrix().q_count();
  }
  std::vector<double> left(left_count + 1), right(right_count);
  left.back() = weight;
  std::span<double> rest = left;
  for (const std::size_t t : tables)
    coded_[t]->project(floats_of(room.flat[t]), weight,
                       next_of(rest, coded_[t]->matrix().p_count()));
  left = sum(std::move(left));
  total_weight_ = left.back();
  if (total_weight_ > 0) {
    rest = left;
    std::span<double> rest_of_right = right;
    for (const std::size_t t : tables)
      coded_[t]->correlate(next_of(rest, coded_[t]->matrix().p_count()), total_weight_, weight,
                           next_of(rest_of_right, coded_[t]->matrix().q_count()));
    right = sum(std::move(right));
  }
  rest = right;
  for (const std::size_t t : tables) {
    if (total_weight_ > 0) {
      coded_[t]->finish(next_of(rest, coded_[t]->matrix().q_count()), total_weight_, weight,
                        floats_of(room.flat[t]), room.messages[t]);
    } else {
      for (std::vector<std::byte>& message : room.messages[t]) message.clear();
    }
  }
}

}  // namespace tally::adapter
