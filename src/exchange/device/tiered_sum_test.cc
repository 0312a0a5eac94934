#include "exchange/device/tiered_sum.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "collective/test_jobs.h"
#include "exchange/device/host_device.h"
#include "soon.h"

// Sums in two levels, over devices in ordinary memory.
namespace tally::exchange {
namespace {

using collective::Network;
using collective::run_ranks;

const std::vector<DeviceSum::Array> kArrays = {
    {DataType::kFloat32, 1000}, {DataType::kFloat64, 77}, {DataType::kFloat32, 1}};

// Small integers, so that every order of addition is exact.
double value(Rank rank, std::size_t array, std::size_t i, int step) {
  return static_cast<double>(
      (static_cast<std::size_t>(rank) * 31 + array * 7 + i * 3 + static_cast<std::size_t>(step)) %
      17);
}

template <typename T>
void fill(DeviceSum& sum, std::size_t array, Rank rank, int step) {
  auto* const own = reinterpret_cast<T*>(sum.own(array));
  for (std::size_t i = 0; i < kArrays[array].count; ++i)
    own[i] = static_cast<T>(value(rank, array, i, step));
}

template <typename T>
void expect_total(const DeviceSum& sum, std::size_t array, int ranks, int step) {
  const auto* const total = reinterpret_cast<const T*>(sum.total(array));
  for (std::size_t i = 0; i < kArrays[array].count; ++i) {
    double expected = 0;
    for (Rank rank = 0; rank < ranks; ++rank) expected += value(rank, array, i, step);
    ASSERT_EQ(total[i], static_cast<T>(expected)) << "array " << array << ", element " << i;
  }
}

SumTiers tiers_of(int group) {
  return {.group = group, .inside = host_sum_maker(), .across = host_sum_maker()};
}

struct Division {
  Network network;
  std::vector<int> groups;  // by rank
};

class TieredSums : public testing::TestWithParam<Division> {};

TEST_P(TieredSums, EveryRankHasTheSumOfAllRanksInEveryStep) {
  const std::vector<int>& groups = GetParam().groups;
  const int ranks = static_cast<int>(groups.size());
  run_ranks(GetParam().network, ranks, [&](Job& job) {
    const auto device = host_device();
    const int group = groups[static_cast<std::size_t>(job.rank())];
    auto made = tiered_sum(job.world(), *device, kArrays, tiers_of(group), soon());
    ASSERT_TRUE(made.has_value()) << to_string(made.error());
    DeviceSum& sum = **made;
    EXPECT_GE(sum.bytes(), 4616U);
    for (int step = 0; step < 3; ++step) {
      for (std::size_t array = 0; array < kArrays.size(); ++array) {
        if (step == 1 && array == 0) continue;  // not all arrays need be started
        if (kArrays[array].type == DataType::kFloat64)
          fill<double>(sum, array, job.rank(), step);
        else
          fill<float>(sum, array, job.rank(), step);
        ASSERT_TRUE(sum.start(array).has_value());
      }
      const auto outcome = sum.finish(soon());
      ASSERT_TRUE(outcome.has_value()) << to_string(outcome.error());
      for (std::size_t array = step == 1 ? 1 : 0; array < kArrays.size(); ++array) {
        if (kArrays[array].type == DataType::kFloat64)
          expect_total<double>(sum, array, ranks, step);
        else
          expect_total<float>(sum, array, ranks, step);
      }
      ASSERT_TRUE(job.world().barrier({.by = soon()}).has_value());
    }
  });
}

// The way back adds a number to the result, which must not change it.
TEST_P(TieredSums, NegativeZerosStayNegativeOnAllRanks) {
  const std::vector<int>& groups = GetParam().groups;
  run_ranks(GetParam().network, static_cast<int>(groups.size()), [&](Job& job) {
    const auto device = host_device();
    const int group = groups[static_cast<std::size_t>(job.rank())];
    auto made =
        tiered_sum(job.world(), *device, {{DataType::kFloat32, 1}}, tiers_of(group), soon());
    ASSERT_TRUE(made.has_value()) << to_string(made.error());
    *reinterpret_cast<float*>((*made)->own(0)) = -0.0F;
    ASSERT_TRUE((*made)->start(0).has_value());
    ASSERT_TRUE((*made)->finish(soon()).has_value());
    EXPECT_TRUE(std::signbit(*reinterpret_cast<float*>((*made)->total(0))));
    ASSERT_TRUE(job.world().barrier({.by = soon()}).has_value());
  });
}

INSTANTIATE_TEST_SUITE_P(All, TieredSums,
                         testing::Values(Division{Network::kInProcess, {0, 0, 1, 1}},
                                         Division{Network::kInProcess, {5, 2, 5, 2, 5}},
                                         Division{Network::kInProcess, {0, 0, 1}},
                                         Division{Network::kInProcess, {4, 4, 4}},
                                         Division{Network::kInProcess, {2, 1, 0}},
                                         Division{Network::kInProcess, {0}},
                                         Division{Network::kTcp, {0, 1, 1}},
                                         Division{Network::kTwoHosts, {0, 1, 0, 1}}),
                         [](const testing::TestParamInfo<Division>& division) {
                           std::string name = collective::name_of(division.param.network);
                           for (const int group : division.param.groups)
                             name += "_" + std::to_string(group);
                           return name;
                         });

// Ranks 0 and 1, and 2 and 3 are groups. Ranks of the other group are told by the barriers.
TEST(TieredSum, ARankThatStaysAwayIsNamedInBothGroups) {
  std::atomic<int> given_up{0};
  run_ranks(Network::kInProcess, 4, [&](Job& job) {
    const auto device = host_device();
    auto made = tiered_sum(job.world(), *device, kArrays, tiers_of(job.rank() / 2), soon());
    ASSERT_TRUE(made.has_value()) << to_string(made.error());
    ASSERT_TRUE(job.world().barrier({.by = soon()}).has_value());
    if (job.rank() == 3) {
      while (given_up < 3) std::this_thread::yield();
      return;
    }
    ASSERT_TRUE((*made)->start(0).has_value());
    const auto outcome = (*made)->finish(Deadline::after(std::chrono::milliseconds(300)));
    ++given_up;
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout) << to_string(outcome.error());
    EXPECT_EQ(outcome.error().peer, 3) << to_string(outcome.error());
    EXPECT_EQ((*made)->start(0).error().message, outcome.error().message);
    EXPECT_EQ((*made)->finish(soon()).error().message, outcome.error().message);
  });
}

// Fails as a sum whose device fails on one rank of one group.
class FailingSum final : public DeviceSum {
 public:
  explicit FailingSum(std::unique_ptr<DeviceSum> sum) : sum_(std::move(sum)) {}
  std::byte* own(std::size_t index) const override { return sum_->own(index); }
  std::byte* total(std::size_t index) const override { return sum_->total(index); }
  Result<void> start(std::size_t index) override { return sum_->start(index); }
  Result<void> finish(Deadline /*by*/) override {
    return make_error(ErrorCode::kSystem, 1, "Xid 79");
  }
  void abort(const Error& why) override { sum_->abort(why); }
  std::size_t bytes() const override { return sum_->bytes(); }

