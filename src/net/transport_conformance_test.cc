#include "net/transport_conformance.h"

#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace tally::net {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportConformance);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RealTimeTransportConformance);

namespace {

constexpr std::size_t kMaxPayload = wire::kMaxPayloadBytes;

std::uint64_t frames_for(std::size_t bytes, std::size_t frame_bytes) {
  return bytes == 0 ? 1 : (bytes + frame_bytes - 1) / frame_bytes;
}

const std::vector<std::size_t> kSizes = {0,
                                         1,
                                         2,
                                         79,
                                         80,
                                         81,
                                         4095,
                                         4096,
                                         (64 << 10) - 80,
                                         (64 << 10) - 1,
                                         64 << 10,
                                         (64 << 10) + 1,
                                         kMaxPayload - 1,
                                         kMaxPayload,
                                         kMaxPayload + 1,
                                         2 * kMaxPayload - 1,
                                         2 * kMaxPayload,
                                         2 * kMaxPayload + 1,
                                         (std::size_t{5} << 20) + 3};

}  // namespace

#define TALLY_MAKE_OR_SKIP(size) \
  if (!make(size)) GTEST_SKIP() << GetParam().name << " is not to be had on this machine"

TEST_P(TransportConformance, KnowsItsPlace) {
  TALLY_MAKE_OR_SKIP(3);
  for (Rank rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(at(rank).rank(), rank);
    EXPECT_EQ(at(rank).size(), 3);
  }
}

TEST_P(TransportConformance, HeaderFieldsArriveAsPosted) {
  TALLY_MAKE_OR_SKIP(2);
  Letter letter;
  letter.bytes = pattern(10, 1);
  letter.outgoing.payload = letter.bytes;
  wire::FrameHeader& header = letter.outgoing.header;
  header.kind = wire::FrameKind::kPoint;
  header.channel = 11;
  header.sequence = 12;
  header.step = 13;
  header.signature = {
      .count = 14, .operation = 1, .type = 2, .reduce_op = 3, .algorithm = 4, .root = -5};
  const wire::Signature signature = header.signature;
  at(0).post(1, letter.outgoing);
  ASSERT_TRUE(drive([&] { return inbox(1).count_from(0) == 1 && letter.outgoing.sent(); }));
  const wire::FrameHeader& arrived = inbox(1).messages[0][0].header;
  EXPECT_EQ(arrived.kind, wire::FrameKind::kPoint);
  EXPECT_EQ(arrived.channel, 11U);
  EXPECT_EQ(arrived.sequence, 12U);
  EXPECT_EQ(arrived.step, 13U);
  EXPECT_EQ(arrived.signature, signature);
  EXPECT_EQ(arrived.message_bytes, 10U);
  EXPECT_EQ(arrived.offset_bytes, 0U);
}

TEST_P(TransportConformance, EverySizeArrivesWhole) {
  for (const bool use_place : {false, true}) {
    TALLY_MAKE_OR_SKIP(2);
    inbox(1).use_place = use_place;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      const Letter& letter = post(0, 1, pattern(kSizes[i], static_cast<std::uint32_t>(i)));
      ASSERT_TRUE(drive([&] { return inbox(1).count_from(0) == i + 1 && letter.outgoing.sent(); }))
          << kSizes[i];
      const Inbox::Message& message = inbox(1).messages[0][i];
      EXPECT_TRUE(message.bytes == letter.bytes) << kSizes[i];
      if (kSizes[i] > 0) {
        EXPECT_EQ(message.placed, use_place) << kSizes[i];
      }
    }
    inboxes_.clear();
  }
}

