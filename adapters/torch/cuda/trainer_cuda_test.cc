// The trainer on a GPU. Built only if libtorch has CUDA.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "adapters/torch/tensors.h"
#include "adapters/torch/test_nets.h"
#include "soon.h"
#include "tally/checkpoint.h"

namespace tally::adapter {
namespace {

TestBatch on_gpu(const TestBatch& batch) { return {batch.x.to(at::kCUDA), batch.y.to(at::kCUDA)}; }

std::vector<at::Tensor> train(int ranks, bool gpu, const OptimizerSpec& optimizer,
                              const TrainerOptions& options) {
  std::vector<at::Tensor> result;
  run_threads(ranks, [&](Job& job) {
    SmallNet net = own_net(static_cast<std::uint64_t>(1 + job.rank()));
    if (gpu) net->to(at::kCUDA);
    Trainer trainer(job, *net, optimizer, options);
    for (int call = 0; call < 20 * options.accumulate; ++call) {
      TestBatch own = part_of(test_batch(call, 48), job.rank(), ranks);
      if (gpu) own = on_gpu(own);
      trainer.step(static_cast<std::uint64_t>(own.x.size(0)), [&] { return loss_of(net, own); });
    }
    if (job.rank() == 0)
      for (const at::Tensor& copy : copies_of(*net)) result.push_back(copy.to(at::kCPU));
    ASSERT_TRUE(job.world().barrier().has_value());
  });
  return result;
}

TEST(TrainerOnGpu, TrainsToWhatTheCpuDoes) {
  ASSERT_TRUE(torch::cuda::is_available());
  at::globalContext().setAllowTF32CuBLAS(false);
  for (const int ranks : {1, 2, 4}) {
    for (const char* const optimizer : {"momentum:decay=0.01", "adamw", "lamb"}) {
      const OptimizerSpec spec = *parse_optimizer(optimizer);
      expect_near(train(ranks, false, spec, {}), train(ranks, true, spec, {}), 1e-4,
                  optimizer + std::string(" on ") + std::to_string(ranks));
    }
  }
}

TEST(TrainerOnGpu, BuffersOnTheDeviceBecomeRankZerosAndAreAveraged) {
  ASSERT_TRUE(torch::cuda::is_available());
  run_threads(2, [](Job& job) {
    torch::nn::BatchNorm1d net(4);
    net->running_mean.fill_(job.rank() + 1);
    net->to(at::kCUDA);
    Trainer trainer(job, *net, sgd());
    EXPECT_EQ(net->running_mean[0].item<double>(), 1);
    net->running_mean.fill_(job.rank() + 1);
    trainer.synchronise_buffers();
    EXPECT_EQ(net->running_mean[0].item<double>(), 1.5);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

TEST(TrainerOnGpu, AccumulatesAndClips) {
  ASSERT_TRUE(torch::cuda::is_available());
  at::globalContext().setAllowTF32CuBLAS(false);
  const TrainerOptions options{.clip_norm = 0.2, .accumulate = 3};
  const OptimizerSpec spec = sgd({.rate = 0.1, .momentum = 0.9});
  expect_near(train(2, false, spec, options), train(2, true, spec, options), 1e-4, "accumulated");
}

TEST(TrainerOnGpu, BFloat16LearnsWithAFloat32Master) {
  ASSERT_TRUE(torch::cuda::is_available());
  run_threads(2, [](Job& job) {
    SmallNet net = own_net(1);
    net->to(at::kCUDA, at::kBFloat16);
    Trainer trainer(job, *net, adamw({.rate = 0.005}));
    double first = 0;
    double last = 0;
    for (int step = 0; step < 100; ++step) {
      TestBatch own = on_gpu(part_of(test_batch(step % 4, 48), job.rank(), 2));
      own.x = own.x.to(at::kBFloat16);
      last =
          trainer
              .step(24,
                    [&] {
                      return torch::cross_entropy_loss(net->forward(own.x).to(at::kFloat), own.y);
                    })
              .loss;
      if (step == 0) first = last;
    }
    EXPECT_LT(last, first / 5);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

// One rank: one thread per process runs the backward passes of a device, so ranks in threads cannot
// wait for each other there.
TEST(TrainerOnGpu, SyncBatchNormEqualsBatchNorm) {
  ASSERT_TRUE(torch::cuda::is_available());
  run_threads(1, [](Job& job) {
    const at::Tensor whole =
        at::arange(8 * 4 * 9, at::kFloat).view({8, 4, 3, 3}).sin().to(at::kCUDA);
    at::Tensor own = whole.clone().set_requires_grad(true);
    at::Tensor all = whole.clone().set_requires_grad(true);
    SyncBatchNorm ours(job.world(), SyncBatchNormOptions{.features = 4});
    ours->to(at::kCUDA);
    torch::nn::BatchNorm2d theirs(4);
    theirs->to(at::kCUDA);
    ours(own).square().mul(whole).sum().backward();
    theirs(all).square().mul(whole).sum().backward();
    EXPECT_TRUE(at::allclose(own.grad(), all.grad(), 1e-3, 1e-4));
  });
}

// Which way gradients take on the GPU, as far as this build and one GPU allow.
TEST(TrainerOnGpu, EveryWayToSumTrainsToTheSameModel) {
  ASSERT_TRUE(torch::cuda::is_available());
  at::globalContext().setAllowTF32CuBLAS(false);
  const OptimizerSpec spec = *parse_optimizer("adamw:rate=0.005");
  const auto expected = train(3, false, spec, {});
  for (const DeviceSums sums : {DeviceSums::kAuto, DeviceSums::kShared, DeviceSums::kHost})
    expect_near(expected, train(3, true, spec, {.device_sums = sums}), 1e-4,
                "sums " + std::to_string(static_cast<int>(sums)));
}

// Plans that keep the gradients on the GPU, and plans that take them to the host. Rounding of a
// codec may turn a difference of one bit into one of its steps.
TEST(TrainerOnGpu, PlansTrainToWhatTheyDoOnTheCpu) {
  ASSERT_TRUE(torch::cuda::is_available());
  at::globalContext().setAllowTF32CuBLAS(false);
  const OptimizerSpec spec = *parse_optimizer("momentum:rate=0.05");
  for (const char* const plan :
       {"update=bsp", "codec=bf16", "codec=fp16", "codec=int8", "codec=fp8", "codec=onebit",
        "codec=sign", "codec=topk:0.1", "codec=threshold:0.01", "codec=powersgd:2",
        "codec=int8+zstd", "update=subset:1"}) {
    const TrainerOptions options{.plan = plan};
    expect_near(train(2, false, spec, options), train(2, true, spec, options), 1e-2, plan);
  }
}

TEST(TrainerOnGpu, ShardedStateTrainsToTheSameModel) {
  ASSERT_TRUE(torch::cuda::is_available());
  at::globalContext().setAllowTF32CuBLAS(false);
  const OptimizerSpec spec = *parse_optimizer("adamw:rate=0.005");
  expect_near(train(3, true, spec, {}), train(3, true, spec, {.shard_state = true}), 1e-6,
              "shards");
}

TEST(TrainerOnGpu, RanksOfAHostTakeItsGpusInTurn) {
  ASSERT_TRUE(torch::cuda::is_available());
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  run_threads(3, [gpus](Job& job) {
    const at::Device device = device_of(job);
    EXPECT_TRUE(device.is_cuda());
    EXPECT_EQ(device.index(), job.local_rank() % gpus);
  });
}

// One rank, because ranks of one GPU cannot use NCCL; tests/process/nccl has several.
TEST(DeviceWorld, SumsATensorOnTheGpu) {
  ASSERT_TRUE(torch::cuda::is_available());
  run_threads(1, [](Job& job) {
    const std::unique_ptr<Communicator> world = device_world(job, at::Device(at::kCUDA, 0));
    const at::Tensor values = at::arange(5, at::TensorOptions(at::kCUDA).dtype(at::kFloat));
    or_throw(world->allreduce(std::span(values.data_ptr<float>(), 5)));
    EXPECT_TRUE(at::equal(values.cpu(), at::arange(5, at::kFloat)));
  });
}

TEST(TrainerOnGpu, ParametersStayOnTheGpuAtOneAddress) {
  ASSERT_TRUE(torch::cuda::is_available());
  run_threads(1, [](Job& job) {
    SmallNet net = own_net(1);
    net->to(at::kCUDA);
    Trainer trainer(job, *net, sgd());
    std::vector<void*> before;
    for (const at::Tensor& parameter : net->parameters()) {
      EXPECT_TRUE(parameter.is_cuda());
      before.push_back(parameter.data_ptr());
    }
    const TestBatch batch = on_gpu(test_batch(1, 16));
    for (int step = 0; step < 3; ++step) trainer.step(16, [&] { return loss_of(net, batch); });
    std::vector<void*> after;
    for (const at::Tensor& parameter : net->parameters()) after.push_back(parameter.data_ptr());
    EXPECT_EQ(before, after);
  });
}

TEST(TrainerOnGpu, ARestoredTrainerGoesOnWithTheSameBits) {
  ASSERT_TRUE(torch::cuda::is_available());
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("tally_trainer_gpu_{}", ::getpid());
  std::filesystem::create_directories(folder);
  const auto steps = [](Trainer& trainer, SmallNet& net, int from, int to) {
    for (int step = from; step < to; ++step) {
      const TestBatch batch = on_gpu(test_batch(step, 32));
      trainer.step(32, [&] { return loss_of(net, batch); });
    }
  };
  run_threads(1, [&](Job& job) {
    SmallNet net = own_net(1);
    net->to(at::kCUDA);
    Trainer trainer(job, *net, adamw({.rate = 0.01}));
    steps(trainer, net, 0, 4);
    auto writer = or_throw(checkpoint::Writer::make(job.world(), {.folder = folder}));
    or_throw(writer->save(trainer.checkpoint()));
    or_throw(writer->wait(soon()));
    steps(trainer, net, 4, 8);
    SmallNet again = own_net(2);
    again->to(at::kCUDA);
    Trainer restored(job, *again, adamw({.rate = 0.01}));
    const auto latest = or_throw(checkpoint::find_latest(folder));
    restored.restore(*or_throw(checkpoint::Reader::open(latest)));
    steps(restored, again, 4, 8);
    expect_same_bits(copies_of(*net), copies_of(*again), "restored");
  });
  std::filesystem::remove_all(folder);
}

// A module for graphs: buffers that change in the forward pass, and random numbers.
struct GraphNetImpl : torch::nn::Module {
  explicit GraphNetImpl(double drop = 0) : drop(drop) {
    register_module("first", first);
    register_module("norm", norm);
    register_module("last", last);
  }
  at::Tensor forward(const at::Tensor& x) {
    return last(at::dropout(at::relu(norm(first(x))), drop, is_training()));
  }
  torch::nn::Linear first{10, 64};
  torch::nn::BatchNorm1d norm{64};
  torch::nn::Linear last{64, 3};
  double drop;
};
TORCH_MODULE(GraphNet);

struct GraphRun {
  std::vector<at::Tensor> values;  // parameters, then buffers
  std::vector<double> losses;
  std::vector<std::string> events;
  int calls = 0;  // of the closure
};

GraphRun train_graph(const TrainerOptions& wanted, double drop, int steps, int odd_step = -1) {
  GraphRun run;
  run_threads(1, [&](Job& job) {
    torch::manual_seed(3);
    GraphNet net(drop);
    net->to(at::kCUDA);
    TrainerOptions options = wanted;
    options.on_event = [&run](const std::string& event) { run.events.push_back(event); };
    Trainer trainer(job, *net, sgd({.rate = 0.05, .momentum = 0.9}), options);
    TestBatch fixed = on_gpu(test_batch(0, 24));
    for (int step = 0; step < steps; ++step) {
      const std::int64_t samples = step == odd_step ? 7 : 24;
      const TestBatch batch = on_gpu(test_batch(step, samples));
      if (samples == 24) {
        fixed.x.copy_(batch.x);
        fixed.y.copy_(batch.y);
      }
      const TestBatch& used = samples == 24 ? fixed : batch;
      const StepOutcome outcome = trainer.step(static_cast<std::uint64_t>(samples), [&] {
        ++run.calls;
        return torch::cross_entropy_loss(net->forward(used.x), used.y);
      });
      run.losses.push_back(outcome.loss);
    }
    run.values = copies_of(*net);
    for (const at::Tensor& buffer : net->buffers())
      run.values.push_back(buffer.to(at::kFloat).clone());
  });
  return run;
}

// Buffers and batches of another size included.
TEST(TrainerGraphs, AReplayedStepIsTheStep) {
  ASSERT_TRUE(torch::cuda::is_available());
  at::globalContext().setAllowTF32CuBLAS(false);
  const GraphRun expected = train_graph({}, 0, 20, 11);
  const GraphRun run = train_graph({.graphs = true}, 0, 20, 11);
  expect_near(expected.values, run.values, 1e-4, "graph");
  ASSERT_EQ(expected.losses.size(), run.losses.size());
  for (std::size_t i = 0; i < run.losses.size(); ++i)
    EXPECT_NEAR(expected.losses[i], run.losses[i], 1e-4) << "step " << i;
  EXPECT_TRUE(run.events.empty()) << run.events.front();
  EXPECT_EQ(expected.calls, 20);
  EXPECT_EQ(run.calls, 5);  // three to warm up, one to capture, one with another size
}

TEST(TrainerGraphs, EveryReplayDrawsOtherRandomNumbers) {
  ASSERT_TRUE(torch::cuda::is_available());
  run_threads(1, [](Job& job) {
    torch::manual_seed(3);
    GraphNet net(0.5);
    net->to(at::kCUDA);
    Trainer trainer(job, *net, sgd({.rate = 0}), {.graphs = true});
    const TestBatch batch = on_gpu(test_batch(0, 24));
    std::set<double> losses;
    for (int step = 0; step < 12; ++step)
      losses.insert(
          trainer
              .step(24, [&] { return torch::cross_entropy_loss(net->forward(batch.x), batch.y); })
              .loss);
    EXPECT_EQ(losses.size(), 12U);
  });
}

TEST(TrainerGraphs, AStepThatCannotBeCapturedRunsAsUsual) {
  ASSERT_TRUE(torch::cuda::is_available());
  run_threads(1, [](Job& job) {
    std::vector<std::string> events;
    SmallNet net = own_net(1);
    SmallNet plain = own_net(1);
    net->to(at::kCUDA);
    plain->to(at::kCUDA);
    TrainerOptions options{.graphs = true};
    options.on_event = [&events](const std::string& event) { events.push_back(event); };
    Trainer trainer(job, *net, sgd({.rate = 0.05}), options);
    Trainer reference(job, *plain, sgd({.rate = 0.05}));
    for (int step = 0; step < 8; ++step) {
      const TestBatch batch = on_gpu(test_batch(step, 24));
      trainer.step(24, [&] {
        const at::Tensor loss = loss_of(net, batch);
        EXPECT_TRUE(std::isfinite(loss.item<double>()));  // waits for the GPU
        return loss;
      });
      reference.step(24, [&] { return loss_of(plain, batch); });
    }
    ASSERT_EQ(events.size(), 1U);
    EXPECT_NE(events[0].find("steps run without graphs: "), std::string::npos) << events[0];
    expect_near(copies_of(*net), copies_of(*plain), 1e-5, "without graphs");
  });
}

// A recording that fails must leave the random numbers of libtorch and its memory as they were.
TEST(TrainerGraphs, AfterAFailedCaptureTheModelStillDrawsRandomNumbers) {
  ASSERT_TRUE(torch::cuda::is_available());
  run_threads(1, [](Job& job) {
    std::vector<std::string> events;
    torch::manual_seed(3);
    GraphNet net(0.5);
    net->to(at::kCUDA);
    TrainerOptions options{.graphs = true};
    options.on_event = [&events](const std::string& event) { events.push_back(event); };
    Trainer trainer(job, *net, sgd({.rate = 0}), options);
    const TestBatch batch = on_gpu(test_batch(0, 24));
    std::set<double> losses;
    for (int step = 0; step < 12; ++step) {
      const StepOutcome outcome = trainer.step(24, [&] {
        const at::Tensor loss = torch::cross_entropy_loss(net->forward(batch.x), batch.y);
        EXPECT_TRUE(std::isfinite(loss.item<double>()));  // waits for the GPU
        return loss;
      });
      losses.insert(outcome.loss);
    }
    EXPECT_EQ(losses.size(), 12U);
    EXPECT_EQ(events.size(), 1U);
  });
}

TEST(TrainerGraphs, ARestoredTrainerCapturesAnew) {
  ASSERT_TRUE(torch::cuda::is_available());
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("tally_graphs_gpu_{}", ::getpid());
  std::filesystem::create_directories(folder);
  run_threads(1, [&](Job& job) {
    GraphNet net;
    net->to(at::kCUDA);
    Trainer trainer(job, *net, sgd({.rate = 0.05, .momentum = 0.9}), {.graphs = true});
    const TestBatch batch = on_gpu(test_batch(0, 24));
    int calls = 0;
    const auto losses = [&](int steps) {
      std::vector<double> of_steps;
      for (int step = 0; step < steps; ++step) {
        const StepOutcome outcome = trainer.step(24, [&] {
          ++calls;
          return torch::cross_entropy_loss(net->forward(batch.x), batch.y);
        });
        of_steps.push_back(outcome.loss);
      }
      return of_steps;
    };
    losses(6);
    auto writer = or_throw(checkpoint::Writer::make(job.world(), {.folder = folder}));
    or_throw(writer->save(trainer.checkpoint()));
    or_throw(writer->wait(soon()));
    const std::vector<double> expected = losses(6);
    trainer.restore(*or_throw(checkpoint::Reader::open(or_throw(checkpoint::find_latest(folder)))));
    const std::vector<double> again = losses(6);
    for (std::size_t i = 0; i < again.size(); ++i) EXPECT_NEAR(again[i], expected[i], 1e-4) << i;
    EXPECT_EQ(calls, 8);  // four capture a step
  });
  std::filesystem::remove_all(folder);
}

// Two shards of equal batches one after the other, and the first one again.
TEST(TrainerGraphs, EachShardIsTrainedOnItsOwnBatches) {
  ASSERT_TRUE(torch::cuda::is_available());
  at::globalContext().setAllowTF32CuBLAS(false);
  const auto run = [](bool graphs) {
    std::vector<at::Tensor> values;
    int calls = 0;
    run_threads(1, [&](Job& job) {
      torch::manual_seed(3);
      GraphNet net;
      net->to(at::kCUDA);
      Trainer trainer(job, *net, sgd({.rate = 0.05}), {.graphs = graphs});
      for (const int data : {1, 2, 1}) {
        const TestBatch all = on_gpu(test_batch(data, 240));
        for (const TensorBatch& batch : trainer.shard(all.x, all.y, {.batch = 24}))
          trainer.step(batch.size(), [&] {
            ++calls;
            return torch::cross_entropy_loss(net->forward(batch.x), batch.y);
          });
      }
      values = copies_of(*net);
    });
    EXPECT_EQ(calls, graphs ? 12 : 30);  // four calls capture the steps of a shard
    return values;
  };
  expect_near(run(false), run(true), 1e-4, "shards");
}

TEST(TrainerGraphs, RanksThatShareAGpuReplayTheirSteps) {
  ASSERT_TRUE(torch::cuda::is_available());
  at::globalContext().setAllowTF32CuBLAS(false);
  const auto run = [](bool graphs) {
    std::vector<at::Tensor> values;
    run_threads(2, [&](Job& job) {
      SmallNet net = own_net(1);
      net->to(at::kCUDA);
      Trainer trainer(job, *net, sgd({.rate = 0.05, .momentum = 0.9}), {.graphs = graphs});
      const TestBatch fixed = on_gpu(part_of(test_batch(0, 48), job.rank(), 2));
      int calls = 0;
      for (int step = 0; step < 12; ++step) {
        const TestBatch own = part_of(test_batch(step, 48), job.rank(), 2);
        fixed.x.copy_(own.x);
        fixed.y.copy_(own.y);
        trainer.step(24, [&] {
          ++calls;
          return loss_of(net, fixed);
        });
      }
      EXPECT_EQ(calls, graphs ? 4 : 12);
      if (job.rank() == 0) values = copies_of(*net);
      ASSERT_TRUE(job.world().barrier().has_value());
    });
    return values;
  };
  expect_near(run(false), run(true), 1e-4, "two ranks");
}

TEST(TrainerGraphs, PlansAndOptionsThatCannotBeCapturedAreNamed) {
  ASSERT_TRUE(torch::cuda::is_available());
  const auto reason = [](TrainerOptions options) {
    options.graphs = true;
    const GraphRun run = train_graph(options, 0, 6);
    return run.events.empty() ? std::string("no events") : run.events.back();
  };
  EXPECT_NE(reason({.plan = "update=subset:1"}).find("gradients leave the GPU"), std::string::npos);
  EXPECT_NE(reason({.accumulate = 2}).find("accumulate"), std::string::npos);
  EXPECT_NE(reason({.loss_scale = LossScale{}}).find("loss scaling"), std::string::npos);
  EXPECT_NE(reason({.delay = "constant:1ms"}).find("delays"), std::string::npos);
}

}  // namespace
}  // namespace tally::adapter
