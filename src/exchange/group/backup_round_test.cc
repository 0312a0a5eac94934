#include "exchange/group/backup_round.h"

#include <gtest/gtest.h>

namespace tally::exchange {
namespace {

using Counts = std::vector<std::uint8_t>;

TEST(BackupRound, TheFirstOnesCountAndTheLateOneDoesNot) {
  BackupRound round(4, 3);
  round.offer(2, 0);
  round.offer(0, 0);
  EXPECT_EQ(round.due(), std::nullopt);
  round.offer(3, 0);
  round.offer(1, 0);
  EXPECT_EQ(round.due(), (Counts{1, 0, 1, 1}));
}

TEST(BackupRound, AGradientOfAnotherVersionIsNotCounted) {
  BackupRound round(2, 1);
  round.offer(0, 0);
  round.next();
  EXPECT_EQ(round.version(), 1U);
  round.offer(1, 0);
  EXPECT_EQ(round.due(), std::nullopt);
  round.offer(1, 1);
  EXPECT_EQ(round.due(), (Counts{0, 1}));
}

TEST(BackupRound, WithoutBackupsEverybodyIsWaitedFor) {
  BackupRound round(3, 3);
  round.offer(0, 0);
  round.offer(0, 0);
  round.offer(1, 0);
  EXPECT_EQ(round.due(), std::nullopt);
  round.offer(2, 0);
  EXPECT_EQ(round.due(), (Counts{1, 1, 1}));
}

TEST(BackupRound, NobodyWaitsForOneThatHasDrained) {
  BackupRound round(3, 2);
  round.drain(0);
  round.drain(2);
  EXPECT_EQ(round.due(), std::nullopt);
  round.offer(1, 0);
  EXPECT_EQ(round.due(), (Counts{0, 1, 0}));
  round.next();
  round.drain(1);
  EXPECT_TRUE(round.all_drained());
  EXPECT_EQ(round.due(), (Counts{0, 0, 0}));
}

TEST(BackupRound, AfterAllHaveDrainedTheyMayOfferAgain) {
  BackupRound round(2, 2);
  round.drain(0);
  round.drain(1);
  round.next();
  EXPECT_FALSE(round.all_drained());
  round.offer(0, 1);
  EXPECT_EQ(round.due(), std::nullopt);
  round.offer(1, 1);
  EXPECT_EQ(round.due(), (Counts{1, 1}));
}

}  // namespace
}  // namespace tally::exchange
