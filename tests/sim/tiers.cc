#include "exchange/group/tiers.h"

#include <gtest/gtest.h>

#include "sim/cluster.h"

// The tiers that ranks find by sharing memory with their neighbours, on simulated hosts.

namespace tally::sim {
namespace {

using exchange::Replicas;

struct TiersCase {
  int ranks;
  int ranks_per_host;
  Replicas replicas;
  int hosts;  // as found
};

TEST(SimTiers, HostsOfUnequalSizesAndAHostThatIsToBeSplitCountAsOneRankEach) {
  for (const TiersCase& c :
       {TiersCase{4, 1, Replicas::kPerHost, 4}, TiersCase{4, 2, Replicas::kPerHost, 2},
        TiersCase{6, 2, Replicas::kPerHostIfSeveral, 3}, TiersCase{5, 2, Replicas::kPerHost, 5},
        TiersCase{3, 4, Replicas::kPerHost, 1}, TiersCase{3, 4, Replicas::kPerHostIfSeveral, 3}}) {
    SCOPED_TRACE(testing::Message() << c.ranks << " ranks, " << c.ranks_per_host << " per host");
    Cluster cluster({.ranks = c.ranks, .ranks_per_host = c.ranks_per_host});
    const Outcome outcome = cluster.run([&](Member& me) -> Result<void> {
      TALLY_TRY(const exchange::Tiers tiers,
                exchange::find_tiers(me.communicator(), c.replicas, me.deadline()));
      const int locals = c.ranks / c.hosts;
      EXPECT_EQ(tiers.hosts, c.hosts);
      EXPECT_EQ(tiers.locals(), locals);
      EXPECT_EQ(tiers.host, me.rank() / locals);
      EXPECT_EQ(tiers.local, me.rank() % locals);
      EXPECT_EQ(tiers.lane[static_cast<std::size_t>(tiers.host)], me.rank());
      EXPECT_EQ(tiers.sums == nullptr, c.hosts == 1);
      if (c.hosts == 1) return {};
      for (Communicator* const lane : {tiers.sums.get(), tiers.values.get()}) {
        EXPECT_EQ(lane->rank(), tiers.host);
        std::vector<std::int32_t> ranks(tiers.lane.size());
        const std::int32_t mine = me.rank();
        TALLY_TRY(lane->allgather(std::span<const std::int32_t>(&mine, 1), std::span(ranks)));
        EXPECT_EQ(ranks, tiers.lane);
      }
      return {};
    });
    for (Rank rank = 0; rank < c.ranks; ++rank) EXPECT_TRUE(outcome[rank].has_value()) << rank;
  }
}

}  // namespace
}  // namespace tally::sim
