#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/communicator_conformance.h"
#include "kernel/reduce/reduce.h"

namespace tally::collective {
namespace {

template <typename T>
void check_type(Communicator& world, ReduceOp op) {
  const std::vector<T> input = inputs<T>(world.rank(), 257);
  std::vector<T> output(input.size());
  ASSERT_TRUE(world.allreduce(std::span<const T>(input), std::span<T>(output), op).has_value());
  for (std::size_t i = 0; i < output.size(); ++i) {
    const double exact = combined(op, world.size(), i);
    if constexpr (std::is_integral_v<T>) {
      ASSERT_EQ(output[i], static_cast<T>(static_cast<std::int64_t>(exact))) << i;
    } else {
      ASSERT_NEAR(static_cast<double>(output[i]), exact, exact * 1e-6) << i;
    }
  }
}

TEST_P(CommunicatorConformance, AllreduceCombinesEveryTypeByEveryOperation) {
  run([](Communicator& world) {
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      check_type<float>(world, op);
      check_type<double>(world, op);
      check_type<std::int8_t>(world, op);
      check_type<std::uint8_t>(world, op);
      check_type<std::int32_t>(world, op);
      check_type<std::int64_t>(world, op);
    }
  });
}

// 1, 2, 3 and 4 are exact in both half types, and so are sums of a few of them.
TEST_P(CommunicatorConformance, AllreduceAddsHalfTypes) {
  run([](Communicator& world) {
    for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
      const std::uint16_t one = type == DataType::kFloat16 ? 0x3C00 : 0x3F80;
      std::vector<std::uint16_t> data(1000, one);
      ASSERT_TRUE(world
                      .run({.operation = Operation::kAllreduce,
                            .input = data.data(),
                            .output = data.data(),
                            .count = data.size(),
                            .type = type})
                      .has_value());
      // The same sum by the reference kernels.
      std::uint16_t expected = one;
      for (int rank = 1; rank < world.size(); ++rank)
        kernel::reference_kernels().combine(type, ReduceOp::kSum, &expected, &one, 1);
      EXPECT_THAT(data, testing::Each(expected));
    }
  });
}

TEST_P(CommunicatorConformance, EveryAlgorithmSumsEveryCountInAndOutOfPlace) {
  run([this](Communicator& world) {
    for (const Algorithm algorithm : algorithms()) {
      for (const std::size_t count : counts()) {
        const std::vector<float> input = inputs<float>(world.rank(), count);
        std::vector<float> expected(count);
        for (std::size_t i = 0; i < count; ++i)
          expected[i] = static_cast<float>(combined(ReduceOp::kSum, world.size(), i));
        std::vector<float> output(count, -1.0F);
        const auto apart = world.allreduce(std::span<const float>(input), std::span<float>(output),
                                           ReduceOp::kSum, {.algorithm = algorithm});
        ASSERT_TRUE(apart.has_value()) << to_string(apart.error());
        ASSERT_EQ(output, expected) << to_string(algorithm) << " " << count;
        std::vector<float> same = input;
        ASSERT_TRUE(
            world.allreduce(std::span<float>(same), ReduceOp::kSum, {.algorithm = algorithm})
                .has_value());
        ASSERT_EQ(same, expected) << to_string(algorithm) << " " << count;
      }
    }
  });
}

