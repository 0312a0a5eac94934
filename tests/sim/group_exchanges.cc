#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "sim/group_reference.h"
#include "sim/group_run.h"

// The exchange of a trainer with home=group on many ranks, while ranks are lost, slow or stopped.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;
using exchange::Replicas;

const std::vector<GroupCase>& group_cases() {
  static const std::vector<GroupCase> all = {
      {"plain", "update=bsp"},
      {"adam", "update=bsp", "adam:rate=0.01"},
      {"clip_norm", "update=bsp", "sgd:rate=0.1,momentum=0.9", 0.5},
      {"lamb", "update=bsp", "lamb:rate=0.01"},
      {"int8", "update=bsp codec=int8"},
      {"topk", "update=bsp codec=topk:0.05"},
      {"powersgd", "update=bsp codec=powersgd:2"},
      {"subset", "update=subset:1"},
      {"backup", "update=backup:1"},
      {"backup_topk", "update=backup:1 codec=topk:0.05"},
      {.name = "replica_per_rank", .plan = "update=bsp", .replicas = Replicas::kPerRank},
      {.name = "lamb_replica_per_rank",
       .plan = "update=bsp",
       .optimizer = "lamb:rate=0.01",
       .clip_norm = 0.5,
       .replicas = Replicas::kPerRank},
      {.name = "device", .plan = "update=bsp", .on_device = true},
      {.name = "device_lamb",
       .plan = "update=bsp",
       .optimizer = "lamb:rate=0.01",
       .clip_norm = 0.5,
       .on_device = true},
      {.name = "device_int8", .plan = "update=bsp codec=int8", .on_device = true},
      {.name = "device_topk", .plan = "update=bsp codec=topk:0.05", .on_device = true},
      {.name = "device_powersgd", .plan = "update=bsp codec=powersgd:2", .on_device = true},
  };
  return all;
}

class SimGroupExchanges : public testing::TestWithParam<GroupCase> {};

TEST_P(SimGroupExchanges, AllRanksEndWithTheExpectedModel) {
  const std::vector<Place> places = {{2, 1}, {3, 1}, {2, 2}, {3, 4},
                                     {4, 2}, {8, 4}, {5, 2}, {7, 4}};
  for (const Place& place : places) {
    const GroupRun run{.plan = GetParam(), .place = place, .seed = 11};
    SCOPED_TRACE(name_of(run));
    expect_one_model(run, run_group(run), kSteps);
  }
}

TEST_P(SimGroupExchanges, SixteenRanksEndWithTheExpectedModel) {
  const GroupRun run{.plan = GetParam(), .place = {16, 4}, .seed = 5};
  expect_one_model(run, run_group(run), kSteps);
}

// The ranks run out of data one after the other.
TEST_P(SimGroupExchanges, DrainedRanksEndWithOneModel) {
  for (const Place& place : std::vector<Place>{{3, 1}, {3, 4}, {4, 2}}) {
    const GroupRun run{.plan = GetParam(), .place = place, .seed = 3, .drains = true};
    SCOPED_TRACE(name_of(run));
    const GroupOutcome outcome = run_group(run);
    std::uint64_t updates = 0;
    for (const TrainedRank& each : outcome.ranks)
      for (const std::uint64_t version : each.counted) updates = std::max(updates, version + 1);
    for (Rank rank = 0; rank < place.ranks; ++rank) {
      const TrainedRank& trained = outcome.rank(rank);
      ASSERT_TRUE(outcome.cluster[rank].has_value()) << to_string(outcome.cluster[rank].error());
      EXPECT_EQ(trained.steps, updates) << "rank " << rank;
      EXPECT_TRUE(trained.values == outcome.ranks[0].values) << "rank " << rank;
    }
  }
}

// backup:B with a straggler: the other ranks do not wait for its gradients, which rarely count.
TEST(SimGroupExchange, UpdatesGoOnWithoutAStraggler) {
  const GroupCase backup{"backup", "update=backup:1"};
  for (const Place& place : std::vector<Place>{{2, 1}, {3, 1}, {3, 4}, {4, 2}, {5, 2}}) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      GroupRun run{.plan = backup, .place = place, .seed = seed};
      run.straggler = static_cast<Rank>(seed % static_cast<std::uint64_t>(place.ranks));
      SCOPED_TRACE(name_of(run));
      const GroupOutcome outcome = run_group(run);
      expect_one_model(run, outcome, kSteps);
      std::size_t counted = 0;
      for (const TrainedRank& each : outcome.ranks) counted += each.counted.size();
      EXPECT_EQ(counted, kSteps * static_cast<std::size_t>(place.ranks - 1));
      EXPECT_LT(outcome.rank(run.straggler).counted.size(), 2U);
      EXPECT_LT(outcome.cluster.ended, kSteps * kStraggling);
    }
  }
}

constexpr std::uint64_t kScripts = 7;  // one for each place

TEST_P(SimGroupExchanges, SurvivorsHaveWholeVersions) {
  int failed = 0;
  for (std::uint64_t seed = 0; seed < kScripts; ++seed) {
    GroupRun run = script_of(GetParam(), seed);
    kill_in_a_step(run);
    SCOPED_TRACE(name_of(run));
    const GroupOutcome outcome = run_group(run);
    for (const TrainedRank& each : outcome.ranks) EXPECT_LT(each.ended, 100ms);
    expect_whole_versions(run, outcome);
    for (const auto& result : outcome.cluster.results) failed += result ? 0 : 1;
  }
  EXPECT_GT(failed, 0);
}

