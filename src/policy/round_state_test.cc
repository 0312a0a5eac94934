#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "policy/round.h"
#include "policy/test_rules.h"

namespace tally::policy {
namespace {

Round busy_round(const Rules& rules) {
  Round round(rules);
  for (int rank = 0; rank < 3; ++rank) round.join(10U + static_cast<Worker>(rank), rank);
  round.set_version(7);
  for (const std::uint64_t version : {7U, 4U, 6U}) {
    const Offer offer{.worker = 11, .clock = 9, .version = version};
    EXPECT_EQ(round.offer(offer), Decision::kApply);
    round.applied(offer, round.staleness_of(offer));
  }
  round.advance(10, 5);
  round.advance(12, 8);
  return round;
}

TEST(RoundState, ACopyGoesOnFromIt) {
  const Rules rules = rules_from("update=ssp:2", 3);
  const Round round = busy_round(rules);
  Round copy(rules);
  for (int rank = 0; rank < 3; ++rank) copy.join(10U + static_cast<Worker>(rank), rank);
  ASSERT_TRUE(copy.restore(round.encode()));
  EXPECT_EQ(copy.version(), 10U);
  EXPECT_EQ(copy.slowest_clock(), 5U);
  EXPECT_EQ(copy.staleness(), round.staleness());
  EXPECT_EQ(copy.encode(), round.encode());
}

// A server that joins a chain later knows only the current workers. The restored state tells it
// that the group was complete before.
TEST(RoundState, WhoHasLeftIsNotWaitedForElsewhere) {
  const Rules rules = rules_from("update=ssp:2", 3);
  Round round = busy_round(rules);
  Round copy(rules);
  copy.join(12, 2);
  EXPECT_FALSE(copy.is_complete());
  ASSERT_TRUE(copy.restore(round.encode()));
  EXPECT_TRUE(copy.is_complete());
  EXPECT_EQ(copy.members(), (std::vector<Worker>{12}));
  EXPECT_EQ(copy.slowest_clock(), 8U);
}

TEST(RoundState, RanksThatHaveComeAreJoined) {
  const Rules rules = rules_from("update=bsp", 3);
  Round first(rules);
  first.join(10, 0);
  first.join(11, 1);
  first.leave(11);
  Round copy(rules);
  copy.join(12, 2);
  ASSERT_TRUE(copy.restore(first.encode()));
  EXPECT_TRUE(copy.is_complete());
}

TEST(RoundState, WhatCannotBeOneIsRefusedAndChangesNothing) {
  const Rules rules = rules_from("update=ssp:2", 3);
  const std::vector<std::byte> good = busy_round(rules).encode();
  Round round = busy_round(rules);
  const std::vector<std::byte> before = round.encode();
  for (std::size_t length = 0; length < good.size(); ++length) {
    const auto result = round.restore(std::span(good).first(length));
    ASSERT_FALSE(result) << length;
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  }
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(round.restore(longer));
  const auto with = [&](std::size_t place, int value) {
    std::vector<std::byte> bytes = good;
    bytes[place] = static_cast<std::byte>(value);
    return bytes;
  };
  EXPECT_FALSE(round.restore(with(16, 2)));     // complete must be 0 or 1
  EXPECT_FALSE(round.restore(with(17, 1)));     // a complete round lists no ranks
  EXPECT_FALSE(round.restore(with(24, 0xFF)));  // too many clocks
  EXPECT_FALSE(round.restore(with(25, 99)));    // worker ids do not ascend
  EXPECT_EQ(round.encode(), before);
}

// A round that restores random bytes encodes to bytes that restore() accepts.
TEST(RoundState, AnyBytesAreTakenOrRefused) {
  const Rules rules = rules_from("update=bsp", 3);
  const std::vector<std::byte> good = busy_round(rules_from("update=asp", 3)).encode();
  Rng rng(17);
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bytes = good;
    bytes.resize(rng.below(4) == 0 ? rng.below(good.size() + 9) : good.size());
    for (std::uint64_t flips = rng.below(4); flips > 0 && !bytes.empty(); --flips) {
      bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.below(256));
    }
    Round round(rules);
    round.join(10, 0);
    if (!round.restore(bytes)) continue;
    ++taken;
    Round again(rules);
    again.join(10, 0);
    ASSERT_TRUE(again.restore(round.encode())) << "draw " << i;
    EXPECT_EQ(again.encode(), round.encode()) << "draw " << i;
  }
  EXPECT_GT(taken, 1000);
}

}  // namespace
}  // namespace tally::policy
