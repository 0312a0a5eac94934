#include <gtest/gtest.h>

#include <set>

#include "sim/group_reference.h"
#include "sim/group_run.h"

// Ranks that are lost while an exchange with home=group is made, or made anew after a loss.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

constexpr Duration kSoon = 100ms;  // far below kTimeout

// From one frame to the next. With sanitizers, which are slow, every third frame is tried.
#if defined(TALLY_SANITIZED)
constexpr std::uint64_t kStride = 3;
#else
constexpr std::uint64_t kStride = 1;
#endif

class SimGroupSetUp : public testing::TestWithParam<GroupCase> {};

// The victim shares no lane with the first ranks of hosts.
TEST_P(SimGroupSetUp, SurvivorsOfALossInMakeNameTheRank) {
  for (const Place& place : std::vector<Place>{{3, 1}, {4, 2}, {6, 3}}) {
    const Rank victim = place.ranks - 1;
    GroupRun run{.plan = GetParam(), .place = place, .seed = 3, .victim = victim};
    const FrameRange frames = run_group(run).rank(victim).make_frames;
    run.fault = Fault::kKill;
    for (std::uint64_t frame = frames.begin; frame < frames.end; frame += kStride) {
      run.killed_before = frame;
      SCOPED_TRACE(name_of(run) + fmt::format(", frame {}", frame));
      const GroupOutcome outcome = run_group(run);
      for (Rank rank = 0; rank < victim; ++rank) {
        ASSERT_FALSE(outcome.cluster[rank].has_value());
        const Error& error = outcome.cluster[rank].error();
        EXPECT_EQ(error.code, ErrorCode::kPeerLost) << to_string(error);
        EXPECT_EQ(error.peer, victim) << "rank " << rank << ": " << to_string(error);
        EXPECT_LT(outcome.rank(rank).ended, kSoon) << "rank " << rank;
        EXPECT_EQ(outcome.rank(rank).steps, 0U);
      }
    }
  }
}

// The first error names the victim, and the second one, of the communicator without the victim,
// names the rank that was lost in the reform.
void expect_both_are_named(const GroupRun& run, const TrainedRank& trained) {
  ASSERT_EQ(trained.errors.size(), 2U);
  EXPECT_EQ(trained.errors[0].peer, run.victim) << to_string(trained.errors[0]);
  EXPECT_EQ(trained.errors[1].code, ErrorCode::kPeerLost) << to_string(trained.errors[1]);
  const Rank second = run.second > run.victim ? run.second - 1 : run.second;
  EXPECT_EQ(trained.errors[1].peer, second) << to_string(trained.errors[1]);
  EXPECT_LT(trained.ended, kSoon);
}

// The second rank dies at each frame of a reform, or at some of them and at each of the last ones:
// there the reform succeeds on some ranks and fails on others.
TEST_P(SimGroupSetUp, SurvivorsOfALossInReformNameTheRankAndReformAgain) {
  int divided = 0;
  for (const Place& place : std::vector<Place>{{4, 2}, {6, 2}}) {
    GroupRun run{
        .plan = GetParam(), .place = place, .seed = 4, .reforms = true, .victim = 1, .second = 2};
    const TrainedRank calm = run_group(run).rank(run.victim);
    run.fault = Fault::kKill;
    run.killed_before = (calm.make_frames.end + calm.frames_at_end) / 2;
    const FrameRange frames = run_group(run).rank(run.second).reform_frames;
    ASSERT_GT(frames.end, frames.begin);
    const std::uint64_t step = place.ranks > 4 ? 7 : kStride;
    for (std::uint64_t frame = frames.begin; frame < frames.end;
         frame += frame + 15 < frames.end ? step : 1) {
      run.second_killed_before = frame;
      SCOPED_TRACE(name_of(run) + fmt::format(", second at frame {}", frame));
      const GroupOutcome outcome = run_group(run);
      std::set<std::size_t> reforms;
      for (Rank rank = 0; rank < place.ranks; ++rank) {
        if (run.is_lost(rank)) continue;
        SCOPED_TRACE(fmt::format("rank {}", rank));
        expect_both_are_named(run, outcome.rank(rank));
        reforms.insert(outcome.rank(rank).reforms.size());
      }
      if (reforms.size() > 1) ++divided;
      expect_one_model(run, outcome, 2 * kSteps);
    }
  }
  EXPECT_GT(divided, 0);
}

INSTANTIATE_TEST_SUITE_P(All, SimGroupSetUp,
                         testing::Values(GroupCase{"plain", "update=bsp"},
                                         GroupCase{"int8", "update=bsp codec=int8"},
                                         GroupCase{.name = "replica_per_rank",
                                                   .plan = "update=bsp",
                                                   .replicas = exchange::Replicas::kPerRank},
                                         GroupCase{"backup", "update=backup:1"}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace tally::sim
