#include "collective/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::collective {
namespace {

constexpr Placement kOneHost{.ranks = 4, .hosts = 1};
constexpr Placement kApart{.ranks = 4, .hosts = 4};
constexpr Placement kTwoHosts{.ranks = 4, .hosts = 2};

Algorithm allreduce(std::size_t bytes, const Placement& placement) {
  return *choose({.operation = Operation::kAllreduce, .count = bytes, .type = DataType::kUInt8},
                 placement);
}

TEST(Choose, OneHostGoesDirect) {
  EXPECT_EQ(allreduce(1, kOneHost), Algorithm::kDirect);
  EXPECT_EQ(allreduce(std::size_t{1} << 30, kOneHost), Algorithm::kDirect);
}

TEST(Choose, ANetworkGoesByTreeThenHalvingDoublingThenRing) {
  EXPECT_EQ(allreduce(kTreeBytes, kApart), Algorithm::kTree);
  EXPECT_EQ(allreduce(kTreeBytes + 1, kApart), Algorithm::kHalvingDoubling);
  EXPECT_EQ(allreduce(kHalvingDoublingBytes, kApart), Algorithm::kHalvingDoubling);
  EXPECT_EQ(allreduce(kHalvingDoublingBytes + 1, kApart), Algorithm::kRing);
}

TEST(Choose, HostsOfSeveralRanksGoHierarchically) {
  EXPECT_EQ(allreduce(1 << 20, kTwoHosts), Algorithm::kHierarchical);
}

TEST(Choose, WhatIsForcedIsTakenIfItExists) {
  const auto forced = [](Operation operation, Algorithm algorithm, const Placement& placement) {
    return choose({.operation = operation, .algorithm = algorithm}, placement);
  };
  EXPECT_EQ(*forced(Operation::kAllreduce, Algorithm::kRing, kOneHost), Algorithm::kRing);
  EXPECT_EQ(*forced(Operation::kBroadcast, Algorithm::kTree, kOneHost), Algorithm::kTree);
  const auto direct = forced(Operation::kAllreduce, Algorithm::kDirect, kApart);
  ASSERT_FALSE(direct.has_value());
  EXPECT_EQ(direct.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(direct.error().message, testing::HasSubstr("possible: tree, halving-doubling, ring"));
  EXPECT_FALSE(forced(Operation::kAllToAll, Algorithm::kDirect, kOneHost).has_value());
  EXPECT_FALSE(forced(Operation::kAllreduce, Algorithm::kHierarchical, kOneHost).has_value());
}

}  // namespace
}  // namespace tally::collective
