#include <gtest/gtest.h>

#include <vector>

#include "sim/cluster.h"

// Collectives while ranks die, stop and lose their links. In all cases every rank ends in time, no
// rank reports success with wrong numbers, and an error names the rank that caused it.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

const Algorithm kAlgorithms[] = {Algorithm::kRing, Algorithm::kHalvingDoubling, Algorithm::kTree};

// Runs `rounds` all-reduces, each after some computation, and checks each result.
Result<void> train(Member& me, Algorithm algorithm, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    me.sleep(10us);
    std::vector<float> gradient(300, static_cast<float>(me.rank() + round));
    TALLY_TRY(me.communicator().allreduce(std::span(gradient), ReduceOp::kSum,
                                          {.algorithm = algorithm, .by = me.deadline()}));
    const auto n = static_cast<float>(me.size());
    const float expected = n * (n - 1) / 2 + n * static_cast<float>(round);
    for (const float value : gradient) {
      if (value != expected) ADD_FAILURE() << "rank " << me.rank() << " has " << value;
    }
  }
  return {};
}

TEST(SimFaults, SurvivorsNameTheLostPeer) {
  for (const Algorithm algorithm : kAlgorithms) {
    for (std::uint64_t frame = 0; frame < 6; ++frame) {
      Cluster cluster({.ranks = 4, .seed = 11});
      cluster.kill({.rank = 2, .before_frame = frame});
      const Outcome outcome = cluster.run([&](Member& me) { return train(me, algorithm, 10); });
      for (const Rank rank : {0, 1, 3}) {
        ASSERT_FALSE(outcome[rank].has_value());
        EXPECT_EQ(outcome[rank].error().code, ErrorCode::kPeerLost);
        EXPECT_EQ(outcome[rank].error().peer, 2) << to_string(outcome[rank].error());
      }
      ASSERT_FALSE(outcome[2].has_value());
      EXPECT_EQ(outcome[2].error().code, ErrorCode::kClosed);
      EXPECT_LT(outcome.ended, 100ms) << "frame " << frame;
    }
  }
}

// Ranks 0 to 3 share a host; ranks 4 to 6, if they exist, share another.
TEST(SimFaults, NeighboursAndOtherHostsNameTheRankThatDiesOnAHost) {
  for (const int ranks : {4, 7}) {
    for (const TimePoint at : {0us, 1us, 10us, 15us, 77us, 500us}) {
      Cluster cluster({.ranks = ranks, .ranks_per_host = 4, .seed = 11});
      cluster.kill({.rank = 2, .at = at});
      const Outcome outcome =
          cluster.run([&](Member& me) { return train(me, Algorithm::kAuto, 200); });
      for (Rank rank = 0; rank < ranks; ++rank) {
        ASSERT_FALSE(outcome[rank].has_value()) << rank;
        if (rank == 2) continue;
        EXPECT_EQ(outcome[rank].error().code, ErrorCode::kPeerLost);
        EXPECT_EQ(outcome[rank].error().peer, 2) << to_string(outcome[rank].error());
      }
      EXPECT_LT(outcome.ended, 100ms) << "killed at " << at.count();
    }
  }
}

// Rank 1 computes when it dies. Its neighbour can still read its buffer.
TEST(SimFaults, TheMemoryOfADeadNeighbourStays) {
  Cluster cluster({.ranks = 2, .ranks_per_host = 2});
  cluster.kill({.rank = 1, .at = 5ms});
  const Outcome outcome = cluster.run([](Member& me) -> Result<void> {
    TALLY_TRY(const SharedBuffer buffer, me.communicator().allocate(4));
    buffer.as<std::int32_t>()[0] = 100 + me.rank();
    TALLY_TRY(const auto views, me.communicator().share(buffer, me.deadline()));
    TALLY_TRY(me.communicator().barrier());
    me.sleep(1s);
    EXPECT_EQ(me.clock().now(), me.rank() == 1 ? 5ms : 1s);
    EXPECT_EQ(*reinterpret_cast<const std::int32_t*>(views[1].data()), 101);
    return me.communicator().barrier();
  });
  EXPECT_EQ(outcome[0].error().code, ErrorCode::kPeerLost);
  EXPECT_EQ(outcome[0].error().peer, 1);
  EXPECT_EQ(outcome[1].error().code, ErrorCode::kClosed);
}

