#include "server/part/replication.h"

#include <gtest/gtest.h>

namespace tally::server {
namespace {

using Next = Replication::Next;
using PeerState = Replication::PeerState;

TEST(Replication, AtTheEndOfAChainChangesAreSafeAtOnce) {
  Replication copies;
  EXPECT_TRUE(copies.is_safe(copies.changed()));
  EXPECT_EQ(copies.next(1), Next::kNothing);
}

TEST(Replication, OneRecordIsUnderWayAndLaterChangesWaitForTheNext) {
  Replication copies;
  copies.set_peer(5, PeerState::kInStep);
  const auto first = copies.changed();
  EXPECT_EQ(copies.next(1), Next::kNothing);
  copies.linked();
  ASSERT_EQ(copies.next(1), Next::kChanges);
  const auto record = copies.send(Next::kChanges, 1);
  const auto second = copies.changed();
  EXPECT_EQ(copies.next(1), Next::kNothing);
  EXPECT_FALSE(copies.taken(record + 1));
  EXPECT_TRUE(copies.taken(record));
  EXPECT_TRUE(copies.is_safe(first));
  EXPECT_FALSE(copies.is_safe(second));
  EXPECT_EQ(copies.next(1), Next::kChanges);
}

TEST(Replication, NobodyWaitsForANewcomerUntilEverythingIsUnderWayToIt) {
  Replication copies;
  copies.set_peer(5, PeerState::kUnfilled);
  copies.linked();
  EXPECT_TRUE(copies.is_safe(copies.changed()));
  EXPECT_EQ(copies.next(1), Next::kNothing);
  ASSERT_TRUE(copies.wants_everything(1));
  const auto record = copies.send(Next::kEverything, 1);
  const auto waits = copies.changed();
  EXPECT_FALSE(copies.is_safe(waits));
  // The record may or may not have arrived, so the state is in doubt until an answer.
  copies.lost();
  copies.linked();
  EXPECT_EQ(copies.peer_state(), PeerState::kInDoubt);
  EXPECT_EQ(copies.next(1), Next::kEverything);
  EXPECT_FALSE(copies.taken(record));
}

TEST(Replication, ARejectedRecordIsSentAgainInANewerView) {
  for (const bool resend : {false, true}) {
    Replication copies;
    copies.set_peer(5, PeerState::kInStep);
    copies.linked();
    copies.changed();
    const auto record = copies.send(Next::kChanges, 3);
    EXPECT_TRUE(copies.rejected(record, 5, resend));
    EXPECT_EQ(copies.next(4), Next::kNothing);
    EXPECT_EQ(copies.next(5), resend ? Next::kChanges : Next::kEverything);
    EXPECT_FALSE(copies.rejected(record, 5, resend));
  }
}

TEST(Replication, ARecordThatCameBeforeItsViewAndWasNotKeptIsSentAgainAtOnce) {
  Replication copies;
  copies.set_peer(5, PeerState::kInStep);
  copies.linked();
  copies.changed();
  EXPECT_TRUE(copies.rejected(copies.send(Next::kChanges, 3), 2, true));
  EXPECT_EQ(copies.next(3), Next::kChanges);
}

TEST(Replication, WhoIsInDoubtGetsEverythingBeforeAChangeIsSafe) {
  Replication copies;
  const auto before = copies.changed();
  copies.set_peer(5, PeerState::kInDoubt);
  copies.linked();
  EXPECT_TRUE(copies.is_safe(before));
  EXPECT_EQ(copies.next(1), Next::kNothing);
  EXPECT_TRUE(copies.wants_everything(1));
  const auto after = copies.changed();
  EXPECT_FALSE(copies.is_safe(after));
  EXPECT_EQ(copies.next(1), Next::kEverything);
  copies.set_peer(kNoNode, PeerState::kNone);
  EXPECT_TRUE(copies.is_safe(after));
}

}  // namespace
}  // namespace tally::server