// The first update also rebuilds the buckets. The victim dies at each frame of it.
TEST(SimGroupExchange, ALossInTheFirstUpdateLeavesTheInitialValues) {
  int initial = 0;
  for (const Place& place : std::vector<Place>{{3, 1}, {4, 2}}) {
    GroupRun run{.plan = group_cases()[0], .place = place, .seed = 2, .victim = 1};
    const std::uint64_t first = run_group(run).ranks[1].make_frames.end;
    for (std::uint64_t frame = first; frame < first + 12; ++frame) {
      run.fault = Fault::kKill;
      run.killed_before = frame;
      SCOPED_TRACE(name_of(run) + fmt::format(", frame {}", frame));
      const GroupOutcome outcome = run_group(run);
      expect_whole_versions(run, outcome);
      if (outcome.ranks[0].steps == 0) ++initial;
    }
  }
  EXPECT_GT(initial, 10);
}

TEST_P(SimGroupExchanges, SlowRanksHoldUpOrEndTheOthers) {
  for (std::uint64_t seed = 0; seed < kScripts; ++seed) {
    GroupRun run = script_of(GetParam(), seed);
    run.fault = std::array{Fault::kDelay, Fault::kStop, Fault::kLongStop}[seed % 3];
    SCOPED_TRACE(name_of(run));
    const GroupOutcome outcome = run_group(run);
    for (const TrainedRank& each : outcome.ranks) EXPECT_LT(each.ended, 4 * kTimeout);
    expect_whole_versions(run, outcome);
  }
}

// Whether the victim has the only copy of a part of the optimizer state.
bool loses_state(const GroupRun& run, std::uint64_t version) {
  const exchange::GroupUpdate::Options options = model_of(run.plan);
  const bool is_alone = run.place.per_host == 1 || !run.place.is_even();
  return is_alone && !run.place.is_one_host() && version > 0 &&
         options.codec.kind == plan::Codec::kNone && options.replicas == Replicas::kPerHost &&
         !run.plan.on_device;
}

TEST_P(SimGroupExchanges, SurvivorsContinueWithoutALostRank) {
  int reformed = 0;
  for (std::uint64_t seed = 0; seed < kScripts; ++seed) {
    GroupRun run = script_of(GetParam(), seed);
    kill_in_a_step(run);
    run.reforms = true;
    SCOPED_TRACE(name_of(run));
    const GroupOutcome outcome = run_group(run);
    for (const TrainedRank& each : outcome.ranks) EXPECT_LT(each.ended, 100ms);
    const Rank some = run.victim == 0 ? 1 : 0;
    const TrainedRank& survivor = outcome.rank(some);
    if (!survivor.reforms.empty()) {
      ++reformed;
      expect_one_model(run, outcome, 2 * kSteps);
    } else if (outcome.cluster[some]) {
      expect_one_model(run, outcome, kSteps);
    } else {
      for (Rank rank = 0; rank < run.place.ranks; ++rank) {
        if (rank == run.victim) continue;
        const TrainedRank& trained = outcome.rank(rank);
        ASSERT_FALSE(outcome.cluster[rank].has_value());
        EXPECT_EQ(outcome.cluster[rank].error().code, ErrorCode::kPeerLost)
            << "rank " << rank << ": " << to_string(outcome.cluster[rank].error());
        EXPECT_TRUE(loses_state(run, trained.steps))
            << trained.steps << to_string(outcome.cluster[rank].error());
      }
    }
  }
  EXPECT_GT(reformed, 0);
}

// The victim dies at each frame of some steps. The survivors make the step, all of them or none,
// and go on with the same bits.
TEST(SimGroupExchange, ALossAtAnyFrameOfAStepOnDevicesDividesNobody) {
  int at_other_steps = 0;
  for (const GroupCase& plan : group_cases()) {
    if (!plan.on_device) continue;
    for (const Place& place : std::vector<Place>{{3, 1}, {4, 2}}) {
      GroupRun run{.plan = plan, .place = place, .seed = 6, .reforms = true, .victim = 1};
      const TrainedRank calm = run_group(run).rank(run.victim);
      run.fault = Fault::kKill;
      const std::uint64_t frames = calm.frames_at_end - calm.make_frames.end;
      const std::uint64_t first = calm.make_frames.end + frames / kSteps;
      for (std::uint64_t frame = first; frame < first + frames / kSteps; ++frame) {
        run.killed_before = frame;
        SCOPED_TRACE(name_of(run) + fmt::format(", frame {}", frame));
        const GroupOutcome outcome = run_group(run);
        expect_one_model(run, outcome, 2 * kSteps);
        for (Rank rank = 0; rank < place.ranks; ++rank)
          if (rank != run.victim && outcome.rank(rank).open != outcome.rank(0).open)
            ++at_other_steps;
      }
    }
  }
  EXPECT_GT(at_other_steps, 0);
}

INSTANTIATE_TEST_SUITE_P(All, SimGroupExchanges, testing::ValuesIn(group_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace tally::sim