// The vectors are long enough that steps of the ring overlap and frames wait for a slower rank.
TEST_P(CommunicatorConformance, LongVectorsAreSummedInSegments) {
  const std::vector<Algorithm> offered = algorithms();
  const bool has_ring =
      std::find(offered.begin(), offered.end(), Algorithm::kRing) != offered.end();
  const Algorithm ring = has_ring ? Algorithm::kRing : Algorithm::kAuto;
  run([ring](Communicator& world) {
    constexpr std::size_t kCount = 1'500'001;
    const std::vector<float> input = inputs<float>(world.rank(), kCount);
    std::vector<float> expected(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      expected[i] = static_cast<float>(combined(ReduceOp::kSum, world.size(), i)) /
                    static_cast<float>(world.size());
    std::vector<float> output(kCount, -1.0F);
    const auto apart = world.allreduce(std::span<const float>(input), std::span<float>(output),
                                       ReduceOp::kAverage, {.algorithm = ring});
    ASSERT_TRUE(apart.has_value()) << to_string(apart.error());
    EXPECT_TRUE(output == expected);
    std::vector<float> same = input;
    const auto in_place =
        world.allreduce(std::span<float>(same), ReduceOp::kAverage, {.algorithm = ring});
    ASSERT_TRUE(in_place.has_value()) << to_string(in_place.error());
    EXPECT_TRUE(same == expected);
  });
}

TEST_P(CommunicatorConformance, SharedAndUnalignedMemoryGiveTheSameSums) {
  run([this](Communicator& world) {
    auto buffer = world.allocate(400004);
    ASSERT_TRUE(buffer.has_value()) << to_string(buffer.error());
    for (const Algorithm algorithm : algorithms()) {
      for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
        const std::size_t count = 99001;
        const std::vector<float> input = inputs<float>(world.rank(), count);
        std::byte* const place = buffer->bytes().data() + offset;
        std::memcpy(place, input.data(), count * sizeof(float));
        const auto outcome = world.run({.operation = Operation::kAllreduce,
                                        .input = place,
                                        .output = place,
                                        .count = count,
                                        .type = DataType::kFloat32,
                                        .algorithm = algorithm});
        ASSERT_TRUE(outcome.has_value()) << to_string(outcome.error());
        std::vector<float> output(count);
        std::memcpy(output.data(), place, count * sizeof(float));
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(output[i], static_cast<float>(combined(ReduceOp::kSum, world.size(), i))) << i;
      }
    }
  });
}

// Some ranks use shared memory and others private memory; all ranks get the same sum.
TEST_P(CommunicatorConformance, MixedMemoryGivesTheSameSums) {
  run([](Communicator& world) {
    const std::size_t count = 300007;
    auto shared = world.allocate(count * sizeof(float));
    ASSERT_TRUE(shared.has_value());
    std::vector<float> own(count);
    const std::span<float> data =
        world.rank() % 2 == 0 ? shared->as<float>() : std::span<float>(own);
    const std::vector<float> input = inputs<float>(world.rank(), count);
    std::copy(input.begin(), input.end(), data.begin());
    ASSERT_TRUE(world.allreduce(data).has_value());
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(data[i], static_cast<float>(combined(ReduceOp::kSum, world.size(), i))) << i;
  });
}

// Values whose sum depends on the order of addition.
std::vector<float> awkward(Rank rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::ldexp(1.0F + static_cast<float>(i % 97) / 97.0F,
                           (rank * 11 + static_cast<int>(i)) % 30 - 15);
  return values;
}

TEST_P(CommunicatorConformance, AllRanksAndAllRunsGetTheSameBits) {
  const std::size_t count = 50021;
  const std::size_t bytes = count * sizeof(float);
  // Indexed by algorithm and rank; the results of other processes stay empty.
  std::array<std::vector<std::vector<float>>, 2> results;
  for (auto& result : results) {
    result.resize(algorithms().size() * static_cast<std::size_t>(ranks()));
    run([&](Communicator& world) {
      std::size_t slot = static_cast<std::size_t>(world.rank());
      for (const Algorithm algorithm : algorithms()) {
        std::vector<float> data = awkward(world.rank(), count);
        ASSERT_TRUE(
            world.allreduce(std::span<float>(data), ReduceOp::kAverage, {.algorithm = algorithm})
                .has_value());
        std::vector<float> of_rank_0 = data;
        ASSERT_TRUE(world.broadcast(std::span<float>(of_rank_0), 0).has_value());
        ASSERT_EQ(std::memcmp(data.data(), of_rank_0.data(), bytes), 0) << to_string(algorithm);
        result[slot] = std::move(data);
        slot += static_cast<std::size_t>(world.size());
      }
    });
  }
  for (std::size_t slot = 0; slot < results[0].size(); ++slot) {
    ASSERT_EQ(results[0][slot].size(), results[1][slot].size());
    if (results[0][slot].empty()) continue;
    ASSERT_EQ(std::memcmp(results[0][slot].data(), results[1][slot].data(),
                          results[0][slot].size() * sizeof(float)),
              0);
  }
}

