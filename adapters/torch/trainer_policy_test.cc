#include <atomic>
#include <latch>

#include <gmock/gmock.h>

#include "adapters/torch/test_nets.h"

// Update policies in a group, without servers.
namespace tally::adapter {
namespace {

using collective::Network;

constexpr int kRanks = 3;

struct TrainerPolicyRun {
  std::string plan;
  OptimizerSpec optimizer = sgd({.rate = 0.1, .momentum = 0.9});
  int ranks = kRanks;
  int steps = 12;
};

std::vector<at::Tensor> train_with_policy(const TrainerPolicyRun& run) {
  std::vector<at::Tensor> result;
  run_threads(run.ranks, [&](Job& job) {
    SmallNet net = own_net(1);
    Trainer trainer(job, *net, run.optimizer, {.plan = run.plan});
    for (int step = 0; step < run.steps; ++step) {
      const TestBatch own = part_of(test_batch(step, 48), job.rank(), job.size());
      trainer.step(static_cast<std::uint64_t>(own.x.size(0)), [&] { return loss_of(net, own); });
    }
    if (job.rank() == 0) result = copies_of(*net);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
  return result;
}

TEST(TrainerPolicy, BackupOfNobodyAndTheWholeSubsetHaveTheBitsOfBsp) {
  const auto bsp = train_with_policy({});
  expect_same_bits(bsp, train_with_policy({.plan = "update=backup:0"}), "backup:0");
  expect_same_bits(bsp, train_with_policy({.plan = "update=subset:3"}), "subset:3");
}

// Only the drawn ranks contribute to a step; the other ranks do not compute.
TEST(TrainerPolicy, OnlyTheDrawnOfASubsetComputeAndCount) {
  std::atomic<int> computed{0};
  run_threads(kRanks, [&](Job& job) {
    SmallNet net = own_net(1);
    Trainer trainer(job, *net, sgd({.rate = 0.1}), {.plan = "update=subset:2"});
    for (int step = 0; step < 10; ++step) {
      const StepOutcome outcome = trainer.step(16, [&] {
        ++computed;
        return loss_of(net, part_of(test_batch(step, 48), job.rank(), job.size()));
      });
      EXPECT_EQ(outcome.samples, 32U);
    }
    EXPECT_TRUE(trainer.in_step());
    EXPECT_EQ(trainer.steps(), 10U);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
  EXPECT_EQ(computed, 2 * 10);
}

// Rank 2 is still in its first forward pass when the other ranks have made eight updates from their
// own gradients.
TEST(TrainerPolicy, ABackupRankThatIsLateHoldsNobodyUp) {
  constexpr std::uint64_t kSteps = 8;
  std::vector<at::Tensor> alone;
  run_threads(2, [&](Job& job) {
    SmallNet net = own_net(1);
    Trainer trainer(job, *net, sgd({.rate = 0.1, .momentum = 0.9}));
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const TestBatch own = part_of(test_batch(static_cast<int>(step), 48), job.rank(), 3);
      trainer.step(16, [&] { return loss_of(net, own); });
    }
    if (job.rank() == 0) alone = copies_of(*net);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
  for (const Network network : {Network::kInProcess, Network::kTwoHosts}) {
    std::latch others_are_done(2);
    run_threads(
        kRanks,
        [&](Job& job) {
          SmallNet net = own_net(1);
          Trainer trainer(job, *net, sgd({.rate = 0.1, .momentum = 0.9}),
                          {.plan = "update=backup:1"});
          EXPECT_FALSE(trainer.in_step());
          if (job.rank() == 2) {
            trainer.step(16, [&] {
              others_are_done.wait();
              return loss_of(net, part_of(test_batch(0, 48), 2, 3));
            });
          } else {
            while (trainer.steps() < kSteps) {
              const auto step = static_cast<int>(trainer.steps());
              const TestBatch own = part_of(test_batch(step, 48), job.rank(), 3);
              const StepOutcome outcome = trainer.step(16, [&] { return loss_of(net, own); });
              EXPECT_EQ(outcome.samples, 32U);
            }
            others_are_done.count_down();
          }
          EXPECT_EQ(trainer.meet({1.0}), std::vector<double>{3.0});
          EXPECT_EQ(trainer.steps(), kSteps);
          EXPECT_EQ(trainer.figures().dropped, job.rank() == 2 ? 1U : 0U);
          expect_near(copies_of(*net), alone, 1e-6, "rank " + std::to_string(job.rank()));
          trainer.meet();
        },
        network);
  }
}

TEST(TrainerPolicy, BatchNormOverAllRanksIsRefusedWhereTheyAreNotTogether) {
  run_threads(1, [](Job& job) {
    torch::nn::Sequential net(torch::nn::Linear(4, 4),
                              SyncBatchNorm(job.world(), SyncBatchNormOptions{.features = 4}));
    try {
      Trainer trainer(job, *net, sgd(), {.plan = "update=subset:1"});
      ADD_FAILURE() << "it was not refused";
    } catch (const Failure& failure) {
      EXPECT_THAT(failure.what(), testing::HasSubstr("SyncBatchNorm"));
    }
  });
}

TEST(TrainerPolicy, WhatNeedsAServerSaysSo) {
  run_threads(1, [](Job& job) {
    SmallNet net = own_net(1);
    for (const char* plan : {"update=asp", "update=ssp:3", "update=kbatch:2"}) {
      try {
        Trainer trainer(job, *net, sgd(), {.plan = plan});
        ADD_FAILURE() << plan << " was not refused";
      } catch (const Failure& failure) {
        EXPECT_THAT(failure.what(), testing::HasSubstr("home=server")) << plan;
      }
    }
  });
}

}  // namespace
}  // namespace tally::adapter