// Messages of all sizes in both directions, posted before either rank makes progress.
TEST_P(TransportConformance, ManyInFlightBothWaysKeepTheirOrder) {
  TALLY_MAKE_OR_SKIP(2);
  inbox(1).use_place = true;
  constexpr std::uint32_t kRounds = 5;
  std::uint32_t count = 0;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    for (const std::size_t bytes : kSizes) {
      post(0, 1, pattern(bytes, count), count);
      post(1, 0, pattern(bytes, count + 1000), count);
      ++count;
    }
  }
  ASSERT_TRUE(drive([&] {
    return inbox(0).count_from(1) == count && inbox(1).count_from(0) == count && all_sent();
  }));
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t bytes = kSizes[i % kSizes.size()];
    ASSERT_EQ(inbox(1).messages[0][i].header.sequence, i);
    ASSERT_EQ(inbox(0).messages[1][i].header.sequence, i);
    ASSERT_TRUE(inbox(1).messages[0][i].bytes == pattern(bytes, i));
    ASSERT_TRUE(inbox(0).messages[1][i].bytes == pattern(bytes, i + 1000));
  }
}

TEST_P(TransportConformance, EveryRankReachesEveryOther) {
  TALLY_MAKE_OR_SKIP(6);
  const std::size_t bytes = kMaxPayload + 77;
  for (Rank from = 0; from < size(); ++from) {
    for (Rank to = 0; to < size(); ++to) {
      if (from == to) continue;
      for (std::uint32_t i = 0; i < 3; ++i) {
        post(from, to, pattern(i == 1 ? 5 : bytes, static_cast<std::uint32_t>(from * 10 + to)), i);
      }
    }
  }
  ASSERT_TRUE(drive([&] {
    for (Rank from = 0; from < size(); ++from) {
      for (Rank to = 0; to < size(); ++to) {
        if (from != to && inbox(to).count_from(from) < 3) return false;
      }
    }
    return true;
  }));
  for (Rank from = 0; from < size(); ++from) {
    for (Rank to = 0; to < size(); ++to) {
      if (from == to) continue;
      for (std::uint32_t i = 0; i < 3; ++i) {
        const Inbox::Message& message = inbox(to).messages[from][i];
        EXPECT_EQ(message.header.sequence, i);
        EXPECT_TRUE(message.bytes ==
                    pattern(i == 1 ? 5 : bytes, static_cast<std::uint32_t>(from * 10 + to)));
      }
    }
  }
}

TEST_P(TransportConformance, HeldFrameIsOfferedAgainAndBlocksOnlyItsPeer) {
  for (const bool use_place : {false, true}) {
    TALLY_MAKE_OR_SKIP(3);
    bool holding = true;
    inbox(0).use_place = use_place;
    inbox(0).hold = [&](Rank from) { return from == 1 && holding; };
    for (std::uint32_t i = 0; i < 4; ++i) {
      post(1, 0, pattern(3000, i), i);
      post(2, 0, pattern(3000, 100 + i), i);
    }
    post(1, 0, pattern(2 * kMaxPayload + 5, 4), 4);
    ASSERT_TRUE(drive([&] { return inbox(0).count_from(2) == 4 && inbox(0).hold_count > 3; }));
    EXPECT_EQ(inbox(0).count_from(1), 0U);
    holding = false;
    ASSERT_TRUE(drive([&] { return inbox(0).count_from(1) == 5; }));
    for (std::uint32_t i = 0; i < 5; ++i) {
      EXPECT_EQ(inbox(0).messages[1][i].header.sequence, i);
      EXPECT_TRUE(inbox(0).messages[1][i].bytes == pattern(i == 4 ? 2 * kMaxPayload + 5 : 3000, i));
    }
    transports_.clear();
    inboxes_.clear();
  }
}

// A held frame must not keep wait() from sleeping, and must not hide later frames of other ranks.
TEST_P(RealTimeTransportConformance, WaitSleepsWhileAFrameIsHeld) {
  TALLY_MAKE_OR_SKIP(3);
  inbox(0).hold = [&](Rank from) { return from == 1; };
  for (std::uint32_t i = 0; i < 50; ++i) post(1, 0, pattern(3000, i), i);
  ASSERT_TRUE(drive([&] { return inbox(0).hold_count > 3; }));
  settle();
  const auto start = std::chrono::steady_clock::now();
  const auto nap = std::chrono::milliseconds(30);
  // The first call may return early because of frames that arrived before.
  at(0).wait(Deadline::after(nap));
  at(0).progress(inbox(0));
  at(0).wait(Deadline::after(nap));
  EXPECT_GE(std::chrono::steady_clock::now() - start, nap);
}

