#include "adapters/mpi/operation_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace tally::mpi {
namespace {

using testing::ElementsAre;

TEST(OperationPlan, WhatFitsIsOneCall) {
  const Site site{.rank = 1, .ranks = 4, .most = 100};
  EXPECT_THAT(plan({.operation = Operation::kAllreduce, .count = 100}, site),
              ElementsAre(Piece{.kind = PieceKind::kWhole}));
  EXPECT_THAT(plan({.operation = Operation::kAllgather, .count = 25}, site),
              ElementsAre(Piece{.kind = PieceKind::kWhole}));
  EXPECT_FALSE(fits({.operation = Operation::kAllreduce, .count = 101}, site));
  EXPECT_FALSE(fits({.operation = Operation::kAllgather, .count = 26}, site));
}

TEST(OperationPlan, LongVectorsAreReducedChunkByChunk) {
  const Site site{.rank = 1, .ranks = 4, .most = 100};
  EXPECT_THAT(plan({.operation = Operation::kAllreduce, .count = 250}, site),
              ElementsAre(Piece{.kind = PieceKind::kAllreduce, .round = 0, .count = 100},
                          Piece{.kind = PieceKind::kAllreduce,
                                .round = 1,
                                .input_at = 100,
                                .output_at = 100,
                                .count = 100},
                          Piece{.kind = PieceKind::kAllreduce,
                                .round = 2,
                                .input_at = 200,
                                .output_at = 200,
                                .count = 50}));
}

TEST(OperationPlan, ChunksOfAMessageAreUnderWayTogether) {
  const Site site{.rank = 0, .ranks = 2, .most = 10};
  for (const Piece& piece : plan({.operation = Operation::kSend, .count = 25, .root = 1}, site))
    EXPECT_EQ(piece.round, 0U);
}

// Pairs whose counts differ from rank to rank: all must take the same way, or they would wait for
// each other.
TEST(OperationPlan, UnequalAllToAllNeverDependsOnOneRanksCounts) {
  const std::vector<std::size_t> small = {1, 1};
  EXPECT_FALSE(fits({.operation = Operation::kAllToAll, .counts = small, .receive_counts = small},
                    {.rank = 0, .ranks = 2, .most = 1000}));
}

// What a buffer of the operation holds when every rank's plan is carried out with elements that
// name the rank and place they come from.
struct Pretended {
  std::vector<std::size_t> input;
  std::vector<std::size_t> output;
};

// Carries out moves of all ranks: sends wait in queues by pair. Rounds of one rank need no order
// here.
void carry_out(const std::vector<std::vector<Piece>>& plans, std::vector<Pretended>& ranks) {
  std::map<std::pair<Rank, Rank>, std::vector<std::size_t>> sent;
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    const auto me = static_cast<Rank>(rank);
    for (const Piece& piece : plans[rank]) {
      const auto from = ranks[rank].input.begin() + static_cast<std::ptrdiff_t>(piece.input_at);
      const auto end = from + static_cast<std::ptrdiff_t>(piece.count);
      if (piece.kind == PieceKind::kSend) {
        auto& queue = sent[{me, piece.peer}];
        queue.insert(queue.end(), from, end);
      } else if (piece.kind == PieceKind::kCopy) {
        std::copy(from, end,
                  ranks[rank].output.begin() + static_cast<std::ptrdiff_t>(piece.output_at));
      }
    }
  }
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    for (const Piece& piece : plans[rank]) {
      if (piece.kind != PieceKind::kReceive) continue;
      auto& queue = sent[{piece.peer, static_cast<Rank>(rank)}];
      ASSERT_GE(queue.size(), piece.count);
      const auto end = queue.begin() + static_cast<std::ptrdiff_t>(piece.count);
      std::copy(queue.begin(), end,
                ranks[rank].output.begin() + static_cast<std::ptrdiff_t>(piece.output_at));
      queue.erase(queue.begin(), end);
    }
  }
  for (const auto& [pair, queue] : sent) EXPECT_TRUE(queue.empty());
}

TEST(OperationPlan, PiecesOfAllToAllMatchAndTranspose) {
  constexpr int kRanks = 3;
  const auto amount = [](std::size_t from, std::size_t to) { return 3 * from + 5 * to; };
  std::vector<std::vector<Piece>> plans;
  std::vector<Pretended> ranks(kRanks);
  std::vector<std::vector<std::size_t>> expected(kRanks);
  for (std::size_t me = 0; me < kRanks; ++me) {
    std::vector<std::size_t> counts;
    std::vector<std::size_t> receive_counts;
    for (std::size_t other = 0; other < kRanks; ++other) {
      counts.push_back(amount(me, other));
      receive_counts.push_back(amount(other, me));
      ranks[me].input.insert(ranks[me].input.end(), counts.back(), 10 * me + other);
      expected[me].insert(expected[me].end(), receive_counts.back(), 10 * other + me);
    }
    ranks[me].output.resize(expected[me].size());
    plans.push_back(plan(
        {.operation = Operation::kAllToAll, .counts = counts, .receive_counts = receive_counts},
        {.rank = static_cast<Rank>(me), .ranks = kRanks, .most = 4}));
  }
  carry_out(plans, ranks);
  for (std::size_t me = 0; me < kRanks; ++me) EXPECT_EQ(ranks[me].output, expected[me]);
}

TEST(OperationPlan, PiecesOfGatherAndScatterMatch) {
  constexpr int kRanks = 3;
  const std::vector<std::size_t> counts = {9, 0, 14};
  for (const Rank root : {0, 1, 2}) {
    for (const Operation operation : {Operation::kGather, Operation::kScatter}) {
      std::vector<std::vector<Piece>> plans;
      std::vector<Pretended> ranks(kRanks);
      std::vector<std::size_t> all;
      for (std::size_t r = 0; r < kRanks; ++r) all.insert(all.end(), counts[r], r + 1);
      for (std::size_t me = 0; me < kRanks; ++me) {
        const std::vector<std::size_t> own(counts[me], me + 1);
        const bool gathers = operation == Operation::kGather;
        ranks[me].input = gathers ? own : all;
        ranks[me].output.resize(gathers ? all.size() : own.size());
        plans.push_back(plan({.operation = operation, .root = root, .counts = counts},
                             {.rank = static_cast<Rank>(me), .ranks = kRanks, .most = 4}));
      }
      carry_out(plans, ranks);
      if (operation == Operation::kGather) {
        EXPECT_EQ(ranks[static_cast<std::size_t>(root)].output, all);
      } else {
        for (std::size_t me = 0; me < kRanks; ++me)
          EXPECT_THAT(ranks[me].output, testing::Each(me + 1));
      }
    }
  }
}

}  // namespace
}  // namespace tally::mpi
