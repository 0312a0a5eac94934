#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/device/device_exchange_test_support.h"
#include "kernel/reduce/reduce.h"

// Sharded optimizer state of a DeviceExchange, compared with replicated state.
namespace tally::exchange {
namespace {

using collective::Network;
using collective::run_ranks;

class DeviceShardsOf : public testing::TestWithParam<std::string> {};

TEST_P(DeviceShardsOf, HaveTheBitsOfReplicatedState) {
  for (const bool clips : {false, true}) {
    auto options = encoded_model("none", *parse_optimizer(GetParam()));
    if (clips) options.clip_norm = 0.5;
    if (clips) options.clip_value = 0.02;
    options.discards_nonfinite = clips;
    Course course{.steps = 5};
    course.has = [](std::size_t p, Rank rank, int step) {
      return p != 3 || (step != 1 && (step != 2 || rank == 0));
    };
    course.samples = [](Rank rank, int step) {
      return rank == 1 && step == 3 ? 0.0 : 8 + 3.0 * rank;
    };
    for (const int ranks : {1, 2, 5}) {
      const auto expected = train_on_devices(Network::kInProcess, ranks, options, course);
      const auto sharded =
          train_on_devices(Network::kInProcess, ranks, options, course, {.shards_state = true});
      for (std::size_t rank = 0; rank < sharded.size(); ++rank)
        EXPECT_TRUE(sharded[rank] == expected[0]) << ranks << " ranks, rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceShardsOf,
                         testing::Values("sgd:rate=0.1", "momentum:rate=0.1,decay=0.01",
                                         "nesterov:rate=0.1", "adagrad:initial=0.1",
                                         "adam:rate=0.01", "adamw:rate=0.01", "lamb:rate=0.01",
                                         "lars:rate=0.1", "ftrl:l1=0.001"),
                         [](const auto& each) {
                           return each.param.substr(0, each.param.find(':'));
                         });

// The bytes of a parameter of an odd number of half values, after some steps.
std::vector<std::byte> train_halves(int ranks, bool shards, const OptimizerSpec& optimizer) {
  const GroupUpdate::Options options{
      .parameters = {{.name = "w", .type = DataType::kBFloat16, .shape = {3, 12345}},
                     {.name = "v", .type = DataType::kBFloat16, .shape = {77}}},
      .optimizers = {optimizer},
      .bucket_bytes = 1};
  std::vector<std::byte> result;
  run_ranks(Network::kInProcess, ranks, [&](Job& job) {
    auto made =
        DeviceExchange::make(job.world(),
                             {.update = options,
                              .device = host_device(),
                              .make_sum = host_sum_maker(),
                              .shards_state = shards,
                              .initial =
                                  [](std::size_t, std::span<std::byte> values) {
                                    const std::vector<float> ones(values.size() / 2, 1.0F);
                                    kernel::kernels().narrow(DataType::kBFloat16, ones.data(),
                                                             values.data(), ones.size());
                                  }},
                             soon());
    ASSERT_TRUE(made.has_value());
    for (int step = 0; step < 5; ++step) {
      const StepContribution contribution{.samples = 2, .weight = 2, .rates = {optimizer.rate}};
      std::vector<std::vector<std::byte>> gradients;
      ASSERT_TRUE((*made)->announce(contribution).has_value());
      for (std::size_t p = 0; p < 2; ++p) {
        std::vector<float> gradient;
        for (std::size_t i = 0; i < options.parameters[p].count(); ++i)
          gradient.push_back(gradient_value(p, i, step, job.rank()));
        gradients.emplace_back(gradient.size() * 2);
        kernel::kernels().narrow(DataType::kBFloat16, gradient.data(), gradients.back().data(),
                                 gradient.size());
        ASSERT_TRUE((*made)->ready(p, gradients.back().data()).has_value());
      }
      ASSERT_TRUE((*made)->complete(contribution).has_value());
    }
    if (job.rank() == ranks - 1)
      for (std::size_t p = 0; p < 2; ++p)
        result.insert(result.end(), (*made)->values(p).begin(), (*made)->values(p).end());
    EXPECT_TRUE(job.world().barrier().has_value());
  });
  return result;
}

TEST(DeviceShards, OfHalfTypesHaveTheirMasterCopies) {
  for (const OptimizerSpec& optimizer : {adam({.rate = 1e-3}), lamb({.rate = 1e-3})})
    for (const int ranks : {2, 3})
      EXPECT_TRUE(train_halves(ranks, true, optimizer) == train_halves(ranks, false, optimizer));
}

TEST(DeviceShards, DivideTheStateAmongRanks) {
  const auto options = encoded_model("none", adam({.rate = 0.01}));
  const auto state_bytes = [&](int ranks, bool shards) {
    std::vector<std::size_t> bytes(static_cast<std::size_t>(ranks));
    run_ranks(Network::kInProcess, ranks, [&](Job& job) {
      const auto exchange = make_device_exchange(job, options, {.shards_state = shards});
      bytes[static_cast<std::size_t>(job.rank())] = exchange->statistics().state_bytes;
      EXPECT_TRUE(job.world().barrier().has_value());
    });
    return bytes;
  };
  const std::size_t whole = state_bytes(1, true)[0];
  std::size_t sum = 0;
  for (const std::size_t bytes : state_bytes(4, true)) {
    EXPECT_LT(bytes, whole / 2);
    sum += bytes;
  }
  EXPECT_GE(sum, whole);
  EXPECT_LT(sum, whole + whole / 10);
}

TEST(DeviceShards, AreLostWithTheirRank) {
  const auto options = encoded_model("none", adam({.rate = 0.01}));
  run_ranks(Network::kInProcess, 3, [&](Job& job) {
    const auto exchange = make_device_exchange(job, options, {.shards_state = true});
    ASSERT_TRUE(take_device_steps(job.rank(), *exchange, options, {}, 0, 2).has_value());
    const auto pair = job.world().split(job.rank() == 2 ? -1 : 0, job.rank(), soon());
    ASSERT_TRUE(pair.has_value());
    if (job.rank() != 2) {
      const auto reformed = exchange->reform(**pair);
      ASSERT_FALSE(reformed.has_value());
      EXPECT_EQ(reformed.error().code, ErrorCode::kPeerLost);
      EXPECT_THAT(reformed.error().message, testing::HasSubstr("continue from a checkpoint"));
    }
    EXPECT_TRUE(job.world().barrier().has_value());
  });
}

TEST(DeviceShards, AreRefusedWhereOtherRanksHaveReplicas) {
  const auto options = encoded_model("none", adam({.rate = 0.01}));
  run_ranks(Network::kInProcess, 2, [&](Job& job) {
    const auto made = try_device_exchange(job.world(), options, {.shards_state = job.rank() == 0});
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, ErrorCode::kMismatch);
  });
}

}  // namespace
}  // namespace tally::exchange
