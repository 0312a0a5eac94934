#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/rng.h"
#include "sim/server_cluster.h"
#include "sim/server_exchange_run.h"

// The exchange of a trainer with home=server on many workers, while workers and servers are lost or
// slow.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

// Trains until an update fails, and counts it. Answers may still arrive after the error.
Result<void> train_until_failure(ServedWorker& me, const ServerRun& run, Trained& trained,
                                 int& failures) {
  TALLY_TRY(const std::size_t groups, make_exchange(me, run, trained));
  ServerExchange& exchange = *trained.exchange;
  Rng rng(run.seed * 1000 + static_cast<std::uint64_t>(me.rank()));
  while (exchange.steps() < 3 * kSteps) {
    const Values before = values_of(exchange);
    const Result<void> made = make_step(exchange, me, groups, rng);
    if (made.has_value()) continue;
    ++failures;
    EXPECT_TRUE(values_of(exchange) == before) << "rank " << me.rank();
    (void)me.sleep(1s);
    EXPECT_TRUE(values_of(exchange) == before) << "rank " << me.rank() << ", later";
    return made;
  }
  return {};
}

// By seed one member is lost or slow, at one of its frames or for a while.
enum class Fault { kNone, kWorkerLost, kServerLost, kWorkerSlow, kServerStopped, kCount };

Fault disturb(ServedCluster& cluster, const ServerRun& run, int servers) {
  Rng rng(run.seed * 77 + 5);
  const auto fault = static_cast<Fault>(run.seed % static_cast<std::uint64_t>(Fault::kCount));
  const Rank worker = cluster.worker(static_cast<int>(rng.below(run.workers)));
  const Rank server = cluster.server(static_cast<int>(rng.below(servers)));
  // Workers of a small model send few frames.
  const std::uint64_t frame = run.is_small ? 12 + rng.below(8) : 20 + rng.below(100);
  const TimePoint from = 10ms + std::chrono::microseconds(rng.below(40000));
  switch (fault) {
    case Fault::kWorkerLost:
      cluster.faults().kill({.rank = worker, .before_frame = frame});
      break;
    case Fault::kServerLost:
      cluster.faults().kill({.rank = server, .before_frame = frame});
      break;
    case Fault::kWorkerSlow:
      cluster.faults().delay(
          {.from = worker, .to = server, .extra = 20ms, .since = from, .until = from + 60ms});
      break;
    case Fault::kServerStopped:
      cluster.faults().stop({.rank = server, .from = from, .until = from + 150ms});
      break;
    default:
      break;
  }
  return fault;
}

class SimServerExchanges : public testing::TestWithParam<ServerExchangeCase> {
 protected:
  void check(const ServerRun& run) {
    SCOPED_TRACE(testing::Message() << run.workers << " workers, seed " << run.seed);
    constexpr int kServers = 3;
    ServedCluster cluster({.servers = kServers,
                           .workers = run.workers,
                           .replicas = 2,
                           .seed = run.seed,
                           .conditions = {.jitter = 300us}});
    const Fault fault = disturb(cluster, run, kServers);
    std::vector<Trained> trained(static_cast<std::size_t>(run.workers));
    const auto results = cluster.run([&](ServedWorker& me) {
      return train(me, run, trained[static_cast<std::size_t>(me.rank())]);
    });
    const Trained* first = nullptr;
    int lost = 0;
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      if (!results[rank].has_value()) {
        ++lost;
        EXPECT_EQ(results[rank].error().code, ErrorCode::kClosed)
            << "rank " << rank << ": " << to_string(results[rank].error());
        continue;
      }
      if (first == nullptr) first = &trained[rank];
      EXPECT_EQ(trained[rank].steps, first->steps) << "rank " << rank;
      // Without rounds, gradients of a lost worker may arrive after a survivor has read.
      if (run.plan.has_rounds || fault != Fault::kWorkerLost) {
        EXPECT_TRUE(trained[rank].values == first->values) << "rank " << rank;
      }
      if (run.plan.plan.starts_with("update=bsp")) {
        EXPECT_TRUE(trained[rank].own == trained[rank].values) << "rank " << rank << ", own copy";
      }
    }
    EXPECT_LE(lost, fault == Fault::kWorkerLost ? 1 : 0);
    lost_workers_ += lost;
    lost_servers_ += std::count_if(cluster.events().begin(), cluster.events().end(),
                                   [](const std::string& event) {
                                     return event.find("rank 0: server") != std::string::npos &&
                                            event.find("lost") != std::string::npos;
                                   });
    ASSERT_NE(first, nullptr);
    if (run.plan.has_rounds) {
      EXPECT_EQ(first->steps, run.steps);
    }
  }

  std::int64_t lost_workers_ = 0;
  std::int64_t lost_servers_ = 0;
};

// The seeds of a test end here. With sanitizers, which are slow, only the last ones run, five of
// which have each fault once, and fewer workers.
constexpr std::uint64_t kSeeds = 7;
#if defined(TALLY_SANITIZED)
constexpr std::uint64_t kFirstSeed = 2;
constexpr int kMany = 16;
#else
constexpr std::uint64_t kFirstSeed = 0;
constexpr int kMany = 64;
#endif

TEST_P(SimServerExchanges, SurvivorsEndWithOneModel) {
  for (const int workers : {2, 5})
    for (std::uint64_t seed = kFirstSeed; seed < kSeeds; ++seed)
      check({.plan = GetParam(), .workers = workers, .seed = seed});
  EXPECT_GT(lost_workers_, 0);
  EXPECT_GT(lost_servers_, 0);
}

