#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/server_training.h"

// Workers that die and workers that join late, under every policy.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

class SimServerMembership : public testing::TestWithParam<const char*> {};

TrainingOptions training_of(const std::string& plan) {
  return {.plan = plan,
          .workers = 3,
          .steps = 40,
          .begin_together = false,
          .compute = [](int rank, int) -> Duration { return 10ms + 1ms * rank; }};
}

TEST_P(SimServerMembership, NobodyWaitsForAWorkerThatWasKilled) {
  for (int moment = 0; moment < 4; ++moment) {
    SCOPED_TRACE(testing::Message() << "moment " << moment);
    ServedCluster cluster({.servers = 2,
                           .workers = 3,
                           .replicas = 2,
                           .seed = 7 + static_cast<std::uint64_t>(moment)});
    cluster.faults().kill({.rank = cluster.worker(1), .at = 50ms + moment * 17300us});
    const auto results = cluster.run([](ServedWorker& me) -> Result<void> {
      Training training(me, training_of(GetParam()));
      TALLY_TRY(training.run());
      EXPECT_LT(loss_of(training.weights(), 200), 0.9 * loss_of(Weights(kWeights), 200));
      return {};
    });
    EXPECT_TRUE(results[0].has_value()) << to_string(results[0].error());
    EXPECT_FALSE(results[1].has_value());
    EXPECT_TRUE(results[2].has_value()) << to_string(results[2].error());
    EXPECT_LT(cluster.ended(), 2s);
  }
}

TEST_P(SimServerMembership, TrainingGoesOnWhenAServerAndAWorkerDieTogether) {
  for (int moment = 0; moment < 8; ++moment) {
    SCOPED_TRACE(testing::Message() << "moment " << moment);
    ServedCluster cluster({.servers = 3,
                           .workers = 3,
                           .replicas = 2,
                           .seed = 70 + static_cast<std::uint64_t>(moment),
                           .conditions = {.jitter = 400us}});
    const TimePoint at = 50ms + moment * 9100us;
    cluster.faults().kill({.rank = cluster.server(moment % 3), .at = at});
    cluster.faults().kill({.rank = cluster.worker(1), .at = at + 700us * (moment % 4)});
    const auto results = cluster.run([](ServedWorker& me) -> Result<void> {
      Training training(me, training_of(GetParam()));
      TALLY_TRY(training.run());
      EXPECT_LT(loss_of(training.weights(), 200), 0.9 * loss_of(Weights(kWeights), 200));
      return {};
    });
    EXPECT_TRUE(results[0].has_value()) << to_string(results[0].error());
    EXPECT_TRUE(results[2].has_value()) << to_string(results[2].error());
    EXPECT_LT(cluster.ended(), 2s);
  }
}

TEST_P(SimServerMembership, AWorkerThatComesLateGoesOnWhereTheOthersAre) {
  ServedCluster cluster(
      {.servers = 2, .workers = 4, .replicas = 2, .seed = 7, .worker_ranks = {0, 1, 2, 1}});
  cluster.faults().kill({.rank = cluster.worker(1), .at = 60ms});
  cluster.come_late(cluster.worker(3), 150ms);
  std::vector<std::uint64_t> clocks(3);
  const auto results = cluster.run([&](ServedWorker& me) -> Result<void> {
    TrainingOptions options = training_of(GetParam());
    options.on_step = [&](int rank, std::uint64_t clock) {
      clocks[static_cast<std::size_t>(rank)] = clock;
    };
    Training training(me, options);
    if (me.member().rank() != cluster.worker(3)) return training.run();
    TALLY_TRY(training.begin());
    // As far as the slowest of the others, which may be about to end a step.
    EXPECT_GE(training.clock() + 1, std::min(clocks[0], clocks[2]));
    EXPECT_LE(training.clock(), std::min(clocks[0], clocks[2]) + 1);
    EXPECT_GE(training.version(), 3U);
    EXPECT_LT(loss_of(training.weights(), 200), loss_of(Weights(kWeights), 200));
    while (training.clock() < 40) TALLY_TRY(training.step(training.clock() == 39));
    return {};
  });
  for (const std::size_t index : {0U, 2U, 3U})
    EXPECT_TRUE(results[index].has_value()) << index << ": " << to_string(results[index].error());
  EXPECT_LT(cluster.ended(), 3s);
}

INSTANTIATE_TEST_SUITE_P(Policies, SimServerMembership,
                         testing::Values("update=bsp", "update=asp", "update=ssp:1",
                                         "update=backup:1", "update=subset:2", "update=kbatch:2"),
                         [](const auto& plan) {
                           std::string name(plan.param);
                           for (char& letter : name) {
                             if (std::isalnum(static_cast<unsigned char>(letter)) == 0)
                               letter = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace tally::sim
