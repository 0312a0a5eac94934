#include <cmath>

#include <gmock/gmock.h>

#include "adapters/torch/test_nets.h"

// Loss scaling: the factor falls while gradients overflow, and training goes on.
namespace tally::adapter {
namespace {

// The gradient at the output passes through float16, as in a network that computes with it.
at::Tensor loss_through_half(SmallNet& net, const TestBatch& batch) {
  const at::Tensor output = net->forward(batch.x);
  output.register_hook([](const at::Tensor& grad) { return grad.to(at::kHalf).to(at::kFloat); });
  return torch::cross_entropy_loss(output, batch.y);
}

double mean_loss_of(SmallNet& net) {
  const at::NoGradGuard no_grad;
  double sum = 0;
  for (int i = 0; i < 10; ++i) sum += loss_of(net, test_batch(5000 + i, 64)).item<double>();
  return sum / 10;
}

TestBatch own_batch(int call, const Job& job) {
  return part_of(test_batch(call, 50), job.rank(), job.size());
}

class LossScaleWith : public testing::TestWithParam<const char*> {};

TEST_P(LossScaleWith, FallsUntilNothingOverflowsAndTrainingGoesOn) {
  constexpr double kInitial = 0x1p26;  // of gradients about 0.02, where float16 ends at 65504
  constexpr std::uint64_t kSteps = 40;
  run_threads(2, [&](Job& job) {
    SmallNet net = own_net(1);
    const double before = mean_loss_of(net);
    Trainer trainer(job, *net, sgd({.rate = 0.1}),
                    {.plan = GetParam(), .loss_scale = LossScale{.initial = kInitial}});
    EXPECT_EQ(trainer.loss_scale(), kInitial);
    std::uint64_t discarded = 0;
    for (int call = 0; trainer.steps() < kSteps; ++call) {
      ASSERT_LT(call, 500) << "steps do not go on";
      const TestBatch own = own_batch(call, job);
      const StepOutcome outcome = trainer.step(static_cast<std::uint64_t>(own.x.size(0)),
                                               [&] { return loss_through_half(net, own); });
      EXPECT_TRUE(std::isfinite(outcome.loss));
      if (outcome.samples > 0 && !outcome.updated) ++discarded;
    }
    trainer.meet();
    EXPECT_GE(trainer.discarded(), 1U);
    EXPECT_LE(trainer.discarded(), 20U);
    EXPECT_EQ(trainer.discarded(), discarded);
    EXPECT_EQ(trainer.loss_scale(),
              kInitial * std::pow(0.5, static_cast<double>(trainer.discarded())));
    EXPECT_LT(mean_loss_of(net), 0.9 * before);
    trainer.meet();
  });
}

INSTANTIATE_TEST_SUITE_P(
    Plans, LossScaleWith,
    testing::Values("", "update=backup:1", "home=server", "home=server update=asp",
                    "home=server update=asp:push=2,fetch=3", "home=server update=asp codec=int8",
                    "home=server update=ssp:2", "home=server update=kbatch:2",
                    "home=server update=kasync:2", "home=server update=softsync:1"));

// An element that is clipped to a limit was not finite before.
TEST(LossScale, OverflowsAreSeenBeforeClipping) {
  run_threads(2, [](Job& job) {
    SmallNet net = own_net(1);
    Trainer trainer(job, *net, sgd(),
                    {.clip_value = 0.1, .loss_scale = LossScale{.initial = 1024}});
    const auto before = copies_of(*net);
    const TestBatch own = own_batch(0, job);
    const StepOutcome outcome = trainer.step(25, [&] {
      const at::Tensor output = net->forward(own.x);
      output.register_hook([](const at::Tensor& grad) { return at::full_like(grad, INFINITY); });
      return torch::cross_entropy_loss(output, own.y);
    });
    EXPECT_FALSE(outcome.updated);
    EXPECT_EQ(outcome.samples, 50U);
    EXPECT_EQ(trainer.loss_scale(), 512);
    expect_same_bits(before, copies_of(*net), "discarded");
  });
}

TEST(LossScale, GradientsThatStayNonfiniteEndTheTraining) {
  struct Case {
    const char* plan;
    int ranks;
  };
  for (const Case& c : {Case{"", 2}, Case{"home=server", 1}, Case{"home=server update=asp", 1},
                        Case{"home=server update=kbatch:1", 1}}) {
    run_threads(c.ranks, [&](Job& job) {
      SmallNet net = own_net(1);
      Trainer trainer(job, *net, sgd(), {.plan = c.plan, .loss_scale = LossScale()});
      const auto before = copies_of(*net);
      const TestBatch own = own_batch(0, job);
      int calls = 0;
      try {
        for (; calls < 1000; ++calls) trainer.step(25, [&] { return loss_of(net, own) * NAN; });
        ADD_FAILURE() << c.plan << ": the training did not end";
      } catch (const Divergence& divergence) {
        EXPECT_THAT(divergence.what(), testing::HasSubstr("the training has diverged: the "
                                                          "gradients of 100 updates in a row"));
      }
      EXPECT_EQ(calls, 99) << c.plan;
      EXPECT_EQ(trainer.discarded(), 100U) << c.plan;
      expect_same_bits(before, copies_of(*net), c.plan);
    });
  }
}

TEST(LossScale, AnyFactorIsSaved) {
  run_threads(1, [](Job& job) {
    SmallNet net = own_net(1);
    {
      Trainer trainer(job, *net, sgd(), {.loss_scale = LossScale{.initial = 0.5}});
      EXPECT_THAT(trainer.checkpoint().state, testing::HasSubstr("\"loss_scale\":0.5"));
    }
    Trainer trainer(job, *net, sgd());
    EXPECT_THAT(trainer.checkpoint().state, testing::Not(testing::HasSubstr("loss_scale")));
  });
}

// onebit-adam sends momentum, which must not be clipped: each worker clips its own gradient, also
// where rounds are measured for loss scaling.
TEST(LossScale, OnebitAdamClipsGradientsNotMomentum) {
  const auto train = [](std::optional<LossScale> scale) {
    std::vector<at::Tensor> result;
    run_threads(2, [&](Job& job) {
      SmallNet net = own_net(1);
      Trainer trainer(job, *net, adam({.rate = 0.01}),
                      {.plan = "home=server codec=onebit-adam:4,min=100",
                       .clip_norm = 0.1,
                       .loss_scale = scale});
      for (int step = 0; step < 12; ++step) {
        const TestBatch own = own_batch(step, job);
        trainer.step(25, [&] { return loss_of(net, own); });
      }
      if (job.rank() == 0) result = copies_of(*net);
      trainer.meet();
    });
    return result;
  };
  expect_same_bits(train(std::nullopt), train(LossScale{.initial = 1}), "clipped by each worker");
}

}  // namespace
}  // namespace tally::adapter
