#include "exchange/group/bucket_accumulator.h"

#include <gtest/gtest.h>

#include "collective/test_jobs.h"
#include "soon.h"

namespace tally::exchange {
namespace {

using collective::Network;
using collective::run_ranks;

// One bucket of two parameters, with 40 and 20 elements.
std::unique_ptr<ModelMemory> one_bucket(Job& job, const Tiers& tiers) {
  const std::vector<ParameterInfo> parameters = {{.name = "a", .shape = {40}},
                                                 {.name = "b", .shape = {20}}};
  const std::vector<std::size_t> order = {0, 1};
  const auto factory = shared_memory(job.world(), tiers);
  auto made =
      ModelMemory::make(*factory, tiers.local, make_layout(parameters, order, 1 << 20), 2, soon());
  EXPECT_TRUE(made.has_value());
  return std::move(*made);
}

// g1 = 1 with 2 samples and g2 = 4 with 6 samples have the average (2 + 24) / 8.
TEST(BucketAccumulator, AveragesBySamplesOnceAllRanksHaveClosed) {
  run_ranks(Network::kInProcess, 2, [](Job& job) {
    const Tiers tiers = *find_tiers(job.world(), Replicas::kPerHost, soon());
    const auto memory = one_bucket(job, tiers);
    BucketAccumulator bucket(*memory, 0, tiers.local, tiers.locals());
    auto* const own = reinterpret_cast<float*>(memory->gradient_bucket(0, tiers.local));
    const std::size_t count = memory->layout().buckets[0].count;
    std::fill_n(own, count, job.rank() == 0 ? 1.0F : 4.0F);
    const double samples = job.rank() == 0 ? 2 : 6;
    memory->flags(tiers.local).weigh(samples, samples);
    EXPECT_FALSE(bucket.add(1, nullptr));
    EXPECT_FALSE(bucket.is_full());
    EXPECT_TRUE(bucket.add(0, nullptr));
    EXPECT_TRUE(bucket.is_full());
    EXPECT_FALSE(bucket.add(0, nullptr)) << "a gradient counts once";
    if (job.rank() == 0) {
      bucket.close(1);
      EXPECT_FALSE(bucket.is_complete(1)) << "rank 1 has not closed";
    }
    ASSERT_TRUE(job.world().barrier().has_value());
    if (job.rank() == 1) bucket.close(1);
    ASSERT_TRUE(job.world().barrier().has_value());
    EXPECT_TRUE(bucket.is_complete(1));
    EXPECT_FALSE(bucket.is_complete(2)) << "the flags are those of one step";
    EXPECT_EQ(bucket.samples(), 8);
    std::vector<float> average(10);
    bucket.sum<float>(8)({30, 40}, average.data());
    for (const float value : average) EXPECT_FLOAT_EQ(value, 26.0F / 8);
    ASSERT_TRUE(job.world().barrier().has_value());
    bucket.clear();
    EXPECT_FALSE(bucket.has(0));
  });
}

// Each rank has the gradients of the two parameters in other places; rank 0 has none for b.
TEST(BucketAccumulator, ReadsTheGradientsOfNeighboursWhereverTheyLie) {
  run_ranks(Network::kInProcess, 2, [](Job& job) {
    const Tiers tiers = *find_tiers(job.world(), Replicas::kPerHost, soon());
    const auto factory = shared_memory(job.world(), tiers);
    const auto memory = one_bucket(job, tiers);
    BucketAccumulator bucket(*memory, 0, tiers.local, tiers.locals());
    const std::span<std::byte> more = *memory->add_gradients(*factory, 40 * sizeof(float));
    EXPECT_TRUE(memory->has_gradients(more));
    EXPECT_FALSE(memory->has_gradients({more.data() + 1, more.size()}));
    auto* const a = reinterpret_cast<float*>(more.data());
    auto* const b = reinterpret_cast<float*>(memory->gradient_bucket(0, tiers.local)) + 7;
    std::fill_n(a, 40, job.rank() == 0 ? 1.0F : 4.0F);
    std::fill_n(b, 20, 9.0F);
    memory->flags(tiers.local).weigh(1, 1);
    bucket.add(0, more.data());
    if (job.rank() == 1) bucket.add(1, reinterpret_cast<const std::byte*>(b));
    bucket.publish_missing();
    bucket.close(1);
    ASSERT_TRUE(job.world().barrier().has_value());
    const BucketLayout& layout = memory->layout().buckets[0];
    std::vector<float> sum(layout.count);
    bucket.sum<float>(1)({0, layout.count}, sum.data());
    for (const BucketLayout::Entry& entry : layout.entries)
      for (std::size_t i = entry.range.begin; i < entry.range.end; ++i)
        EXPECT_EQ(sum[i], entry.parameter == 0 ? 5.0F : 9.0F);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

// The gradient of one parameter lies elsewhere, that of the other was not added.
TEST(BucketAccumulator, ReadsGradientsElsewhereAndZeroesThoseThatAreMissing) {
  run_ranks(Network::kInProcess, 1, [](Job& job) {
    const Tiers tiers = *find_tiers(job.world(), Replicas::kPerHost, soon());
    const auto memory = one_bucket(job, tiers);
    BucketAccumulator bucket(*memory, 0, 0, 1);
    const BucketLayout& layout = memory->layout().buckets[0];
    std::fill_n(reinterpret_cast<float*>(memory->gradient_bucket(0, 0)), layout.count, 9.0F);
    std::vector<float> elsewhere(40);
    for (std::size_t i = 0; i < elsewhere.size(); ++i) elsewhere[i] = static_cast<float>(i);
    memory->flags(0).weigh(3, 3);
    bucket.add(0, reinterpret_cast<const std::byte*>(elsewhere.data()));
    bucket.publish_missing();
    std::vector<float> sum(layout.count, -1.0F);
    bucket.sum<float>(3)({0, layout.count}, sum.data());
    for (const BucketLayout::Entry& entry : layout.entries)
      for (std::size_t i = entry.range.begin; i < entry.range.end; ++i)
        EXPECT_EQ(sum[i], entry.parameter == 0 ? static_cast<float>(i - entry.range.begin) : 0.0F);
  });
}

}  // namespace
}  // namespace tally::exchange