// The traffic of this rank during one all-reduce of `count` elements.
Traffic cost_of(Communicator& world, std::size_t count, Algorithm algorithm) {
  const Traffic before = world.traffic();
  std::vector<float> data(count, 1.0F);
  EXPECT_TRUE(world.allreduce(std::span<float>(data), ReduceOp::kSum, {.algorithm = algorithm})
                  .has_value());
  const Traffic after = world.traffic();
  return {.operations = after.operations - before.operations,
          .steps = after.steps - before.steps,
          .messages_sent = after.messages_sent - before.messages_sent,
          .bytes_sent = after.bytes_sent - before.bytes_sent};
}

TEST_P(CommunicatorConformance, TrafficMatchesTheFormulas) {
  run([this](Communicator& world) {
    const auto n = static_cast<std::uint64_t>(world.size());
    const std::uint64_t count = 64 * n;
    const std::uint64_t bytes = count * sizeof(float);
    const Traffic ring = cost_of(world, count, Algorithm::kRing);
    EXPECT_EQ(ring.operations, 1U);
    EXPECT_EQ(ring.steps, 2 * (n - 1));
    EXPECT_EQ(ring.messages_sent, 2 * (n - 1));
    EXPECT_EQ(ring.bytes_sent, 2 * (n - 1) * bytes / n);
    if ((n & (n - 1)) == 0) {
      const Traffic halving = cost_of(world, count, Algorithm::kHalvingDoubling);
      const auto rounds = static_cast<std::uint64_t>(std::log2(n));
      EXPECT_EQ(halving.steps, 2 * rounds);
      EXPECT_EQ(halving.messages_sent, 2 * rounds);
      EXPECT_EQ(halving.bytes_sent, 2 * (n - 1) * bytes / n);
    }
    if (one_host()) {
      EXPECT_EQ(cost_of(world, count, Algorithm::kDirect).messages_sent, 0U);
    }
  });
}

TEST_P(CommunicatorConformance, ReduceScatterGivesEachRankItsPart) {
  run([](Communicator& world) {
    const auto n = static_cast<std::size_t>(world.size());
    for (const std::size_t each :
         {std::size_t{0}, std::size_t{1}, std::size_t{777}, std::size_t{60000}}) {
      const std::vector<float> input = inputs<float>(world.rank(), each * n);
      std::vector<float> part(each);
      ASSERT_TRUE(
          world.reduce_scatter(std::span<const float>(input), std::span<float>(part)).has_value());
      for (std::size_t i = 0; i < each; ++i) {
        const std::size_t at = static_cast<std::size_t>(world.rank()) * each + i;
        ASSERT_EQ(part[i], static_cast<float>(combined(ReduceOp::kSum, world.size(), at)));
      }
    }
  });
}

// Rank r has 3r + 1 elements, except that rank 1 has none.
std::vector<std::size_t> uneven(int ranks) {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < ranks; ++rank)
    counts.push_back(rank == 1 ? 0 : static_cast<std::size_t>(rank) * 30000 + 1);
  return counts;
}