// The error names a rank that is no member, as one of another communicator would.
TEST(SimFaults, AnAbortEndsTheOperationsOfAllRanksWithItsError) {
  for (const int per_host : {1, 3}) {
    Cluster cluster({.ranks = 3, .ranks_per_host = per_host});
    const Outcome outcome = cluster.run([](Member& me) -> Result<void> {
      const Error why{.code = ErrorCode::kCorrupt, .peer = 7, .message = "wrong bytes"};
      if (me.rank() == 1) me.communicator().abort(why);
      const auto failed = me.communicator().barrier();
      me.sleep(10ms);  // a rank that leaves is a loss of its own
      return failed;
    });
    for (Rank rank = 0; rank < 3; ++rank) {
      ASSERT_FALSE(outcome[rank].has_value());
      EXPECT_EQ(outcome[rank].error().code, ErrorCode::kCorrupt)
          << to_string(outcome[rank].error());
      EXPECT_EQ(outcome[rank].error().peer, 7);
    }
    EXPECT_LT(outcome.ended, 100ms);
  }
}

// Rank 1 passes the counts in another order.
TEST(SimFaults, DifferentCountsOfPartsAreAMismatchThatShowsTheirSum) {
  Cluster cluster({.ranks = 2});
  const auto outcome = cluster.run([](Member& me) {
    const std::vector<std::size_t> counts =
        me.rank() == 1 ? std::vector<std::size_t>{4, 3} : std::vector<std::size_t>{3, 4};
    const std::vector<float> own(counts[static_cast<std::size_t>(me.rank())]);
    std::vector<float> all(7);
    return me.communicator().run({.operation = Operation::kAllgather,
                                  .input = own.data(),
                                  .output = all.data(),
                                  .type = DataType::kFloat32,
                                  .counts = counts});
  });
  for (const Result<void>& result : outcome.results) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kMismatch);
    EXPECT_NE(result.error().message.find("called allgather of 7 float32 in parts by rank (counts"),
              std::string::npos)
        << to_string(result.error());
  }
}

TEST(SimFaults, AStoppedNeighbourIsNamedAtTheDeadline) {
  Cluster cluster({.ranks = 6, .ranks_per_host = 3, .seed = 3, .timeout = 2s});
  cluster.stop({.rank = 1, .from = 100us});
  const Outcome outcome = cluster.run([](Member& me) { return train(me, Algorithm::kAuto, 1000); });
  for (const Rank rank : {0, 2, 3, 4, 5}) {
    ASSERT_FALSE(outcome[rank].has_value());
    EXPECT_EQ(outcome[rank].error().code, ErrorCode::kTimeout);
    EXPECT_EQ(outcome[rank].error().peer, 1) << to_string(outcome[rank].error());
  }
  EXPECT_LT(outcome.ended, 4s);
}

TEST(SimFaults, AStoppedRankIsNamedAtTheDeadline) {
  for (const Algorithm algorithm : kAlgorithms) {
    Cluster cluster({.ranks = 4, .seed = 3, .timeout = 2s});
    cluster.stop({.rank = 1, .from = 100us});
    const Outcome outcome = cluster.run([&](Member& me) { return train(me, algorithm, 1000); });
    for (const Rank rank : {0, 2, 3}) {
      ASSERT_FALSE(outcome[rank].has_value());
      EXPECT_EQ(outcome[rank].error().code, ErrorCode::kTimeout);
      EXPECT_EQ(outcome[rank].error().peer, 1) << to_string(outcome[rank].error());
    }
    EXPECT_LT(outcome.ended, 4s);
  }
}

TEST(SimFaults, AShortStopOnlyTakesTime) {
  Cluster cluster({.ranks = 4, .seed = 3, .timeout = 20s});
  cluster.stop({.rank = 1, .from = 100us, .until = 5s});
  const Outcome outcome = cluster.run([](Member& me) { return train(me, Algorithm::kRing, 50); });
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_TRUE(outcome[rank].has_value()) << rank;
  EXPECT_GE(outcome.ended, 5s);
}

TEST(SimFaults, ACutThatHealsOnlyTakesTime) {
  Cluster cluster({.ranks = 4, .seed = 3, .timeout = 20s});
  cluster.cut({.one = 1, .other = 2, .from = 100us, .until = 5s});
  const Outcome outcome = cluster.run([](Member& me) { return train(me, Algorithm::kRing, 50); });
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_TRUE(outcome[rank].has_value()) << rank;
  EXPECT_GE(outcome.ended, 5s);
}

TEST(SimFaults, ACutThatStaysIsATimeout) {
  Cluster cluster({.ranks = 4, .seed = 3, .timeout = 2s});
  cluster.cut({.one = 1, .other = 2, .from = 100us});
  const Outcome outcome = cluster.run([](Member& me) { return train(me, Algorithm::kRing, 1000); });
  for (Rank rank = 0; rank < 4; ++rank) {
    ASSERT_FALSE(outcome[rank].has_value()) << rank;
    EXPECT_EQ(outcome[rank].error().code, ErrorCode::kTimeout) << to_string(outcome[rank].error());
  }
  EXPECT_LT(outcome.ended, 10s);
}

