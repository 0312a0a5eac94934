#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sim/group_reference.h"
#include "sim/group_run.h"

// Every plan with home=group on many ranks, with one rank or with several ranks to a host, and with
// a lost rank.

namespace tally::sim {
namespace {

constexpr std::uint64_t kFewSteps = 2;
// Sanitizers are slow.
#if defined(TALLY_SANITIZED)
constexpr int kMany = 16;
#else
constexpr int kMany = 64;
#endif
// The first plans take different ways through the exchange; the others differ by their codec.
constexpr std::ptrdiff_t kWays = 14;

std::vector<GroupCase> all_plans() {
  std::vector<GroupCase> plans = {
      {"plain", "update=bsp"},
      {"adam", "update=bsp", "adam:rate=0.01"},
      {"clip_norm", "update=bsp", "sgd:rate=0.1,momentum=0.9", 0.05},
      {"lamb", "update=bsp", "lamb:rate=0.01"},
      {"lars", "update=bsp", "lars:rate=0.01"},
      {.name = "in_place", .plan = "update=bsp", .in_place = true},
      {.name = "replica_per_rank", .plan = "update=bsp", .replicas = exchange::Replicas::kPerRank},
      {"subset", "update=subset:3"},
      {"backup", "update=backup:1"},
      {"int8", "update=bsp codec=int8"},
      {"topk", "update=bsp codec=topk:0.05"},
      {"powersgd", "update=bsp codec=powersgd"},
      {"auto", "update=bsp codec=auto"},
      {"backup_int8", "update=backup:1 codec=int8"},
      {"onebit_adam", "update=bsp codec=onebit-adam:1", "adam:rate=0.01"},
      {"sign_vote", "update=bsp codec=sign:128,vote"},
      {"topk_rans", "update=bsp codec=topk:0.05+rans"},
      {"subset_dgc", "update=subset:3 codec=dgc"},
      {"vote_warmup", "update=bsp codec=sign:vote,warmup=1"},
      {"powersgd_warmup", "update=bsp codec=powersgd:warmup=1"},
      {"backup_adam", "update=backup:1 codec=onebit-adam:1", "adam:rate=0.01"},
      {"sign_back", "update=bsp codec=sign:back=same"},
  };
  for (const std::string codec : {"fp16", "bf16", "fp8", "qsgd", "ternary", "natural", "onebit",
                                  "sign", "randk", "dgc", "threshold"})
    plans.push_back({codec, "update=bsp codec=" + codec});
  for (GroupCase& plan : plans) plan.is_small = true;
  return plans;
}

class SimGroupPlans : public testing::TestWithParam<GroupCase> {};

TEST_P(SimGroupPlans, AllRanksEndWithTheExpectedModel) {
  for (const Place& place : std::vector<Place>{{16, 1}, {16, 4}}) {
    const GroupRun run{.plan = GetParam(), .place = place, .seed = 5, .steps = kFewSteps};
    SCOPED_TRACE(name_of(run));
    expect_one_model(run, run_group(run), kFewSteps);
  }
}

// A rank that is lost ends all ranks; otherwise they end with the expected model. The rank is lost
// after a third of the time that the steps of a plain run take.
void run_many(const GroupCase& plan, const Place& place, bool is_lost) {
  GroupRun run{.plan = plan, .place = place, .seed = 6, .steps = kFewSteps};
  run.victim = place.ranks / 3;
  SCOPED_TRACE(name_of(run));
  if (!is_lost) return expect_one_model(run, run_group(run), kFewSteps);
  static std::map<std::pair<int, int>, TrainedRank> calm;
  const auto [found, is_new] = calm.try_emplace({place.ranks, place.per_host});
  if (is_new) {
    GroupRun plain = run;
    plain.plan = all_plans().front();
    found->second = run_group(plain).rank(run.victim);
  }
  run.fault = Fault::kKill;
  run.killed_at = found->second.began + (found->second.ended - found->second.began) / 3;
  const GroupOutcome outcome = run_group(run);
  expect_whole_versions(run, outcome);
  for (Rank rank = 0; rank < run.place.ranks; ++rank)
    if (rank != run.victim) {
      EXPECT_FALSE(outcome.cluster[rank].has_value()) << "rank " << rank;
    }
}

// Half of the plans run with one rank to a host, and half of them with several. A codec that takes
// a way that another plan shows on all ranks runs on half of them, in a quarter of the time.
TEST_P(SimGroupPlans, SurvivorsOfManyRanksHaveWholeVersions) {
  const std::vector<GroupCase> all = all_plans();
  const auto same = [](const GroupCase& each) { return each.name == GetParam().name; };
  const auto number = std::find_if(all.begin(), all.end(), same) - all.begin();
  run_many(GetParam(), {number < kWays ? kMany : kMany / 2, number % 2 == 0 ? 1 : 8}, true);
}

TEST(SimGroupPlansOnManyRanks, ManyRanksEndWithTheExpectedModel) {
  const std::map<std::string, int> per_host = {{"plain", 8}, {"int8", 1}, {"backup", 8}};
  for (const GroupCase& plan : all_plans())
    if (const auto found = per_host.find(plan.name); found != per_host.end())
      run_many(plan, {kMany, found->second}, false);
}

INSTANTIATE_TEST_SUITE_P(All, SimGroupPlans, testing::ValuesIn(all_plans()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace tally::sim
