#include <sstream>

#include <gmock/gmock.h>

#include "adapters/torch/test_nets.h"

namespace tally::adapter {
namespace {

struct TrainerCase {
  std::string name;
  OptimizerSpec spec;
};

std::vector<TrainerCase> trainer_cases() {
  return {{"sgd", sgd({.rate = 0.1})},
          {"momentum", sgd({.rate = 0.1, .momentum = 0.9, .weight_decay = 0.01})},
          {"dampening", sgd({.rate = 0.1, .momentum = 0.9, .dampening = 0.3})},
          {"nesterov", sgd({.rate = 0.1, .momentum = 0.9, .nesterov = true})},
          {"adagrad", adagrad({.rate = 0.01, .rate_decay = 0.01})},
          {"adam", adam({.rate = 0.001, .weight_decay = 0.01})},
          {"adamw", adamw({.rate = 0.001})},
          {"lamb", lamb({.rate = 0.01})},
          {"lars", lars({.rate = 1})}};
}

// libtorch's own optimizer with the same settings; null if it has none.
std::unique_ptr<torch::optim::Optimizer> libtorch_twin(const OptimizerSpec& spec,
                                                       std::vector<at::Tensor> parameters) {
  namespace optim = torch::optim;
  switch (spec.kind) {
    case OptimizerKind::kSgd:
      return std::make_unique<optim::SGD>(std::move(parameters),
                                          optim::SGDOptions(spec.rate)
                                              .momentum(spec.momentum)
                                              .dampening(spec.dampening)
                                              .weight_decay(spec.weight_decay)
                                              .nesterov(spec.nesterov));
    case OptimizerKind::kAdagrad:
      return std::make_unique<optim::Adagrad>(std::move(parameters),
                                              optim::AdagradOptions(spec.rate)
                                                  .lr_decay(spec.rate_decay)
                                                  .weight_decay(spec.weight_decay));
    case OptimizerKind::kAdam:
      return std::make_unique<optim::Adam>(
          std::move(parameters), optim::AdamOptions(spec.rate).weight_decay(spec.weight_decay));
    case OptimizerKind::kAdamW:
      return std::make_unique<optim::AdamW>(
          std::move(parameters), optim::AdamWOptions(spec.rate).weight_decay(spec.weight_decay));
    default:
      return nullptr;
  }
}

class TrainerWith : public testing::TestWithParam<TrainerCase> {};

TEST_P(TrainerWith, EqualsLibtorchsOptimizerOver50Steps) {
  run_threads(1, [](Job& job) {
    SmallNet ours = own_net(1);
    SmallNet theirs = own_net(1);
    const auto optimizer = libtorch_twin(GetParam().spec, theirs->parameters());
    if (!optimizer) return;  // src/train compares these with plain references
    Trainer trainer(job, *ours, GetParam().spec);
    for (int step = 0; step < 50; ++step) {
      const TestBatch batch = test_batch(step, 24);
      trainer.step(24, [&] { return loss_of(ours, batch); });
      optimizer->zero_grad();
      loss_of(theirs, batch).backward();
      optimizer->step();
    }
    expect_near(copies_of(*ours), copies_of(*theirs), 1e-6, GetParam().name);
  });
}

// The same samples in 20 steps: on one rank, and on 2, 3 and 4 ranks, which do not divide them
// evenly, with a replica of the model for all ranks or for each of them.
TEST_P(TrainerWith, NWorkersEqualOneWorkerWithTheWholeBatch) {
  std::vector<at::Tensor> alone;
  std::vector<double> losses_alone;
  for (const std::pair<int, Replica>& setting :
       {std::pair{1, Replica::kHost}, std::pair{2, Replica::kHost}, std::pair{3, Replica::kHost},
        std::pair{4, Replica::kHost}, std::pair{3, Replica::kRank}}) {
    const int ranks = setting.first;
    std::vector<at::Tensor> together;
    std::vector<double> losses;
    run_threads(ranks, [&](Job& job) {
      SmallNet net = own_net(static_cast<std::uint64_t>(1 + job.rank()));
      Trainer trainer(job, *net, GetParam().spec, {.replica = setting.second});
      for (int step = 0; step < 20; ++step) {
        const TestBatch batch = part_of(test_batch(step, 50), job.rank(), ranks);
        const auto samples = static_cast<std::uint64_t>(batch.x.size(0));
        const StepOutcome outcome = trainer.step(samples, [&] { return loss_of(net, batch); });
        ASSERT_EQ(outcome.samples, 50U);
        if (job.rank() == 0) losses.push_back(outcome.loss);
      }
      if (job.rank() == 0) together = copies_of(*net);
      trainer.sum({});
      ASSERT_TRUE(job.world().barrier().has_value());
    });
    if (ranks == 1) alone = together;
    if (ranks == 1) losses_alone = losses;
    expect_near(alone, together, 2e-6, GetParam().name + " of " + std::to_string(ranks));
    ASSERT_EQ(losses.size(), losses_alone.size());
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], losses_alone[i], 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TrainerWith, testing::ValuesIn(trainer_cases()),
                         [](const auto& each) { return each.param.name; });

TEST(Trainer, ARankThatThrowsAwayItsSeedStillGetsRankZerosParameters) {
  run_threads(3, [](Job& job) {
    SmallNet net = own_net(static_cast<std::uint64_t>(100 + job.rank()));
    const auto first = copies_of(*own_net(100));
    Trainer trainer(job, *net, sgd());
    expect_same_bits(copies_of(*net), first, "initial values");
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

TEST(Trainer, OptimizerStateIsSharedOutBetweenRanks) {
  std::vector<std::size_t> bytes(4);
  std::size_t alone = 0;
  for (const int ranks : {1, 4}) {
    run_threads(ranks, [&](Job& job) {
      torch::nn::Linear net(300, 400);
      Trainer trainer(job, *net, adam());
      (ranks == 1 ? alone : bytes[static_cast<std::size_t>(job.rank())]) = trainer.state_bytes();
      ASSERT_TRUE(job.world().barrier().has_value());
    });
  }
  EXPECT_EQ(alone, (300 * 400 + 400) * 2 * sizeof(float));
  EXPECT_EQ(bytes[0] + bytes[1] + bytes[2] + bytes[3], alone);
  for (const std::size_t part : bytes) EXPECT_LE(part, alone * 3 / 10);
  run_threads(2, [&](Job& job) {
    torch::nn::Linear net(300, 400);
    Trainer trainer(job, *net, adam(), {.replica = Replica::kRank});
    EXPECT_EQ(trainer.state_bytes(), alone) << "a rank with its own replica has all state";
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

TEST(Trainer, MicroBatchesAddUpToTheWholeBatch) {
  std::vector<at::Tensor> whole;
  for (const int accumulate : {1, 4}) {
    std::vector<at::Tensor> result;
    run_threads(2, [&](Job& job) {
      SmallNet net = own_net(5);
      Trainer trainer(job, *net, sgd({.rate = 0.1, .momentum = 0.9}), {.accumulate = accumulate});
      for (int step = 0; step < 10; ++step) {
        const TestBatch own = part_of(test_batch(step, 40), job.rank(), 2);
        for (int k = 0; k < accumulate; ++k) {
          const TestBatch micro = part_of(own, k, accumulate);
          const auto samples = static_cast<std::uint64_t>(micro.x.size(0));
          const std::uint64_t operations = job.world().traffic().operations;
          const StepOutcome outcome = trainer.step(samples, [&] { return loss_of(net, micro); });
          EXPECT_EQ(outcome.updated, k + 1 == accumulate);
          if (!outcome.updated) {
            EXPECT_EQ(job.world().traffic().operations, operations) << "it communicated";
          }
        }
      }
      EXPECT_EQ(trainer.steps(), 10U);
      if (job.rank() == 0) result = copies_of(*net);
      ASSERT_TRUE(job.world().barrier().has_value());
    });
    if (accumulate == 1) whole = result;
    expect_near(whole, result, 1e-6, "accumulation");
  }
}

TEST(Trainer, ClippingEqualsLibtorchs) {
  run_threads(1, [](Job& job) {
    SmallNet ours = own_net(2);
    SmallNet theirs = own_net(2);
    torch::optim::SGD optimizer(theirs->parameters(), torch::optim::SGDOptions(0.5));
    Trainer trainer(job, *ours, sgd({.rate = 0.5}), {.clip_norm = 0.1});
    for (int step = 0; step < 20; ++step) {
      const TestBatch batch = test_batch(step, 16);
      trainer.step(16, [&] { return loss_of(ours, batch); });
      optimizer.zero_grad();
      loss_of(theirs, batch).backward();
      torch::nn::utils::clip_grad_norm_(theirs->parameters(), 0.1);
      optimizer.step();
    }
    expect_near(copies_of(*ours), copies_of(*theirs), 1e-6, "clip_norm");
  });
}

// A custom loop can see and change the gradients between backward() and apply().
TEST(Trainer, OwnLoopsMayChangeGradientsBeforeApply) {
  run_threads(2, [](Job& job) {
    SmallNet net = own_net(3);
    const at::Tensor before = net->last->bias.detach().clone();
    Trainer trainer(job, *net, sgd({.rate = 1}));
    for (int step = 0; step < 3; ++step) {
      loss_of(net, test_batch(step, 8)).backward();
      ASSERT_TRUE(net->last->bias.grad().defined());
      net->last->bias.mutable_grad().fill_(1);
      trainer.apply(8);
      EXPECT_FALSE(net->last->bias.grad().defined());
    }
    EXPECT_TRUE(at::allclose(net->last->bias.detach(), before - 3));
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

TEST(Trainer, ParametersShareOneMemoryOnAHostAndAreTheModulesOwnAfterwards) {
  std::vector<const void*> places(2);
  run_threads(2, [&](Job& job) {
    SmallNet net = own_net(3);
    std::vector<at::Tensor> trained;
    {
      Trainer trainer(job, *net, sgd());
      trainer.step(8, [&] { return loss_of(net, test_batch(1, 8)); });
      places[static_cast<std::size_t>(job.rank())] = net->first->weight.data_ptr();
      trained = copies_of(*net);
      ASSERT_TRUE(job.world().barrier().has_value());
      EXPECT_EQ(places[0], places[1]);
    }
    expect_same_bits(copies_of(*net), trained, "afterwards");
    EXPECT_NE(net->first->weight.data_ptr(), places[0]);
    loss_of(net, test_batch(1, 8)).backward();
  });
}

// The trainer would update memory that the model no longer uses, and every step would succeed.
TEST(Trainer, AParameterWhoseMemoryWasReplacedIsRefusedByName) {
  for (const bool has_stepped : {false, true}) {
    run_threads(1, [&](Job& job) {
      SmallNet net = own_net(3);
      std::stringstream file;
      torch::save(net, file);
      Trainer trainer(job, *net, sgd());
      const auto step = [&] { trainer.step(8, [&] { return loss_of(net, test_batch(1, 8)); }); };
      if (has_stepped) step();
      torch::load(net, file);
      try {
        step();
        FAIL() << "was accepted";
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.error().code, ErrorCode::kInvalid);
        EXPECT_THAT(failure.what(),
                    testing::HasSubstr("first.weight no longer lies where the trainer placed it"));
      }
    });
  }
}

TEST(Trainer, ARankWhoseDataEndsEarlierDrainsWhileTheOthersGoOn) {
  std::vector<at::Tensor> alone;
  std::vector<at::Tensor> together;
  // Rank 1 has three batches, rank 0 has five.
  const auto batches = [](Rank rank) { return rank == 0 ? 5 : 3; };
  run_threads(1, [&](Job& job) {
    SmallNet net = own_net(4);
    Trainer trainer(job, *net, sgd());
    for (int step = 0; step < 5; ++step) {
      TestBatch batch = test_batch(step, 6);
      if (step < 3) {
        const TestBatch more = test_batch(100 + step, 6);
        batch = {at::cat({batch.x, more.x}), at::cat({batch.y, more.y})};
      }
      trainer.step(static_cast<std::uint64_t>(batch.x.size(0)),
                   [&] { return loss_of(net, batch); });
    }
    alone = copies_of(*net);
  });
  run_threads(2, [&](Job& job) {
    SmallNet net = own_net(4);
    Trainer trainer(job, *net, sgd());
    for (int step = 0; step < batches(job.rank()); ++step) {
      const TestBatch batch = test_batch(100 * job.rank() + step, 6);
      trainer.step(6, [&] { return loss_of(net, batch); });
    }
    trainer.drain();
    EXPECT_EQ(trainer.steps(), 5U);
    if (job.rank() == 1) together = copies_of(*net);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
  expect_near(alone, together, 1e-6, "drained");
}

// Six calls in accumulations of four: the remaining two are applied, and do not affect later
// updates.
TEST(Trainer, DrainingInTheMiddleOfAnAccumulationUsesWhatIsThere) {
  std::vector<std::vector<at::Tensor>> results;
  for (const bool drains : {false, true}) {
    run_threads(1, [&](Job& job) {
      SmallNet net = own_net(6);
      Trainer trainer(job, *net, sgd({.rate = 0.1}), {.accumulate = drains ? 4 : 1});
      const auto join_batches = [](int from, int to) {
        std::vector<at::Tensor> x;
        std::vector<at::Tensor> y;
        for (int k = from; k < to; ++k) {
          x.push_back(test_batch(k, 5 + k).x);
          y.push_back(test_batch(k, 5 + k).y);
        }
        return TestBatch{at::cat(x), at::cat(y)};
      };
      const auto step = [&](const TestBatch& batch) {
        trainer.step(static_cast<std::uint64_t>(batch.x.size(0)),
                     [&] { return loss_of(net, batch); });
      };
      if (drains) {
        for (int k = 0; k < 6; ++k) step(test_batch(k, 5 + k));
        trainer.drain();
        EXPECT_EQ(trainer.steps(), 2U);
        for (int k = 6; k < 10; ++k) step(test_batch(k, 5 + k));
      } else {
        step(join_batches(0, 4));
        step(join_batches(4, 6));
        step(join_batches(6, 10));
      }
      EXPECT_EQ(trainer.steps(), 3U);
      results.push_back(copies_of(*net));
    });
  }
  expect_near(results[0], results[1], 1e-6, "drained in the middle");
}

TEST(Trainer, StateMayBeLookedAtBeforeTheFirstStep) {
  run_threads(2, [](Job& job) {
    SmallNet net = own_net(1);
    Trainer trainer(job, *net, adam());
    EXPECT_GT(trainer.state_bytes(), 0U);
    EXPECT_EQ(trainer.checkpoint().step, 0U);
    for (int step = 0; step < 2; ++step)
      trainer.step(8, [&] { return loss_of(net, test_batch(step, 8)); });
    EXPECT_EQ(trainer.steps(), 2U);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

TEST(Trainer, AStepThatBreaksInBackwardEndsTheTraining) {
  run_threads(1, [](Job& job) {
    SmallNet net = own_net(1);
    Trainer trainer(job, *net, sgd());
    const TestBatch batch = test_batch(1, 8);
    const auto good = [&] { return loss_of(net, batch); };
    trainer.step(8, good);
    // A forward pass that throws has no effect.
    EXPECT_THROW(trainer.step(8, []() -> at::Tensor { throw std::runtime_error("no forward"); }),
                 std::runtime_error);
    EXPECT_TRUE(trainer.step(8, good).updated);
    EXPECT_ANY_THROW(trainer.step(8, [&] { return BreaksInBackward::apply(loss_of(net, batch)); }));
    EXPECT_THROW(trainer.step(8, good), Failure);
    EXPECT_THROW(trainer.apply(8), Failure);
  });
}

// As with checkpointed activations: a backward pass inside the backward pass.
TEST(Trainer, AGradientThatComesInTwoPartsIsRefusedByName) {
  struct Again : torch::autograd::Function<Again> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                              const at::Tensor& parameter) {
      context->saved_data["parameter"] = parameter;
      return x.clone();
    }
    static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::tensor_list gradients) {
      const at::AutoGradMode with_gradients(true);
      context->saved_data["parameter"].toTensor().sum().backward();
      return {gradients[0], at::Tensor()};
    }
  };
  run_threads(1, [](Job& job) {
    SmallNet net = own_net(1);
    Trainer trainer(job, *net, sgd());
    const TestBatch batch = test_batch(1, 8);
    trainer.step(8, [&] { return loss_of(net, batch); });
    try {
      trainer.step(8, [&] { return Again::apply(loss_of(net, batch), net->last->bias); });
      FAIL() << "was accepted";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("added to the gradient of last.bias twice"));
    }
  });
}

TEST(Trainer, BuffersThatDifferAreRefusedWithTheFirstDifference) {
  run_threads(2, [](Job& job) {
    torch::nn::Sequential net(torch::nn::Linear(2, 3));
    if (job.rank() == 1) net->push_back(torch::nn::Dropout());
    net->register_buffer("count", at::zeros({1 + job.rank()}));
    try {
      Trainer trainer(job, *net, sgd());
      FAIL() << "was accepted";
    } catch (const Failure& failure) {
      EXPECT_THAT(failure.what(),
                  testing::HasSubstr("frozen parameter or buffer 0 of rank 1 is count "
                                     "float32 [2], of rank 0 count float32 [1]"));
    }
  });
}

TEST(Trainer, DifferentModelsAreRefusedWithTheFirstDifference) {
  run_threads(2, [](Job& job) {
    const std::int64_t hidden = job.rank() == 0 ? 100 : 101;
    SmallNet net(hidden);
    try {
      Trainer trainer(job, *net, sgd());
      FAIL() << "was accepted";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().code, ErrorCode::kMismatch);
      EXPECT_THAT(failure.what(),
                  testing::HasSubstr("parameter 0 of rank 1 is first.weight float32 [101, 10], of "
                                     "rank 0 first.weight float32 [100, 10]"));
    }
  });
}

TEST(Trainer, SettingsThatMakeNoSenseAreRefused) {
  run_threads(1, [](Job& job) {
    SmallNet net = own_net(1);
    EXPECT_THROW(Trainer(job, *net, sgd({.rate = -1})), Failure);
    EXPECT_THROW(Trainer(job, *net, sgd(), {.plan = "update=sometimes"}), Failure);
    EXPECT_THROW(Trainer(job, *net, sgd(), {.accumulate = 0}), Failure);
    EXPECT_THROW(Trainer(job, *net, sgd(), {.clip_norm = 0}), Failure);
    EXPECT_THROW(
        Trainer(job, *net, sgd(),
                {.groups = {{[](const std::string&, const at::Tensor&) { return true; }, adam()}}}),
        Failure);
    for (at::Tensor parameter : net->parameters()) parameter.set_requires_grad(false);
    EXPECT_THROW(Trainer(job, *net, sgd()), Failure);
  });
}

}  // namespace
}  // namespace tally::adapter
