#include "sim/server_training.h"

#include <cmath>

#include "base/rng.h"

namespace tally::sim {
namespace {

struct Sample {
  std::vector<double> features;
  double target = 0;
};

Sample sample(std::uint64_t index) {
  Sample drawn;
  Rng rng(1000 + index * 7919);
  for (std::size_t i = 0; i < kWeights; ++i) {
    drawn.features.push_back(rng.uniform() * 2 - 1);
    drawn.target += drawn.features.back() * (static_cast<double>(i) - 7.5) / 8;
  }
  return drawn;
}

double error_of(const Weights& at, const Sample& of) {
  double error = -of.target;
  for (std::size_t i = 0; i < kWeights; ++i) error += static_cast<double>(at[i]) * of.features[i];
  return error;
}

std::span<std::byte> bytes_of(std::span<float> values) { return std::as_writable_bytes(values); }

}  // namespace

Weights gradient_of(const Weights& at, std::uint64_t first, std::uint64_t count) {
  std::vector<double> sum(kWeights);
  for (std::uint64_t i = first; i < first + count; ++i) {
    const Sample drawn = sample(i);
    const double error = error_of(at, drawn);
    for (std::size_t k = 0; k < kWeights; ++k) sum[k] += error * drawn.features[k];
  }
  Weights gradient(kWeights);
  for (std::size_t k = 0; k < kWeights; ++k)
    gradient[k] = static_cast<float>(sum[k] / static_cast<double>(count));
  return gradient;
}

double loss_of(const Weights& at, std::uint64_t samples) {
  double sum = 0;
  for (std::uint64_t i = 0; i < samples; ++i) sum += std::pow(error_of(at, sample(i)), 2) / 2;
  return sum / static_cast<double>(samples);
}

Weights train_alone(const TrainingOptions& options) {
  Weights weights(kWeights);
  const std::uint64_t joined = options.batch * static_cast<std::uint64_t>(options.workers);
  for (int step = 0; step < options.steps; ++step) {
    const Weights gradient =
        gradient_of(weights, static_cast<std::uint64_t>(step) * joined, joined);
    for (std::size_t i = 0; i < kWeights; ++i)
      weights[i] -= static_cast<float>(options.rate) * gradient[i];
  }
  return weights;
}

Result<void> Training::define(const std::string& name, std::size_t first, std::size_t count,
                              bool sparse) {
  server::TableSpec spec{.name = name,
                         .kind = sparse ? server::TableKind::kSparse : server::TableKind::kDense,
                         .count = sparse ? 0 : count,
                         .dimension = sparse ? 2U : 0U,
                         .plan = options_.plan,
                         .workers = options_.workers};
  Table table{.first = first, .count = count, .accumulated = std::vector<float>(count)};
  if (sparse) {
    for (std::size_t key = 0; key < count / 2; ++key) table.keys.push_back(key * 1'000'003);
  }
  TALLY_TRY(table.id, me_.define(spec));
  tables_.push_back(std::move(table));
  return {};
}

Result<void> Training::begin() {
  TALLY_TRY(const plan::Plan plan, plan::parse_plan(options_.plan, {.home = plan::Home::kServer}));
  TALLY_TRY(rules_, policy::rules_of(plan, options_.workers, 1));
  if (options_.one_table) {
    TALLY_TRY(define("all", 0, kWeights, false));
  } else {
    TALLY_TRY(define("first", 0, 5, false));
    TALLY_TRY(define("second", 5, 3, false));
    TALLY_TRY(define("rows", 8, 8, true));
  }
  for (Table& table : tables_) {
    TALLY_TRY(const server::Completion answer, me_.wait(pull(table, {})));
    table.clock = policy::join(rules_, me_.rank(), read_of(table, answer));
  }
  if (options_.begin_together) TALLY_TRY(me_.agree({}));
  return {};
}

policy::Read Training::read_of(const Table& table, const server::Completion& answer) const {
  return {.version = answer.version,
          .clock = answer.clock,
          .newest_version = me_.node().newest_version(table.id)};
}

server::Ticket Training::pull(const Table& table, const policy::ReadRule& rule) {
  const server::PullOptions facts{.least_version = rule.least_version,
                                  .least_clock = rule.least_clock};
  if (!table.keys.empty()) return me_.node().pull(table.id, facts, table.keys, values(table));
  return me_.node().pull({table.id, 0, 1}, facts, bytes_of(values(table)));
}

server::Ticket Training::push(const Table& table, const server::PushOptions& facts,
                              std::span<const float> gradient) {
  if (!table.keys.empty()) return me_.node().push(table.id, facts, table.keys, gradient);
  return me_.node().push({table.id, 0, 1}, facts, std::as_bytes(gradient));
}

server::Ticket Training::push_pull(const Table& table, const server::PushOptions& facts,
                                   const policy::ReadRule& rule, std::span<const float> gradient) {
  const server::PullOptions pull{.least_version = rule.least_version,
                                 .least_clock = rule.least_clock};
  if (!table.keys.empty())
    return me_.node().push_pull(table.id, facts, pull, table.keys, gradient, values(table));
  return me_.node().push_pull({table.id, 0, 1}, facts, pull, std::as_bytes(gradient),
                              bytes_of(values(table)));
}

// False if the gradient would arrive too late.
Result<bool> Training::compute() {
  const auto too_late = [&] {
    for (const Table& table : tables_) {
      if (policy::is_too_late(rules_, table.clock, me_.node().newest_version(table.id), false))
        return true;
    }
    return false;
  };
  if (options_.compute) {
    const Duration time = options_.compute(me_.rank(), static_cast<int>(clock()));
    TALLY_TRY(me_.sleep_until(me_.now() + time, too_late));
  }
  return !too_late();
}

// Pushes that need not be waited for: those that are done.
Result<void> Training::reap() {
  for (auto push = pending_.begin(); push != pending_.end();) {
    if (push->ticket != 0 && !me_.node().done(push->ticket)) {
      ++push;
      continue;
    }
    if (push->ticket != 0) {
      TALLY_TRY(const server::Completion answer, me_.node().take(push->ticket));
      dropped_ += answer.dropped > 0 ? 1 : 0;
    }
    push = pending_.erase(push);
  }
  return {};
}

// The requests of one table in a step. Returns after the pushes that the step waits for.
Result<Training::Asked> Training::ask(Table& table, const Weights& gradient, bool in_time,
                                      bool is_last) {
  Asked asked{.choice = policy::next_step(rules_, table.clock, is_last)};
  const policy::StepChoice& choice = asked.choice;
  const bool pushes = choice.push && in_time;
  for (std::size_t i = 0; i < table.count && choice.takes_part; ++i) {
    const float part = gradient[table.first + i];
    table.accumulated[i] += part;
    if (choice.apply_locally)
      weights_[table.first + i] -=
          static_cast<float>(options_.rate *
                             policy::rate_factor(rules_, 1.0 / options_.workers, 0)) *
          part;
  }
  const server::PushOptions facts{.clock = choice.clock,
                                  .version = choice.version,
                                  .weight = static_cast<double>(options_.batch),
                                  .rate = options_.rate};
  if (pushes) {
    pending_.push_back({.gradient = table.accumulated});
    if (options_.on_push) options_.on_push(me_.rank(), choice.clock);
  }
  if (pushes && choice.one_request) {
    asked.pull = push_pull(table, facts, choice.read, pending_.back().gradient);
    return asked;
  }
  if (pushes) pending_.back().ticket = push(table, facts, pending_.back().gradient);
  if (choice.pull) asked.pull = pull(table, choice.read);
  if (pushes && choice.wait_for_push) TALLY_TRY(me_.await(pending_.back().ticket));
  return asked;
}

Result<void> Training::step(bool is_last) {
  const std::uint64_t joined = options_.batch * static_cast<std::uint64_t>(options_.workers);
  const std::uint64_t first =
      clock() * joined + static_cast<std::uint64_t>(me_.rank()) * options_.batch;
  bool in_time = true;
  if (policy::takes_part(rules_, me_.rank(), version())) {
    TALLY_TRY(in_time, compute());
  }
  const Weights gradient = gradient_of(weights_, first, options_.batch);
  std::vector<Asked> asked;
  for (Table& table : tables_) {
    TALLY_TRY(Asked one, ask(table, gradient, in_time, is_last));
    asked.push_back(one);
  }
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    policy::Read read;
    if (asked[i].pull) {
      TALLY_TRY(const server::Completion answer, me_.wait(*asked[i].pull));
      dropped_ += answer.dropped > 0 ? 1 : 0;
      read = read_of(tables_[i], answer);
    }
    tables_[i].clock = policy::after_step(rules_, tables_[i].clock, asked[i].choice, read);
    if (asked[i].choice.push) tables_[i].accumulated.assign(tables_[i].count, 0);
  }
  TALLY_TRY(reap());
  if (options_.on_step) options_.on_step(me_.rank(), clock());
  return {};
}

Result<void> Training::run() {
  TALLY_TRY(begin());
  while (clock() < static_cast<std::uint64_t>(options_.steps))
    TALLY_TRY(step(clock() + 1 == static_cast<std::uint64_t>(options_.steps)));
  return {};
}

}  // namespace tally::sim