TEST_P(TransportConformance, WithdrawnBeforeItsTurnLeavesNoTrace) {
  TALLY_MAKE_OR_SKIP(2);
  // Longer than any transport accepts at once, so that the next message must queue.
  post(0, 1, pattern(std::size_t{48} << 20, 1), 1);
  ASSERT_FALSE(letters_.back().outgoing.sent());
  {
    Letter withdrawn;
    withdrawn.bytes = pattern(1000, 2);
    withdrawn.outgoing.payload = withdrawn.bytes;
    withdrawn.outgoing.header.sequence = 2;
    at(0).post(1, withdrawn.outgoing);
    at(0).withdraw(1, withdrawn.outgoing);
  }
  post(0, 1, pattern(1000, 3), 3);
  ASSERT_TRUE(drive([&] { return inbox(1).count_from(0) == 2; }));
  EXPECT_EQ(inbox(1).messages[0][0].header.sequence, 1U);
  EXPECT_EQ(inbox(1).messages[0][1].header.sequence, 3U);
  EXPECT_TRUE(inbox(1).losses.empty());
  EXPECT_TRUE(inbox(0).losses.empty());
}

// The transport does not touch the memory again, the message never completes, and the next message
// arrives.
TEST_P(TransportConformance, WithdrawnHalfSentIsForgotten) {
  TALLY_MAKE_OR_SKIP(3);
  {
    Letter withdrawn;
    withdrawn.bytes = pattern(std::size_t{48} << 20, 2);
    withdrawn.outgoing.payload = withdrawn.bytes;
    at(0).post(1, withdrawn.outgoing);
    ASSERT_FALSE(withdrawn.outgoing.sent());
    at(0).withdraw(1, withdrawn.outgoing);
  }
  post(0, 1, pattern(1000, 3), 3);
  post(0, 2, pattern(10, 1));
  ASSERT_TRUE(drive([&] { return inbox(1).count_from(0) == 1 && inbox(2).count_from(0) == 1; }));
  EXPECT_EQ(inbox(1).messages[0][0].header.sequence, 3U);
  EXPECT_TRUE(inbox(0).losses.empty());
  EXPECT_TRUE(inbox(1).losses.empty());
}

// The sender may be busy elsewhere after sent(): delivery must not depend on its next progress().
TEST_P(TransportConformance, WhatWasSentArrivesWithoutTheSendersHelp) {
  TALLY_MAKE_OR_SKIP(2);
  const Deadline by = Deadline::after(std::chrono::seconds(60));
  for (std::size_t i = 1; i <= 30; ++i) {
    Letter& letter = post(0, 1, pattern((std::size_t{1} << 20) + 4099 * i, 1));
    while (!letter.outgoing.sent() && !by.passed(SteadyClock().now())) {
      at(0).progress(inbox(0));
      at(1).progress(inbox(1));
    }
    while (inbox(1).count_from(0) < i && !by.passed(SteadyClock().now())) at(1).progress(inbox(1));
    ASSERT_EQ(inbox(1).count_from(0), i);
  }
}

TEST_P(TransportConformance, WithdrawingWhatWasSentIsHarmless) {
  TALLY_MAKE_OR_SKIP(2);
  Letter& letter = post(0, 1, pattern(100, 1));
  ASSERT_TRUE(drive([&] { return inbox(1).count_from(0) == 1; }));
  at(0).withdraw(1, letter.outgoing);
  post(0, 1, pattern(100, 2));
  ASSERT_TRUE(drive([&] { return inbox(1).count_from(0) == 2; }));
}

