#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "adapters/cuda/cuda_device.h"
#include "adapters/cuda/peer_sum.h"
#include "adapters/cuda/test_memory_export.h"
#include "adapters/nccl/emulation/faults.h"
#include "adapters/nccl/nccl_sum.h"
#include "exchange/device/device_exchange_test_support.h"
#include "exchange/device/tiered_sum.h"

// Training over NCCL: the exchange of devices with its sums and gathers, over the emulations.
namespace tally::nccl::emulation {
namespace {

using collective::Network;
using collective::run_ranks;
using exchange::Course;
using exchange::DeviceExchange;
using exchange::encoded_model;
using exchange::GroupUpdate;
using exchange::OnDevices;
using exchange::Values;

constexpr auto kNetwork = Network::kInProcess;

// An exchange of a rank, over its GPU.
struct Trainer {
  cuda::CudaDevice* device = nullptr;  // of the exchange
  std::unique_ptr<DeviceExchange> exchange;

  Result<void> take_steps(Rank rank, const GroupUpdate::Options& options, const Course& course,
                          int from, int to) const {
    return exchange::take_device_steps(rank, *exchange, options, course, from, to);
  }
  Values values(const GroupUpdate::Options& options) const {
    EXPECT_TRUE(device->wait(soon()).has_value());
    return exchange::device_values(*exchange, options);
  }
};

using Sums = std::function<Result<std::unique_ptr<exchange::DeviceSum>>(
    Communicator& world, cuda::CudaDevice& device,
    const std::vector<exchange::DeviceSum::Array>& arrays, Deadline by)>;

Trainer make_trainer(Job& job, const GroupUpdate::Options& options, bool shards_state,
                     const Sums& sums = nccl_sum) {
  auto opened = cuda::CudaDevice::open(0);
  EXPECT_TRUE(opened.has_value()) << to_string(opened.error());
  cuda::CudaDevice& device = **opened;
  const OnDevices on{
      .device = [&opened] { return std::move(*opened); },
      .make_sum = [&device, sums](Communicator& world, exchange::Device&, const auto& arrays,
                                  Deadline by) { return sums(world, device, arrays, by); },
      .make_gather = [&device](Communicator& world, exchange::Device&, const auto& capacities,
                               Deadline by) { return nccl_gather(world, device, capacities, by); },
      .shards_state = shards_state};
  return {.device = &device, .exchange = exchange::make_device_exchange(job, options, on)};
}

// The final values of each rank.
std::vector<Values> train(int ranks, const GroupUpdate::Options& options, const Course& course,
                          bool shards_state, const Sums& sums = nccl_sum) {
  std::vector<Values> results(static_cast<std::size_t>(ranks));
  run_ranks(kNetwork, ranks, [&](Job& job) {
    const Trainer trainer = make_trainer(job, options, shards_state, sums);
    ASSERT_NE(trainer.exchange, nullptr);
    const auto taken = trainer.take_steps(job.rank(), options, course, 0, course.steps);
    ASSERT_TRUE(taken.has_value()) << to_string(taken.error());
    results[static_cast<std::size_t>(job.rank())] = trainer.values(options);
    EXPECT_TRUE(job.world().barrier().has_value());
  });
  return results;
}

struct Model {
  std::string name;
  std::string codec = "none";
  std::string optimizer = "adamw:rate=0.01";
  bool shards_state = false;
};

class NcclExchangeOf : public testing::TestWithParam<Model> {};

TEST_P(NcclExchangeOf, TrainsAsDevicesInOrdinaryMemoryDo) {
  auto options = encoded_model(GetParam().codec, *parse_optimizer(GetParam().optimizer));
  options.clip_norm = 0.5;
  const Course course{.steps = 5};
  const auto expected = exchange::train_on_devices(kNetwork, 3, options, course);
  const auto trained = train(3, options, course, GetParam().shards_state);
  EXPECT_LT(exchange::largest_difference(trained[0], expected[0]), 1e-4);
  EXPECT_TRUE(trained[1] == trained[0] && trained[2] == trained[0]);
}

INSTANTIATE_TEST_SUITE_P(All, NcclExchangeOf,
                         testing::Values(Model{.name = "adamw"},
                                         Model{.name = "lamb", .optimizer = "lamb:rate=0.01"},
                                         Model{.name = "sharded", .shards_state = true},
                                         Model{.name = "int8", .codec = "int8"},
                                         Model{.name = "powersgd", .codec = "powersgd"}),
                         [](const testing::TestParamInfo<Model>& model) {
                           return model.param.name;
                         });

// Ranks 0 and 1, and 2 and 3 share a GPU.
TEST(NcclExchange, RanksThatShareGpusTrainInTwoTiers) {
  cuda::NoMemoryExport between;
  const auto options = encoded_model("none", *parse_optimizer("momentum:rate=0.1"));
  const Course course{.steps = 5};
  const auto expected = exchange::train_on_devices(kNetwork, 4, options, course)[0];
  const auto trained = train(
      4, options, course, false,
      [&between](Communicator& world, cuda::CudaDevice& device, const auto& arrays, Deadline by) {
        const exchange::SumTiers tiers{
            .group = world.rank() / 2,
            .inside =
                [&between](Communicator& group, exchange::Device& on, const auto& of,
                           Deadline until) {
                  return cuda::make_peer_sum(group, on, between, of, until);
                },
            .across = [&device](Communicator& leaders, exchange::Device&, const auto& of,
                                Deadline until) { return nccl_sum(leaders, device, of, until); }};
        return exchange::tiered_sum(world, device, arrays, tiers, by);
      });
  EXPECT_LT(exchange::largest_difference(trained[0], expected), 1e-5);
  for (const Values& values : trained) EXPECT_TRUE(values == trained[0]);
}

// NCCL fails on rank 1, which is lost to the others. They go on without it.
TEST(NcclExchange, ARankWhoseNcclFailsIsLostAndTheOthersTrainOn) {
  for (const char* const codec : {"none", "int8"}) {
    const auto options = encoded_model(codec, adam({.rate = 0.01}));
    std::unique_ptr<ScopedFault> fault;
    std::latch failed(3);
    std::latch looked(3);
    std::vector<Values> values(3);
    run_ranks(kNetwork, 3, [&](Job& job) {
      const auto rest = job.world().split(job.rank() == 1 ? -1 : 0, job.rank(), soon());
      const Trainer trainer = make_trainer(job, options, false);
      ASSERT_TRUE(trainer.take_steps(job.rank(), options, {}, 0, 2).has_value());
      if (job.rank() == 0) fault = std::make_unique<ScopedFault>(Fault::kLater, 1);
      ASSERT_TRUE(job.world().barrier({.by = soon()}).has_value());
      const auto outcome = trainer.take_steps(job.rank(), options, {}, 2, 3);
      ASSERT_FALSE(outcome.has_value());
      EXPECT_EQ(outcome.error().peer, 1) << to_string(outcome.error());
      EXPECT_EQ(outcome.error().code, job.rank() == 1 ? ErrorCode::kSystem : ErrorCode::kPeerLost)
          << to_string(outcome.error());
      failed.arrive_and_wait();
      EXPECT_EQ(open_communicators(), 0);
      if (job.rank() == 0) fault.reset();
      looked.arrive_and_wait();
      if (job.rank() == 1) return;
      const auto reformed = trainer.exchange->reform(**rest);
      ASSERT_TRUE(reformed.has_value()) << to_string(reformed.error());
      ASSERT_TRUE(trainer.take_steps(job.rank(), options, {}, 2, 4).has_value());
      values[static_cast<std::size_t>(job.rank())] = trainer.values(options);
      EXPECT_TRUE((*rest)->barrier().has_value());
    });
    EXPECT_TRUE(values[0] == values[2]);
  }
}

// The copies of a checkpoint run beside the next steps, whose updates come after them.
TEST(NcclExchange, ACheckpointHasTheModelOfItsStepWhileTrainingGoesOn) {
  const auto options = encoded_model("none", *parse_optimizer("adamw:rate=0.01"));
  run_ranks(kNetwork, 2, [&](Job& job) {
    const Trainer trainer = make_trainer(job, options, /*shards_state=*/false);
    ASSERT_NE(trainer.exchange, nullptr);
    const auto steps = [&](int from, int to) {
      const auto taken = trainer.take_steps(job.rank(), options, {}, from, to);
      ASSERT_TRUE(taken.has_value()) << to_string(taken.error());
    };
    steps(0, 3);
    exchange::CheckpointState& checkpoint = trainer.exchange->checkpoint();
    // Two checkpoints, so that the second one finds the memory of the first still in use.
    for (const int begin : {3, 6}) {
      const Values expected = trainer.values(options);
      const auto states = checkpoint.states();
      ASSERT_TRUE(states.has_value()) << to_string(states.error());
      const auto pending = checkpoint.pending();
      ASSERT_NE(pending, nullptr);
      steps(begin, begin + 3);
      ASSERT_TRUE(pending->wait(soon()).has_value());
      std::size_t compared = 0;
      for (const exchange::SliceState& slice : *states) {
        const auto* const values = reinterpret_cast<const float*>(slice.values.data());
        for (std::size_t i = 0; i < slice.values.size() / sizeof(float); ++i, ++compared)
          ASSERT_EQ(values[i], expected[slice.parameter][slice.first + i]);
      }
      EXPECT_GT(compared, 0U);
    }
    EXPECT_TRUE(job.world().barrier().has_value());
  });
}

}  // namespace
}  // namespace tally::nccl::emulation
