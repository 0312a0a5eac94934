#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/cluster.h"

// Communicators over a simulated network, with one or several ranks on a host: the results of all
// collectives are correct for any order in which frames and ranks arrive.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

const Algorithm kAllreduces[] = {Algorithm::kAuto, Algorithm::kRing, Algorithm::kHalvingDoubling,
                                 Algorithm::kTree};

// The parameter is the number of ranks on a host.
class SimCollectives : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(RanksPerHost, SimCollectives, testing::Values(1, 2, 4));

ClusterOptions restless(int ranks, std::uint64_t seed) {
  return {.ranks = ranks,
          .ranks_per_host = SimCollectives::GetParam(),
          .seed = seed,
          .conditions = {.jitter = 50us, .window_bytes = 500, .frame_bytes = 64}};
}

void expect_all_well(const Outcome& outcome) {
  for (std::size_t rank = 0; rank < outcome.results.size(); ++rank) {
    EXPECT_TRUE(outcome.results[rank].has_value())
        << "rank " << rank << ": " << to_string(outcome.results[rank].error());
  }
}

TEST_P(SimCollectives, AllreduceSumsOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    for (const Algorithm algorithm : kAllreduces) {
      Cluster cluster(restless(ranks, static_cast<std::uint64_t>(ranks)));
      const Outcome outcome = cluster.run([&](Member& me) -> Result<void> {
        for (const std::size_t count : {0, 1, 3, 100}) {
          std::vector<std::int32_t> data(count);
          std::iota(data.begin(), data.end(), me.rank());
          TALLY_TRY(me.communicator().allreduce(std::span(data), ReduceOp::kSum,
                                                {.algorithm = algorithm, .by = me.deadline()}));
          for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(data[i], ranks * static_cast<int>(i) + ranks * (ranks - 1) / 2);
          }
        }
        return {};
      });
      expect_all_well(outcome);
    }
  }
}

TEST_P(SimCollectives, AverageHasTheSameBitsEverywhere) {
  for (const Algorithm algorithm : kAllreduces) {
    constexpr int kRanks = 6;
    std::vector<std::vector<float>> results(kRanks);
    Cluster cluster(restless(kRanks, 3));
    expect_all_well(cluster.run([&](Member& me) {
      auto& data = results[static_cast<std::size_t>(me.rank())];
      Rng rng(static_cast<std::uint64_t>(me.rank()));
      for (int i = 0; i < 200; ++i) data.push_back(static_cast<float>(rng.uniform() - 0.5) * 1e10F);
      return me.communicator().allreduce(std::span(data), ReduceOp::kAverage,
                                         {.algorithm = algorithm, .by = me.deadline()});
    }));
    for (const auto& result : results) EXPECT_EQ(result, results[0]);
  }
}

TEST_P(SimCollectives, TheOthersGiveEachRankItsPart) {
  constexpr int kRanks = 5;
  Cluster cluster(restless(kRanks, 8));
  expect_all_well(cluster.run([](Member& me) -> Result<void> {
    Communicator& all = me.communicator();
    const std::vector<std::int32_t> mine{10 * me.rank(), 10 * me.rank() + 1};
    std::vector<std::int32_t> gathered(2 * kRanks);
    TALLY_TRY(all.allgather(std::span(mine), std::span(gathered)));
    for (int i = 0; i < 2 * kRanks; ++i) {
      EXPECT_EQ(gathered[static_cast<std::size_t>(i)], 10 * (i / 2) + i % 2);
    }
    std::vector<std::int32_t> part(2);
    const std::vector<std::int32_t> input = gathered;
    TALLY_TRY(all.reduce_scatter(std::span(input), std::span(part)));
    EXPECT_EQ(part[1], kRanks * (10 * me.rank() + 1));
    std::vector<std::int32_t> word{me.rank() == 3 ? 42 : 0};
    TALLY_TRY(all.broadcast(std::span(word), 3));
    EXPECT_EQ(word[0], 42);
    TALLY_TRY(all.barrier());
    const std::vector<std::int32_t> note{me.rank()};
    if (me.rank() == 1) TALLY_TRY(all.send(std::span(note), 4, 9));
    if (me.rank() == 4) {
      TALLY_TRY(all.receive(std::span(word), 1, 9));
      EXPECT_EQ(word[0], 1);
    }
    return all.barrier();
  }));
}

// No rank leaves the barrier before the last rank has reached it.
TEST_P(SimCollectives, BarrierWaitsForTheLast) {
  Cluster cluster(restless(4, 2));
  expect_all_well(cluster.run([](Member& me) -> Result<void> {
    me.sleep(me.rank() * 100ms);
    TALLY_TRY(me.communicator().barrier());
    EXPECT_GE(me.clock().now(), 300ms);
    return {};
  }));
}

