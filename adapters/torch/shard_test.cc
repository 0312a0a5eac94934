#include <algorithm>
#include <mutex>

#include <gmock/gmock.h>

#include "adapters/torch/test_nets.h"

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
