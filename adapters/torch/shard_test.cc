#include <algorithm>
#include <filesystem>
#include <mutex>

#include <gmock/gmock.h>

#include "adapters/torch/tensors.h"
#include "adapters/torch/test_nets.h"
#include "checkpoint/test_content.h"
#include "soon.h"

namespace tally::adapter {
namespace {

TEST(Shard, EverySampleComesOncePerEpochOverAllRanks) {
  std::mutex mutex;
  std::vector<std::int64_t> seen;
  std::vector<std::uint64_t> steps(3);
  run_threads(3, [&](Job& job) {
    const at::Tensor x = at::arange(22, at::kLong);
    for (const TensorBatch& batch : shard(job, x, x * 2, {.batch = 4, .epochs = 2})) {
      const std::lock_guard lock(mutex);
      ++steps[static_cast<std::size_t>(job.rank())];
      EXPECT_TRUE(at::equal(batch.x * 2, batch.y));
      const auto* const values = batch.x.data_ptr<std::int64_t>();
      seen.insert(seen.end(), values, values + batch.size());
    }
  });
  EXPECT_THAT(steps, testing::Each(4));
  std::sort(seen.begin(), seen.end());
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 0; i < 22; ++i) expected.insert(expected.end(), 2, i);
  EXPECT_EQ(seen, expected);
}

// A training that continues from the checkpoint in a folder, if there is one, stops after `stop`
// updates and saves.
struct ShardRun {
  int ranks = 1;
  std::uint64_t batch = 4;
  std::uint64_t stop = 1000;
  std::size_t stop_call = 1000;  // of step()
  bool restore_first = true;     // before the shard is made
  int accumulate = 1;
};
// The samples of every step, over all ranks and sorted.
std::vector<std::vector<std::int64_t>> steps_of(const ShardRun& run,
                                                const std::filesystem::path& folder) {
  std::mutex mutex;
  std::vector<std::vector<std::int64_t>> steps;
  run_threads(run.ranks, [&](Job& job) {
    const at::Tensor x = at::arange(22, at::kFloat).unsqueeze(1);
    torch::nn::Linear net(1, 1);
    Trainer trainer(job, *net, sgd({.rate = 1e-6}), {.accumulate = run.accumulate});
    const bool resumes = !checkpoint::list_steps(folder).empty();
    const auto restore = [&] {
      if (resumes)
        trainer.restore(
            *or_throw(checkpoint::Reader::open(or_throw(checkpoint::find_latest(folder)))));
    };
    if (run.restore_first) restore();
    Shard shard = trainer.shard(x, x, {.batch = run.batch, .epochs = 2});
    if (!run.restore_first) restore();
    std::size_t step = 0;
    for (const TensorBatch& batch : shard) {
      // Batches after the last update are taken, and not trained with.
      if (trainer.steps() == run.stop || step == run.stop_call) break;
      {
        const std::lock_guard lock(mutex);
        if (steps.size() <= step) steps.resize(step + 1);
        const auto* const values = batch.x.data_ptr<float>();
        steps[step].insert(steps[step].end(), values, values + batch.size());
      }
      ++step;
      trainer.step(batch.size(), [&] { return torch::mse_loss(net(batch.x), batch.y); });
    }
    auto writer = or_throw(checkpoint::Writer::make(job.world(), {.folder = folder}));
    or_throw(writer->save(trainer.checkpoint()));
    or_throw(writer->wait(soon()));
    ASSERT_TRUE(job.world().barrier().has_value());
  });
  for (auto& step : steps) std::sort(step.begin(), step.end());
  return steps;
}

// 22 samples in steps of 8 are 8, 8 and 6: three steps per epoch.
TEST(TrainerShard, ContinuesAfterTheLastUpdateWithAnyNumberOfRanks) {
  const checkpoint::TestFolder unused;
  const auto whole = steps_of({.ranks = 2, .batch = 4}, unused.path());
  ASSERT_EQ(whole.size(), 6U);
  for (const std::uint64_t stop : {1U, 3U, 4U, 6U}) {
    for (const int ranks : {1, 2, 4}) {
      const checkpoint::TestFolder folder;
      auto seen = steps_of({.ranks = 2, .batch = 4, .stop = stop}, folder.path());
      ASSERT_EQ(seen.size(), stop);
      const auto rest = steps_of({.ranks = ranks,
                                  .batch = 8 / static_cast<std::uint64_t>(ranks),
                                  .restore_first = ranks != 2},
                                 folder.path());
      seen.insert(seen.end(), rest.begin(), rest.end());
      EXPECT_EQ(seen, whole) << "stopped after " << stop << ", continued with " << ranks;
    }
  }
}

TEST(TrainerShard, RepeatsTheBatchesOfAnAccumulationThatWasNotApplied) {
  const checkpoint::TestFolder unused;
  const auto whole = steps_of({.batch = 4, .accumulate = 3}, unused.path());
  ASSERT_EQ(whole.size(), 12U);  // four updates
  const checkpoint::TestFolder folder;
  auto seen = steps_of({.batch = 4, .stop_call = 5, .accumulate = 3}, folder.path());
  ASSERT_EQ(seen.size(), 5U);
  seen.resize(3);  // those of the only update
  const auto rest = steps_of({.batch = 4, .accumulate = 3}, folder.path());
  seen.insert(seen.end(), rest.begin(), rest.end());
  EXPECT_EQ(seen, whole);
}

// Graphs need the batches in the same tensors; on the CPU there are none.
TEST(TrainerShard, BatchesThatAProgramKeepsStayAsTheyAreWithoutGraphs) {
  run_threads(1, [](Job& job) {
    torch::nn::Linear net(1, 1);
    Trainer trainer(job, *net, sgd({.rate = 1e-6}), {.graphs = true});
    const at::Tensor x = at::arange(22, at::kFloat).unsqueeze(1);
    std::vector<at::Tensor> kept;
    for (const TensorBatch& batch : trainer.shard(x, x * 2, {.batch = 4, .epochs = 2})) {
      EXPECT_TRUE(at::equal(batch.x * 2, batch.y));
      kept.push_back(batch.x);
    }
    const at::Tensor seen = std::get<0>(at::cat(kept).flatten().sort());
    EXPECT_TRUE(at::equal(seen, x.flatten().repeat_interleave(2)));
  });
}

TEST(DeviceOf, IsTheCpuWhereLibtorchSeesNoGpu) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is a GPU";
  run_threads(2, [](Job& job) { EXPECT_EQ(device_of(job), at::Device(at::kCPU)); });
}