TEST_P(TransportConformance, GoodbyeComesAfterTheLastMessageAndIsSilent) {
  TALLY_MAKE_OR_SKIP(3);
  for (std::uint32_t i = 0; i < 10; ++i) post(1, 0, pattern(5000, i), i);
  at(1).close();
  ASSERT_TRUE(drive([&] { return inbox(0).goodbye_count == 1 && inbox(2).goodbye_count == 1; }));
  EXPECT_EQ(inbox(0).count_from(1), 10U);
  transports_[1].reset();
  Letter& unheard = post(0, 1, pattern(10, 1));
  Letter& heard = post(0, 2, pattern(10, 2));
  ASSERT_TRUE(drive([&] {
    return unheard.outgoing.sent() && heard.outgoing.sent() && inbox(2).count_from(0) == 1;
  }));
  settle();
  EXPECT_TRUE(inbox(0).losses.empty());
  EXPECT_TRUE(inbox(2).losses.empty());
}

TEST_P(TransportConformance, EverybodyMayLeaveAtOnce) {
  TALLY_MAKE_OR_SKIP(3);
  for (Rank rank = 0; rank < 3; ++rank) at(rank).close();
  settle();
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_TRUE(inbox(rank).losses.empty());
  at(0).close();
  EXPECT_TRUE(post(0, 1, pattern(10, 1)).outgoing.sent());
}

TEST_P(TransportConformance, LossIsReportedOnceAndNamesThePeer) {
  TALLY_MAKE_OR_SKIP(3);
  post(1, 0, pattern(100, 1));
  ASSERT_TRUE(drive([&] { return inbox(0).count_from(1) == 1; }));
  kill(1);
  ASSERT_TRUE(drive([&] { return !inbox(0).losses.empty() && !inbox(2).losses.empty(); }));
  Letter& unheard = post(0, 1, pattern(std::size_t{1} << 20, 1));
  EXPECT_TRUE(unheard.outgoing.sent());
  post(0, 2, pattern(10, 2));
  ASSERT_TRUE(drive([&] { return inbox(2).count_from(0) == 1; }));
  settle();
  for (const Rank rank : {0, 2}) {
    ASSERT_EQ(inbox(rank).losses.size(), 1U);
    EXPECT_EQ(inbox(rank).losses[0].peer, 1);
    EXPECT_EQ(inbox(rank).losses[0].why.peer, 1);
    EXPECT_EQ(inbox(rank).losses[0].why.code, ErrorCode::kPeerLost);
  }
}

// Messages queued for a dead peer count as sent, and its last messages are still delivered.
TEST_P(TransportConformance, LossReleasesWhatWasQueuedAndComesAfterTheLastWords) {
  TALLY_MAKE_OR_SKIP(2);
  Letter& queued = post(0, 1, pattern(std::size_t{48} << 20, 1));
  ASSERT_FALSE(queued.outgoing.sent());
  Letter& last = post(1, 0, pattern(100, 2));
  ASSERT_TRUE(drive([&] { return last.outgoing.sent(); }));
  kill(1);
  ASSERT_TRUE(drive([&] { return !inbox(0).losses.empty(); }));
  EXPECT_EQ(inbox(0).count_from(1), 1U);
  EXPECT_TRUE(queued.outgoing.sent());
}