TEST(SimFaults, ADamagedFrameIsFoundAndItsSenderNamed) {
  Cluster cluster({.ranks = 3, .seed = 3});
  cluster.corrupt({.from = 0, .to = 1, .frame = 2});
  const Outcome outcome = cluster.run([](Member& me) { return train(me, Algorithm::kRing, 10); });
  for (Rank rank = 0; rank < 3; ++rank) ASSERT_FALSE(outcome[rank].has_value()) << rank;
  EXPECT_EQ(outcome[1].error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(outcome[1].error().peer, 0);
  EXPECT_LT(outcome.ended, 100ms);
}

struct Trial {
  Outcome outcome;
  Rank killed = kNoRank;
};

// A random script of faults, from a seed.
Trial run_at_random(std::uint64_t seed) {
  Rng rng(seed);
  const int ranks = 2 + static_cast<int>(rng.below(6));
  const int ranks_per_host = 1 + static_cast<int>(rng.below(4));
  const std::uint64_t choice = rng.below(4);
  const Algorithm algorithm = choice < 3 ? kAlgorithms[choice] : Algorithm::kAuto;
  const auto some_rank = [&] {
    return static_cast<Rank>(rng.below(static_cast<std::uint64_t>(ranks)));
  };
  const auto moment = [&] { return TimePoint(static_cast<TimePoint::rep>(rng.below(2'000'000))); };
  Cluster cluster({.ranks = ranks,
                   .ranks_per_host = ranks_per_host,
                   .seed = rng.next(),
                   .conditions = {.jitter = Duration(static_cast<Duration::rep>(rng.below(30'000))),
                                  .window_bytes = 100 + rng.below(2000),
                                  .frame_bytes = 16 + 4 * rng.below(200)},
                   .timeout = 3s});
  Trial trial;
  const std::uint64_t kind = rng.below(6);
  const Rank rank = some_rank();
  const Rank other =
      (rank + 1 + static_cast<Rank>(rng.below(static_cast<std::uint64_t>(ranks - 1)))) % ranks;
  const TimePoint from = moment();
  if (kind == 0) {
    cluster.kill({.rank = rank, .before_frame = rng.below(100)});
    trial.killed = rank;
  } else if (kind == 1) {
    cluster.kill({.rank = rank, .at = from});
    trial.killed = rank;
  } else if (kind == 2) {
    cluster.cut({.one = rank,
                 .other = other,
                 .from = from,
                 .until = rng.below(2) == 0 ? from + 1s : TimePoint::max()});
  } else if (kind == 3) {
    cluster.stop(
        {.rank = rank, .from = from, .until = rng.below(2) == 0 ? from + 1s : TimePoint::max()});
  } else if (kind == 4) {
    cluster.corrupt(
        {.from = rank, .to = other, .frame = static_cast<std::uint32_t>(rng.below(50))});
  } else {
    cluster.delay({.from = rank, .to = other, .extra = Duration(from), .since = from});
  }
  trial.outcome = cluster.run([&](Member& me) { return train(me, algorithm, 20); });
  return trial;
}

// A thousand scripts; with sanitizers, which are slow, a tenth of them.
#if defined(TALLY_SANITIZED)
constexpr std::uint64_t kSeedsPerShare = 25;
#else
constexpr std::uint64_t kSeedsPerShare = 250;
#endif

class SimFaultScripts : public testing::TestWithParam<std::uint64_t> {};

// A rank that succeeds has the right sums, which train() checks; after a death all errors name the
// dead rank.
TEST_P(SimFaultScripts, EveryRankEndsInTimeWithTheRightSumOrTheRightName) {
  for (std::uint64_t i = 0; i < kSeedsPerShare; ++i) {
    const std::uint64_t seed = GetParam() * kSeedsPerShare + i;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto [outcome, killed] = run_at_random(seed);
    EXPECT_LT(outcome.ended, 70s);
    for (std::size_t rank = 0; rank < outcome.results.size(); ++rank) {
      const Result<void>& result = outcome.results[rank];
      if (result.has_value() || killed == kNoRank || static_cast<Rank>(rank) == killed) continue;
      EXPECT_EQ(result.error().code, ErrorCode::kPeerLost);
      EXPECT_EQ(result.error().peer, killed) << to_string(result.error());
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, SimFaultScripts, testing::Range<std::uint64_t>(0, 4));

TEST(SimFaults, TheSameSeedGivesTheSameRun) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Outcome once = run_at_random(seed).outcome;
    const Outcome again = run_at_random(seed).outcome;
    EXPECT_EQ(once.digest, again.digest) << "seed " << seed;
    EXPECT_EQ(once.ended, again.ended) << "seed " << seed;
    for (std::size_t rank = 0; rank < once.results.size(); ++rank) {
      EXPECT_EQ(once.results[rank].has_value(), again.results[rank].has_value()) << seed;
    }
  }
}

}  // namespace
}  // namespace tally::sim