TEST(DeviceWorld, IsRefusedOnTheCpuWithWhatToUse) {
  run_threads(1, [](Job& job) {
    try {
      device_world(job, at::kCPU);
      FAIL() << "no failure";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().code, ErrorCode::kInvalid);
      EXPECT_THAT(failure.what(), testing::HasSubstr("job.world()"));
    }
  });
}

TEST(TrainerShard, OfOtherDataIsRefusedInTheMiddleOfAnEpoch) {
  const checkpoint::TestFolder folder;
  steps_of({.batch = 8, .stop = 1}, folder.path());
  const checkpoint::TestFolder at_start;
  steps_of({.batch = 8, .stop = 3}, at_start.path());
  run_threads(1, [&](Job& job) {
    torch::nn::Linear net(1, 1);
    Trainer trainer(job, *net, sgd({.rate = 1e-6}));
    const at::Tensor x = at::zeros({22, 1});
    trainer.restore(*or_throw(checkpoint::Reader::open(checkpoint::path_of(folder.path(), 1))));
    const auto refusal = [&](const at::Tensor& data, const ShardOptions& options) -> std::string {
      try {
        trainer.shard(data, data, options);
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.error().code, ErrorCode::kMismatch);
        return failure.what();
      }
      return "accepted";
    };
    EXPECT_THAT(refusal(at::zeros({30, 1}), {}),
                testing::HasSubstr("in the middle of an epoch of 22 samples with seed 1, and this "
                                   "shard has 30 samples with seed 1"));
    EXPECT_THAT(refusal(x, {.seed = 2}), testing::HasSubstr("has 22 samples with seed 2"));
    EXPECT_THAT(refusal(x, {.shuffle = false}), testing::HasSubstr("in their own order"));
    EXPECT_EQ(refusal(x, {.epochs = 2}), "accepted");
    Trainer other(job, *torch::nn::Linear(1, 1), sgd({.rate = 1e-6}));
    other.restore(*or_throw(checkpoint::Reader::open(checkpoint::path_of(at_start.path(), 3))));
    const at::Tensor more = at::zeros({30, 1});
    std::vector<std::uint64_t> epochs;
    for (const TensorBatch& batch : other.shard(more, more, {.batch = 15, .epochs = 2}))
      epochs.push_back(batch.epoch * 2 + (batch.ends_epoch ? 1 : 0));
    EXPECT_THAT(epochs, testing::ElementsAre(2, 3));
  });
}

// Ranks that divide the data differently would read some samples twice and others never.
TEST(TrainerShard, OfRanksThatDisagreeIsRefused) {
  run_threads(2, [](Job& job) {
    torch::nn::Linear net(1, 1);
    Trainer trainer(job, *net, sgd());
    const auto refusal = [&](std::int64_t samples, const ShardOptions& options) -> std::string {
      const at::Tensor x = at::zeros({samples, 1});
      try {
        trainer.shard(x, x, options);
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.error().code, ErrorCode::kMismatch);
        return failure.what();
      }
      return "accepted";
    };
    const bool second = job.rank() == 1;
    EXPECT_THAT(refusal(22, {.seed = second ? 2U : 1U}),
                testing::HasSubstr("of rank 1 is 22 samples with seed 2, of rank 0 22 samples with "
                                   "seed 1"));
    EXPECT_THAT(refusal(second ? 22 : 30, {}), testing::HasSubstr("22 samples"));
    EXPECT_THAT(refusal(22, {.batch = second ? 8U : 4U}), testing::HasSubstr("batch 8"));
    EXPECT_THAT(refusal(22, {.epochs = second ? 2 : 1}), testing::HasSubstr("epochs 2"));
    EXPECT_EQ(refusal(22, {}), "accepted");
  });
}

TEST(Shard, DataThatDoNotBelongTogetherAreRefused) {
  run_threads(1, [](Job& job) {
    EXPECT_THROW(shard(job, at::zeros({3}), at::zeros({4})), Failure);
    EXPECT_THROW(shard(job, at::zeros({3}), at::zeros({3}), {.batch = 0}), Failure);
    std::uint64_t batches = 0;
    for (const TensorBatch& batch : shard(job, at::zeros({0, 2}), at::zeros({0})))
      batches += batch.size() + 1;
    EXPECT_EQ(batches, 0U);
  });
}

}  // namespace
}  // namespace tally::adapter