TEST_P(TransportConformance, CountersAreExact) {
  TALLY_MAKE_OR_SKIP(2);
  std::uint64_t frames = 0;
  std::uint64_t bytes = 0;
  for (const std::size_t size : kSizes) {
    post(0, 1, pattern(size, 1));
    frames += frames_for(size, GetParam().frame_bytes);
    bytes += size;
  }
  bool holding = true;
  inbox(1).hold = [&](Rank) { return holding; };
  settle();
  holding = false;
  ASSERT_TRUE(drive([&] { return inbox(1).count_from(0) == kSizes.size() && all_sent(); }));
  EXPECT_EQ(at(0).counters().frames_sent, frames);
  EXPECT_EQ(at(0).counters().payload_bytes_sent, bytes);
  EXPECT_EQ(at(0).counters().frames_received, 0U);
  EXPECT_EQ(at(1).counters().frames_received, frames);
  EXPECT_EQ(at(1).counters().payload_bytes_received, bytes);
  EXPECT_EQ(at(1).counters().frames_sent, 0U);
  EXPECT_EQ(at(1).counters().corrupt_frames, 0U);
  EXPECT_EQ(at(1).counters().stale_frames, 0U);
}

TEST_P(RealTimeTransportConformance, WaitEndsAtItsDeadline) {
  TALLY_MAKE_OR_SKIP(2);
  settle();
  at(0).wait(Deadline::after(std::chrono::milliseconds(1)));
  const auto start = std::chrono::steady_clock::now();
  at(0).wait(Deadline::after(std::chrono::milliseconds(20)));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  at(0).wait(Deadline::after(Duration::zero()));
}

TEST_P(TransportConformance, WakeEndsWait) {
  TALLY_MAKE_OR_SKIP(2);
  settle();
  // A wake() before wait() is not lost.
  at(0).wake();
  at(0).wait(Deadline::never());
  // This wake() may happen during the wait() or before it.
  std::atomic<bool> returned = false;
  std::jthread waiter([&] {
    at(0).wait(Deadline::never());
    returned = true;
  });
  while (!returned) at(0).wake();
}

// One thread per rank, which sleeps whenever it has no work. A second thread sleeps in wait() of
// rank 0.
TEST_P(TransportConformance, ThreadsThatSleepMissNothing) {
  constexpr int kRanks = 3;
  constexpr std::uint32_t kTurns = 300;
  TALLY_MAKE_OR_SKIP(kRanks);
  const Deadline by = Deadline::after(kPatience);
  std::atomic<int> finished = 0;
  const auto run = [&](Rank me) {
    const Rank right = (me + 1) % kRanks;
    const Rank left = (me + kRanks - 1) % kRanks;
    for (std::uint32_t turn = 0; turn < kTurns; ++turn) {
      Letter letter;
      letter.bytes = pattern(turn % 50 == 7 ? kMaxPayload + 1 : 100, turn);
      letter.outgoing.payload = letter.bytes;
      letter.outgoing.header.sequence = turn;
      at(me).post(right, letter.outgoing);
      while (!letter.outgoing.sent() || inbox(me).count_from(left) <= turn) {
        if (!at(me).progress(inbox(me))) at(me).wait(by);
        if (by.passed(std::chrono::steady_clock::now().time_since_epoch())) return;
      }
    }
    ++finished;
  };
  {
    std::vector<std::jthread> threads;
    for (Rank rank = 0; rank < kRanks; ++rank) threads.emplace_back(run, rank);
  }
  EXPECT_EQ(finished, kRanks);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(inbox(rank).count_from((rank + kRanks - 1) % kRanks), kTurns);
  }
}

// wait() runs in a thread of its own, in parallel to everything else, as in a communicator.
TEST_P(TransportConformance, WaitRunsBesideProgress) {
  TALLY_MAKE_OR_SKIP(2);
  std::atomic<bool> stop = false;
  std::jthread waiter([&] {
    while (!stop) at(0).wait(Deadline::after(std::chrono::milliseconds(5)));
  });
  for (std::uint32_t i = 0; i < 20; ++i) {
    post(0, 1, pattern(kMaxPayload * 3, i), i);
    post(1, 0, pattern(kMaxPayload * 3, i), i);
  }
  EXPECT_TRUE(drive([&] { return inbox(0).count_from(1) == 20 && inbox(1).count_from(0) == 20; }));
  at(0).close();
  stop = true;
  at(0).wake();
}

}  // namespace tally::net
