#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "server/protocol/message.h"
#include "sim/server_cluster.h"
#include "sim/server_exchange_run.h"

// The exchange of a trainer with home=server and a codec that loses precision.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

// The only compressed parameter of the model, and the only one with several parts.
constexpr std::size_t kWeight = 1;

// The values at the end of a run. They are the same on all workers, bit for bit.
Values train_together(const std::string& plan) {
  const ServerRun run{
      .plan = {.name = "", .plan = plan, .optimizer = sgd({.rate = kStepRate, .momentum = 0.9})},
      .workers = 3,
      .steps = 6};
  ServedCluster cluster({.servers = 2, .workers = run.workers, .conditions = {.jitter = 300us}});
  std::vector<Trained> trained(static_cast<std::size_t>(run.workers));
  const auto results = cluster.run([&](ServedWorker& me) {
    return train(me, run, trained[static_cast<std::size_t>(me.rank())]);
  });
  for (std::size_t rank = 0; rank < trained.size(); ++rank) {
    EXPECT_TRUE(results[rank].has_value()) << plan << ": " << to_string(results[rank].error());
    EXPECT_TRUE(trained[rank].values == trained[0].values) << plan << ", rank " << rank;
  }
  return trained[0].values;
}

// As with bsp, the mean goes back encoded, and random rounding (qsgd) depends on versions.
TEST(SimServerCodedExchanges, PoliciesThatWaitForAllHaveTheBitsOfBsp) {
  const Values plain = train_together("update=bsp");
  for (const std::string codec : {"int8", "topk:0.25", "qsgd"}) {
    const Values bsp = train_together(fmt::format("update=bsp codec={}", codec));
    EXPECT_FALSE(bsp == plain) << codec << " loses nothing";
    for (const std::string update : {"backup:0", "subset:3", "ssp:0"}) {
      const std::string plan = fmt::format("update={} codec={}", update, codec);
      EXPECT_TRUE(train_together(plan) == bsp) << plan;
    }
  }
}

// One worker's pushes of the weight.
struct Pushed {
  std::vector<double> sum;  // of the gradients
  int dropped = 0;          // answers: the server has dropped a part
};

std::vector<double> weight_of(const ServerExchange& exchange) {
  const std::span<const float> weight = exchange::elements_of<float>(exchange.values(kWeight));
  return {weight.begin(), weight.end()};
}

void add(std::span<const float> values, std::span<double> sum) {
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
}

// A step whose gradients are pushed at once, unless the worker knows that it is too late.
Result<void> push_step(ServerExchange& exchange, ServedWorker& me, std::size_t groups, Rng& rng,
                       Pushed& pushed) {
  TALLY_TRY(exchange.begin());
  TALLY_TRY(me.sleep(std::chrono::microseconds(500 + rng.below(500))));
  const exchange::StepContribution own{
      .samples = 2, .weight = 2, .rates = std::vector<double>(groups, kStepRate)};
  TALLY_TRY(const bool is_pushed, exchange.announce(own));
  for (const std::size_t p : {2, 1, 0}) {
    write_gradient(exchange, p, rng);
    if (p == kWeight && is_pushed)
      add(exchange::elements_of<float>(exchange.gradient(p)), pushed.sum);
    TALLY_TRY(exchange.ready(p));
  }
  TALLY_TRY(exchange.complete(own));
  return {};
}

// Applied gradients and residuals of the weight.
struct Accounts {
  std::vector<double> applied;
  std::vector<double> residual;  // of all workers
};

Result<void> train_with_account(ServedWorker& me, const ServerRun& run, Trained& trained,
                                Pushed& pushed, Accounts& accounts) {
  me.transport().on_traffic = [&](server::NodeId, const server::MessageHeader& header, bool sent) {
    if (!sent && header.outcome == server::Outcome::kDropped && header.part > 0) ++pushed.dropped;
  };
  TALLY_TRY(const std::size_t groups, make_exchange(me, run, trained));
  ServerExchange& exchange = *trained.exchange;
  const std::vector<double> initial = weight_of(exchange);
  pushed.sum.assign(initial.size(), 0);
  Rng rng(run.seed * 1000 + static_cast<std::uint64_t>(me.rank()));
  while (exchange.steps() < run.steps) TALLY_TRY(push_step(exchange, me, groups, rng, pushed));
  TALLY_TRY(exchange.meetings().meet({}));
  TALLY_TRY(exchange.checkpoint().states());
  if (me.rank() != 0) return {};
  accounts.applied = weight_of(exchange);
  for (std::size_t i = 0; i < initial.size(); ++i)
    accounts.applied[i] = (initial[i] - accounts.applied[i]) / kStepRate;
  accounts.residual.assign(initial.size(), 0);
  TALLY_TRY(const std::vector<exchange::CodecState> states, exchange.checkpoint().codec_states());
  for (const exchange::CodecState& state : states)
    if (state.parameter == kWeight && state.name.starts_with("residual"))
      add(state.values, std::span(accounts.residual).subspan(state.first));
  return {};
}

// The pushes of worker 1 arrive late at one of the servers for a while, which drops them. With
// plain sgd at the full learning rate, where each update has one gradient, the values and the
// residuals together show every gradient.
TEST(SimServerCodedExchanges, DroppedGradientsReturnToTheResidual) {
  for (const std::string update : {"update=asp:rate=full stale=drop:2",
                                   "update=asp:fetch=2,rate=full stale=drop:2", "update=backup:1"})
    for (const std::string codec : {"int8", "topk:0.25"}) {
      const ServerRun run{.plan = {.name = "", .plan = fmt::format("{} codec={}", update, codec)},
                          .steps = 30};
      SCOPED_TRACE(run.plan.plan);
      ServedCluster cluster({.servers = 2, .workers = run.workers, .replicas = 1});
      cluster.faults().delay({.from = cluster.worker(1),
                              .to = cluster.server(0),
                              .extra = 8ms,
                              .since = 20ms,
                              .until = 40ms});
      std::vector<Trained> trained(2);
      std::vector<Pushed> pushed(2);
      Accounts accounts;
      const auto results = cluster.run([&](ServedWorker& me) {
        const auto rank = static_cast<std::size_t>(me.rank());
        return train_with_account(me, run, trained[rank], pushed[rank], accounts);
      });
      for (const auto& result : results) ASSERT_TRUE(result.has_value());
      EXPECT_GT(pushed[1].dropped, 0);
      double lost = 0;
      for (std::size_t i = 0; i < accounts.applied.size(); ++i)
        lost = std::max(lost, std::abs(pushed[0].sum[i] + pushed[1].sum[i] - accounts.applied[i] -
                                       accounts.residual[i]));
      EXPECT_LT(lost, 1e-3) << pushed[1].dropped << " parts were dropped";
    }
}

}  // namespace
}  // namespace tally::sim
