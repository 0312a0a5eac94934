#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "exchange/lane/codec_groups.h"
#include "exchange/server/server_exchange.h"
#include "optimizer/update_rule.h"
#include "plan/plan.h"
#include "sim/exchange_step.h"
#include "sim/server_client.h"
#include "sim/server_cluster.h"

// Runs of the exchange of a trainer with home=server in virtual time: the model, one worker's
// steps, and what it has at its end.
namespace tally::sim {

using exchange::ParameterInfo;
using exchange::ServerExchange;

constexpr std::uint64_t kSteps = 10;
constexpr double kStepRate = 0.05;

struct ServerExchangeCase {
  std::string name;
  std::string plan;
  bool has_rounds = true;
  OptimizerSpec optimizer = sgd({.rate = kStepRate});
  std::optional<double> clip_norm = {};
};

// The second parameter is cut into three parts, unless the model is small; the last has a table of
// its own.
constexpr std::size_t kParameters = 3;
inline std::vector<ParameterInfo> model(bool is_small) {
  const std::int64_t rows = is_small ? 3 : 300;
  return {{.name = "bias", .shape = {30}},
          {.name = "weight", .shape = {rows, 500}},
          {.name = "scale", .type = DataType::kFloat64, .shape = {7}}};
}

using Values = std::vector<std::vector<std::byte>>;  // by parameter

// One worker of a run, after it.
struct Trained {
  std::unique_ptr<ServerExchange> exchange;  // requests may use its memory until the run ends
  SimServerClient::Memory memory;
  std::size_t foreign_finishes = 0;
  std::uint64_t steps = 0;
  Values own;     // after the last step
  Values values;  // of the servers
};

struct ServerRun {
  ServerExchangeCase plan;
  int workers = 2;
  std::uint64_t seed = 1;
  std::uint64_t steps = kSteps;
  bool is_small = false;  // the model
};

inline Values values_of(const ServerExchange& exchange) {
  Values values;
  for (std::size_t p = 0; p < kParameters; ++p)
    values.emplace_back(exchange.values(p).begin(), exchange.values(p).end());
  return values;
}

// A gradient that depends on the values, so that a wrong value does not go away.
inline void write_gradient(ServerExchange& exchange, std::size_t parameter, Rng& rng) {
  const exchange::RealSpan gradient{.type = exchange.type(parameter),
                                    .bytes = exchange.gradient(parameter)};
  const exchange::RealSpan values{.type = gradient.type, .bytes = exchange.values(parameter)};
  const std::uint64_t salt = rng.next();
  gradient.visit([&]<typename T>(std::span<T> out) {
    const std::span<const T> at = exchange::elements_of<T>(values.bytes);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = at[i] / 8 + static_cast<T>((salt >> (i % 48)) & 0xff) / 256 - T{0.5};
  });
}

inline Result<void> make_step(ServerExchange& exchange, ServedWorker& me, std::size_t groups,
                              Rng& rng) {
  TALLY_TRY(const exchange::StepChoice choice, exchange.begin());
  const Values before = values_of(exchange);
  exchange::StepContribution own{.rates = std::vector<double>(groups, kStepRate)};
  if (choice.computes) own.samples = own.weight = 1 + me.rank();
  TALLY_TRY(compute_gradients(exchange,
                              {.rng = rng,
                               .compute = [&me](Duration duration) { return me.sleep(duration); },
                               .before = std::chrono::microseconds(rng.below(3000)),
                               .between = std::chrono::microseconds(300),
                               .order = {2, 1, 0},
                               .write_gradient = [&](std::size_t p) -> const std::byte* {
                                 write_gradient(exchange, p, rng);
                                 return nullptr;
                               }},
                              own));
  EXPECT_TRUE(values_of(exchange) == before) << "values changed before complete()";
  TALLY_TRY(exchange.complete(own));
  return {};
}

// Returns the number of parameter groups.
inline Result<std::size_t> make_exchange(ServedWorker& me, const ServerRun& run, Trained& trained) {
  TALLY_TRY(me.sleep_until(std::chrono::milliseconds(100),
                           [&] { return me.node().membership().workers == run.workers; }));
  TALLY_TRY(const plan::Plan plan, plan::parse_plan(run.plan.plan, {.home = plan::Home::kServer}));
  TALLY_TRY(const policy::Rules rules, policy::rules_of(plan, run.workers, 1));
  std::vector<ParameterInfo> parameters = model(run.is_small);
  TALLY_TRY(const exchange::CodecGroups groups,
            exchange::split_groups(plan.codec, {run.plan.optimizer}, parameters));
  const bool measured = run.plan.clip_norm || optimizer::is_layerwise(run.plan.optimizer);
  TALLY_TRY(trained.exchange,
            ServerExchange::make(
                std::make_unique<SimServerClient>(me, trained.memory, trained.foreign_finishes),
                {.tables = {.parameters = parameters,
                            .optimizers = groups.optimizers,
                            .rules = rules,
                            .plan = plan::to_string(plan),
                            .codec = plan.codec,
                            .senders = groups.senders,
                            .rank = me.rank(),
                            .measured = measured},
                 .step = {.clip = {.value = {}, .norm = run.plan.clip_norm}},
                 .initial = [](std::size_t p, const exchange::RealSpan& values) {
                   values.visit([p]<typename T>(std::span<T> all) {
                     for (std::size_t i = 0; i < all.size(); ++i)
                       all[i] = static_cast<T>((i * 7 + p) % 11) / 11;
                   });
                 }}));
  return groups.optimizers.size();
}

inline Result<void> train(ServedWorker& me, const ServerRun& run, Trained& trained) {
  TALLY_TRY(const std::size_t groups, make_exchange(me, run, trained));
  ServerExchange& exchange = *trained.exchange;
  Rng rng(run.seed * 1000 + static_cast<std::uint64_t>(me.rank()));
  while (exchange.steps() < run.steps) TALLY_TRY(make_step(exchange, me, groups, rng));
  trained.own = values_of(exchange);
  std::vector<double> present = {1};
  TALLY_TRY(exchange.meetings().meet(present));
  EXPECT_GE(present[0], 1);
  EXPECT_LE(present[0], run.workers);
  trained.steps = exchange.steps();
  trained.values = values_of(exchange);
  return {};
}

}  // namespace tally::sim