// Without a fault, with a lost worker and with a lost server.
TEST_P(SimServerExchanges, ManyWorkersEndWithOneModel) {
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    check({.plan = GetParam(), .workers = kMany, .seed = seed, .steps = 8, .is_small = true});
  EXPECT_GT(lost_workers_, 0);
  EXPECT_GT(lost_servers_, 0);
}

// A single server has the only copy.
TEST_P(SimServerExchanges, WithoutServersAllWorkersHaveTheSameError) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const ServerRun run{.plan = GetParam(), .workers = 3, .seed = seed};
    ServedCluster cluster({.servers = 1, .workers = 3, .seed = seed});
    cluster.faults().kill({.rank = cluster.server(0), .before_frame = 60 + seed * 31});
    std::vector<Trained> trained(3);
    const auto results = cluster.run([&](ServedWorker& me) {
      return train(me, run, trained[static_cast<std::size_t>(me.rank())]);
    });
    for (const auto& result : results) {
      ASSERT_FALSE(result.has_value());
      EXPECT_EQ(result.error().code, ErrorCode::kPeerLost) << to_string(result.error());
    }
  }
}

// Without replicas one of two servers is lost, or stops for longer than the workers wait. The other
// one may have answered.
TEST_P(SimServerExchanges, AFailedUpdateLeavesThePresentVersion) {
  int failures = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const ServerRun run{.plan = GetParam(), .workers = 2, .seed = seed};
    ServedCluster cluster(
        {.servers = 2, .workers = 2, .replicas = 1, .seed = seed, .timeout = 200ms});
    const Rank server = cluster.server(static_cast<int>(seed % 2));
    if (seed % 4 < 3)
      cluster.faults().kill({.rank = server, .before_frame = 50 + seed * 5});
    else
      cluster.faults().stop({.rank = server, .from = 20ms + seed * 1ms, .until = 600ms});
    std::vector<Trained> trained(2);
    (void)cluster.run([&](ServedWorker& me) {
      return train_until_failure(me, run, trained[static_cast<std::size_t>(me.rank())], failures);
    });
  }
  EXPECT_GT(failures, 8);
}

// A worker and a server are lost between measure and finish, at one of many moments. The successor
// gathers its rounds again, without the gradient of the lost worker: worker 0, whose measurements
// the lost server has answered, has other norms than worker 2, whose requests came too late.
TEST(SimMeasuredRounds, SurvivorsUseTheNumbersOfThePart) {
  const ServerExchangeCase cases[] = {
      {"clipped", "update=bsp codec=sign", true, sgd({.rate = kStepRate, .momentum = 0.9}), 0.5},
      {"layerwise", "update=bsp codec=sign", true, lamb({.rate = kStepRate}), 0.5}};
  for (const ServerExchangeCase& plan : cases) {
    std::size_t foreign_finishes = 0;
    for (int moment = 0; moment < 16; ++moment) {
      SCOPED_TRACE(testing::Message() << plan.name << ", moment " << moment);
      const ServerRun run{.plan = plan, .workers = 3};
      ServedCluster cluster({.servers = 3, .workers = 3, .replicas = 2});
      const Rank server = cluster.server(0);
      const TimePoint at = 37ms + moment * 250us;
      cluster.faults().delay({.from = cluster.worker(0), .to = server, .extra = 1500us});
      cluster.faults().delay(
          {.from = cluster.worker(2), .to = server, .extra = 20ms, .since = at - 2ms});
      cluster.faults().kill({.rank = server, .at = at});
      cluster.faults().kill({.rank = cluster.worker(1), .at = at});
      std::vector<Trained> trained(3);
      const auto results = cluster.run([&](ServedWorker& me) {
        return train(me, run, trained[static_cast<std::size_t>(me.rank())]);
      });
      for (const std::size_t rank : {0U, 2U}) {
        ASSERT_TRUE(results[rank].has_value()) << to_string(results[rank].error());
        EXPECT_EQ(trained[rank].steps, kSteps);
        EXPECT_TRUE(trained[rank].own == trained[rank].values) << "rank " << rank;
        foreign_finishes += trained[rank].foreign_finishes;
      }
      EXPECT_TRUE(trained[0].values == trained[2].values);
      EXPECT_FALSE(results[1].has_value());
    }
    EXPECT_GT(foreign_finishes, 0U) << plan.name << ": the survivors never had different norms";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SimServerExchanges,
    testing::Values(ServerExchangeCase{"bsp", "update=bsp"},
                    ServerExchangeCase{"backup", "update=backup:1"},
                    ServerExchangeCase{"subset", "update=subset:2"},
                    ServerExchangeCase{"ssp", "update=ssp:2", false},
                    ServerExchangeCase{"asp", "update=asp", false},
                    ServerExchangeCase{"asp_rarely", "update=asp:push=2,fetch=3", false},
                    ServerExchangeCase{"kbatch", "update=kbatch:3", false},
                    ServerExchangeCase{"kasync", "update=kasync:2", false},
                    ServerExchangeCase{"softsync", "update=softsync:2 stale=scale", false},
                    ServerExchangeCase{"topk", "update=bsp codec=topk:0.05,warmup=4"},
                    ServerExchangeCase{"asp_warmup", "update=asp codec=int8:warmup=5", false},
                    ServerExchangeCase{"powersgd", "update=bsp codec=powersgd:2,warmup=4"},
                    ServerExchangeCase{"lamb", "update=bsp", true, lamb({.rate = kStepRate})},
                    ServerExchangeCase{"clipped", "update=bsp codec=sign", true,
                                       sgd({.rate = kStepRate, .momentum = 0.9}), 0.5},
                    ServerExchangeCase{"backup_clipped", "update=backup:1", true,
                                       sgd({.rate = kStepRate}), 0.5},
                    ServerExchangeCase{"subset_clipped", "update=subset:2", true,
                                       lars({.rate = kStepRate}), 0.5}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace tally::sim
