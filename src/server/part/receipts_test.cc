#include "server/part/receipts.h"

#include <gtest/gtest.h>

namespace tally::server {
namespace {

using Standing = Receipts::Standing;

TEST(Receipts, TellWhatBecameOfAPush) {
  Receipts receipts;
  EXPECT_EQ(receipts.standing(3), Standing::kNew);
  receipts.apply(3);
  EXPECT_EQ(receipts.standing(3), Standing::kApplied);
  EXPECT_TRUE(receipts.hold(5));
  receipts.apply(7);
  EXPECT_EQ(receipts.standing(5), Standing::kHeld);
  EXPECT_EQ(receipts.standing(6), Standing::kApplied);
  receipts.drop(5);
  EXPECT_EQ(receipts.standing(5), Standing::kDropped);
  EXPECT_EQ(receipts.last(), 7U);
}

TEST(Receipts, RememberSoMany) {
  Receipts receipts;
  for (std::uint64_t i = 1; i <= Receipts::kMaxHeld; ++i) EXPECT_TRUE(receipts.hold(i));
  EXPECT_FALSE(receipts.hold(1000));
  EXPECT_TRUE(receipts.hold(1));
  for (std::uint64_t i = 2000; i <= 2000 + Receipts::kMaxDropped; ++i) receipts.drop(i);
  EXPECT_EQ(receipts.standing(2000), Standing::kApplied);
  EXPECT_EQ(receipts.standing(2001), Standing::kDropped);
}

}  // namespace
}  // namespace tally::server