TEST_P(SimCollectives, RingCostsWhatItsFormulaSays) {
  constexpr int kRanks = 8;
  Cluster cluster({.ranks = kRanks, .ranks_per_host = GetParam()});
  expect_all_well(cluster.run([](Member& me) -> Result<void> {
    std::vector<float> data(800);
    TALLY_TRY(me.communicator().allreduce(std::span(data), ReduceOp::kSum,
                                          {.algorithm = Algorithm::kRing}));
    const Traffic traffic = me.communicator().traffic();
    EXPECT_EQ(traffic.steps, 14U);
    EXPECT_EQ(traffic.messages_sent, 14U);
    EXPECT_EQ(traffic.bytes_sent, 14U * 400);
    EXPECT_EQ(me.transport().counters().payload_bytes_sent, 14U * 400);
    return {};
  }));
}

// Each half of the ranks works on its own communicator at the same time.
TEST_P(SimCollectives, SplitGroupsDoNotDisturbEachOther) {
  Cluster cluster(restless(6, 4));
  expect_all_well(cluster.run([](Member& me) -> Result<void> {
    TALLY_TRY(const auto half, me.communicator().split(me.rank() % 2, 0, me.deadline()));
    for (int round = 0; round < 5; ++round) {
      std::vector<std::int32_t> data{me.rank()};
      TALLY_TRY(half->allreduce(std::span(data)));
      EXPECT_EQ(data[0], me.rank() % 2 == 0 ? 0 + 2 + 4 : 1 + 3 + 5);
    }
    return {};
  }));
}

// All ranks of a host see each other's buffers, and use them in place.
TEST_P(SimCollectives, RanksOfAHostShareBuffers) {
  constexpr int kRanks = 6;
  Cluster cluster(restless(kRanks, 9));
  expect_all_well(cluster.run([](Member& me) -> Result<void> {
    Communicator& all = me.communicator();
    TALLY_TRY(const SharedBuffer buffer, all.allocate(40000));
    const std::span<float> data = buffer.as<float>();
    std::fill(data.begin(), data.end(), static_cast<float>(me.rank()));
    TALLY_TRY(const auto views, all.share(buffer, me.deadline()));
    TALLY_TRY(all.barrier());
    for (Rank rank = 0; rank < kRanks; ++rank) {
      const auto& view = views[static_cast<std::size_t>(rank)];
      EXPECT_EQ(view.empty(), rank / GetParam() != me.rank() / GetParam());
      if (view.empty()) continue;
      EXPECT_EQ(reinterpret_cast<const float*>(view.data())[9999], static_cast<float>(rank));
    }
    TALLY_TRY(all.barrier());
    for (const std::size_t count : {std::size_t{10}, data.size()}) {
      std::fill(data.begin(), data.end(), 1.0F);
      TALLY_TRY(all.allreduce(data.first(count)));
      for (const float value : data.first(count)) EXPECT_EQ(value, 6.0F);
    }
    return all.barrier();
  }));
}

// An operation that is larger than the stages of a SharedArea, on every way into the queue.
TEST_P(SimCollectives, StartedOperationsRunBesideOthers) {
  constexpr int kRanks = 4;
  Cluster cluster({.ranks = kRanks, .ranks_per_host = GetParam(), .seed = 6});
  expect_all_well(cluster.run([](Member& me) -> Result<void> {
    TALLY_TRY(const auto other, me.communicator().split(0, me.rank(), me.deadline()));
    std::vector<float> large(400'000, 1.0F);
    std::vector<float> small(10, 1.0F);
    std::vector<Communicator*> order{&me.communicator(), other.get()};
    if (me.rank() % 2 == 1) std::swap(order[0], order[1]);
    std::vector<Handle> handles;
    for (Communicator* const communicator : order) {
      auto& data = communicator == other.get() ? small : large;
      handles.push_back(communicator->start({.operation = Operation::kAllreduce,
                                             .input = data.data(),
                                             .output = data.data(),
                                             .count = data.size(),
                                             .type = DataType::kFloat32}));
    }
    TALLY_TRY(me.communicator().barrier());
    while (!handles[1].poll()) me.sleep(1us);
    for (Handle& handle : handles) TALLY_TRY(handle.wait());
    EXPECT_EQ(large, std::vector<float>(large.size(), 4.0F));
    EXPECT_EQ(small, std::vector<float>(small.size(), 4.0F));
    return me.communicator().barrier();
  }));
}

TEST_P(SimCollectives, DifferentCallsAreAMismatch) {
  Cluster cluster(restless(3, 4));
  const Outcome outcome = cluster.run([](Member& me) -> Result<void> {
    std::vector<float> data(me.rank() == 2 ? 11 : 10);
    return me.communicator().allreduce(std::span(data), ReduceOp::kSum,
                                       {.algorithm = Algorithm::kRing, .by = me.deadline()});
  });
  for (Rank rank = 0; rank < 3; ++rank) {
    ASSERT_FALSE(outcome[rank].has_value()) << rank;
    EXPECT_EQ(outcome[rank].error().code, ErrorCode::kMismatch) << rank;
  }
  EXPECT_LT(outcome.ended, 5s);
}

}  // namespace
}  // namespace tally::sim
