#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sim/server_training.h"

// Policies that must give the same result, on a small problem over simulated servers.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

struct Place {
  int servers = 1;
  int replicas = 1;
};

// The final weights of each worker.
std::vector<Weights> train(const TrainingOptions& options, const Place& place) {
  ServedCluster cluster({.servers = place.servers,
                         .workers = options.workers,
                         .replicas = place.replicas,
                         .seed = 5,
                         .conditions = {.jitter = 30us}});
  std::vector<Weights> weights(static_cast<std::size_t>(options.workers));
  const auto results = cluster.run([&](ServedWorker& me) -> Result<void> {
    Training training(me, options);
    TALLY_TRY(training.run());
    weights[static_cast<std::size_t>(me.rank())] = training.weights();
    return {};
  });
  for (const auto& result : results)
    EXPECT_TRUE(result.has_value()) << options.plan << ": " << to_string(result.error());
  return weights;
}

void expect_near(const Weights& got, const Weights& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-6) << what << ", weight " << i;
}

TEST(SimServerEquivalences, TheProblemIsOneThatCanBeLearned) {
  const TrainingOptions options{.workers = 4, .steps = 300, .rate = 0.5};
  EXPECT_LT(loss_of(train_alone(options), 500), 0.01 * loss_of(Weights(kWeights), 500));
}

TEST(SimServerEquivalences, BspOnServersIsOneWorkerOnTheJoinedBatch) {
  for (int servers = 1; servers <= 3; ++servers) {
    for (int workers = 1; workers <= 4; ++workers) {
      for (int replicas = 1; replicas <= std::min(2, servers); ++replicas) {
        const TrainingOptions options{.plan = "update=bsp", .workers = workers};
        const Weights alone = train_alone(options);
        for (const Weights& weights : train(options, {.servers = servers, .replicas = replicas}))
          expect_near(weights, alone,
                      fmt::format("{} servers, {} workers, {} copies", servers, workers, replicas));
      }
    }
  }
}

TEST(SimServerEquivalences, WhatWaitsForAllIsBsp) {
  for (int workers = 1; workers <= 4; ++workers) {
    for (const std::string& plan : {std::string("update=ssp:0"), std::string("update=backup:0"),
                                    fmt::format("update=subset:{}", workers)}) {
      const TrainingOptions options{.plan = plan, .workers = workers};
      const Weights alone = train_alone(options);
      for (const Weights& weights : train(options, {.servers = 2, .replicas = 2}))
        expect_near(weights, alone, fmt::format("{} with {} workers", plan, workers));
    }
  }
}

TEST(SimServerEquivalences, AspWithOneWorkerIsBspBitByBit) {
  for (int servers = 1; servers <= 3; ++servers) {
    const Place place{.servers = servers, .replicas = std::min(2, servers)};
    EXPECT_EQ(train({.plan = "update=asp"}, place), train({.plan = "update=bsp"}, place));
  }
}

// Workers of different speed, so that gradients are stale.
TrainingOptions uneven(const std::string& plan) {
  return {.plan = plan, .workers = 3, .steps = 20, .compute = [](int rank, int) -> Duration {
            return 1ms * (1 + 3 * rank);
          }};
}

TEST(SimServerEquivalences, CompensationByNothingIsKeepingBitByBit) {
  const Place place{.servers = 2, .replicas = 2};
  const auto kept = train(uneven("update=asp stale=keep"), place);
  EXPECT_EQ(train(uneven("update=asp stale=compensate:0"), place), kept);
  EXPECT_NE(train(uneven("update=asp stale=compensate:2"), place), kept);
}

TEST(SimServerEquivalences, AllAnswersToConflictsAgree) {
  const Place place{.servers = 2, .replicas = 2};
  const auto locked = train(uneven("update=asp conflict=lock"), place);
  for (const std::string plan : {"update=asp conflict=atomic", "update=asp conflict=accumulate"}) {
    const auto other = train(uneven(plan), place);
    for (std::size_t i = 0; i < locked.size(); ++i) expect_near(other[i], locked[i], plan);
  }
}

}  // namespace
}  // namespace tally::sim