 private:
  const std::unique_ptr<DeviceSum> sum_;
};

TEST(TieredSum, AFailureInOneGroupEndsTheSumOnAllRanksWithItsRankInTheWorld) {
  run_ranks(Network::kInProcess, 4, [](Job& job) {
    const auto device = host_device();
    SumTiers tiers = tiers_of(job.rank() / 2);
    if (job.rank() >= 2)
      tiers.inside = [](Communicator& world, Device& on,
                        const std::vector<DeviceSum::Array>& arrays,
                        Deadline by) -> Result<std::unique_ptr<DeviceSum>> {
        TALLY_TRY(auto sum, host_sum_maker()(world, on, arrays, by));
        return std::unique_ptr<DeviceSum>(std::make_unique<FailingSum>(std::move(sum)));
      };
    auto made = tiered_sum(job.world(), *device, kArrays, tiers, soon());
    ASSERT_TRUE(made.has_value()) << to_string(made.error());
    ASSERT_TRUE((*made)->start(1).has_value());
    const auto outcome = (*made)->finish(soon());
    ASSERT_FALSE(outcome.has_value());
    // "rank 3: Xid 79" on ranks that rank 3 has told.
    EXPECT_THAT(outcome.error().message, testing::HasSubstr("Xid 79"));
    EXPECT_EQ(outcome.error().peer, 3);
    EXPECT_TRUE(job.world().barrier({.by = soon()}).has_value());
  });
}

TEST(TieredSum, AnAbortReachesRanksThatWaitInBothGroups) {
  run_ranks(Network::kInProcess, 4, [](Job& job) {
    const auto device = host_device();
    auto made = tiered_sum(job.world(), *device, kArrays, tiers_of(job.rank() / 2), soon());
    ASSERT_TRUE(made.has_value()) << to_string(made.error());
    if (job.rank() == 3) {
      (*made)->abort(make_error(ErrorCode::kPeerLost, 3, "rank 3: Xid 79"));
    } else {
      ASSERT_TRUE((*made)->start(1).has_value());
      const auto outcome = (*made)->finish(Deadline::never());
      ASSERT_FALSE(outcome.has_value());
      EXPECT_EQ(outcome.error().code, ErrorCode::kPeerLost);
      EXPECT_EQ(outcome.error().message, "rank 3: Xid 79");
    }
    EXPECT_TRUE(job.world().barrier({.by = soon()}).has_value());
  });
}

}  // namespace
}  // namespace tally::exchange
