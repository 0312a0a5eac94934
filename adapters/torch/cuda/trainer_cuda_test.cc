// The trainer on a GPU: gradients are staged through host memory. Built only if libtorch has CUDA.
#include "adapters/torch/test_nets.h"

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

}  // namespace
}  // namespace tally::adapter