TEST_P(CommunicatorConformance, UnequalPartsAreScatteredAndGathered) {
  run([](Communicator& world) {
    const std::vector<std::size_t> counts = uneven(world.size());
    const auto rank = static_cast<std::size_t>(world.rank());
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    const std::size_t before =
        std::accumulate(counts.begin(), counts.begin() + world.rank(), std::size_t{0});
    const std::vector<float> input = inputs<float>(world.rank(), total);
    std::vector<float> part(counts[rank]);
    ASSERT_TRUE(world
                    .run({.operation = Operation::kReduceScatter,
                          .input = input.data(),
                          .output = part.data(),
                          .type = DataType::kFloat32,
                          .counts = counts})
                    .has_value());
    std::vector<float> all(total);
    ASSERT_TRUE(world
                    .run({.operation = Operation::kAllgather,
                          .input = part.data(),
                          .output = all.data(),
                          .type = DataType::kFloat32,
                          .counts = counts})
                    .has_value());
    for (std::size_t i = 0; i < part.size(); ++i)
      ASSERT_EQ(part[i], static_cast<float>(combined(ReduceOp::kSum, world.size(), before + i)));
    for (std::size_t i = 0; i < total; ++i)
      ASSERT_EQ(all[i], static_cast<float>(combined(ReduceOp::kSum, world.size(), i)));
  });
}

TEST_P(CommunicatorConformance, RootedOperationsWorkFromEveryRoot) {
  run([](Communicator& world) {
    const std::size_t count = 40001;
    const auto n = static_cast<std::size_t>(world.size());
    for (Rank root = 0; root < world.size(); ++root) {
      std::vector<float> data = inputs<float>(world.rank(), count);
      ASSERT_TRUE(world.broadcast(std::span<float>(data), root).has_value());
      ASSERT_EQ(data, inputs<float>(root, count));

      const std::vector<float> own = inputs<float>(world.rank(), count);
      std::vector<float> sum(world.rank() == root ? count : 0);
      ASSERT_TRUE(world
                      .run({.operation = Operation::kReduce,
                            .input = own.data(),
                            .output = sum.data(),
                            .count = count,
                            .type = DataType::kFloat32,
                            .root = root})
                      .has_value());
      for (std::size_t i = 0; i < sum.size(); ++i)
        ASSERT_EQ(sum[i], static_cast<float>(combined(ReduceOp::kSum, world.size(), i)));

      std::vector<float> all(world.rank() == root ? count * n : 0);
      ASSERT_TRUE(world
                      .run({.operation = Operation::kGather,
                            .input = own.data(),
                            .output = all.data(),
                            .count = count,
                            .type = DataType::kFloat32,
                            .root = root})
                      .has_value());
      std::vector<float> back(count);
      ASSERT_TRUE(world
                      .run({.operation = Operation::kScatter,
                            .input = all.data(),
                            .output = back.data(),
                            .count = count,
                            .type = DataType::kFloat32,
                            .root = root})
                      .has_value());
      ASSERT_EQ(back, own);
    }
  });
}

TEST_P(CommunicatorConformance, AllToAllTransposes) {
  run([](Communicator& world) {
    const auto n = static_cast<std::size_t>(world.size());
    const auto me = static_cast<std::size_t>(world.rank());
    // Rank a sends a + 2b + 1 elements to rank b.
    std::vector<std::size_t> to_send;
    std::vector<std::size_t> to_receive;
    for (std::size_t other = 0; other < n; ++other) {
      to_send.push_back(me + 2 * other + 1);
      to_receive.push_back(other + 2 * me + 1);
    }
    std::vector<std::int32_t> input;
    std::vector<std::int32_t> expected;
    for (std::size_t other = 0; other < n; ++other) {
      input.insert(input.end(), to_send[other], static_cast<std::int32_t>(100 * me + other));
      expected.insert(expected.end(), to_receive[other],
                      static_cast<std::int32_t>(100 * other + me));
    }
    std::vector<std::int32_t> output(expected.size());
    ASSERT_TRUE(world
                    .run({.operation = Operation::kAllToAll,
                          .input = input.data(),
                          .output = output.data(),
                          .type = DataType::kInt32,
                          .counts = to_send,
                          .receive_counts = to_receive})
                    .has_value());
    EXPECT_EQ(output, expected);
  });
}

}  // namespace
}  // namespace tally::collective
