#include "sim/cluster.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/inbox_test_support.h"

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

// Waits until the inbox has `count` arrivals. Fails with the first loss or at the deadline.
Result<void> receive(Member& me, Inbox& inbox, std::size_t count, Deadline by) {
  while (inbox.arrivals.size() < count) {
    if (me.transport().progress(inbox)) continue;
    if (!inbox.losses.empty()) return inbox.losses.begin()->second;
    if (by.passed(me.clock().now())) {
      return Error{.code = ErrorCode::kTimeout, .message = "nothing came"};
    }
    me.transport().wait(by);
  }
  return {};
}

// A token passes round the ring `laps` times.
Result<void> pass_token(Member& me, int laps) {
  Inbox inbox;
  const Rank next = (me.rank() + 1) % me.size();
  std::vector<std::unique_ptr<TextMessage>> sent;
  const auto pass_on = [&](int lap) {
    sent.push_back(std::make_unique<TextMessage>("token", static_cast<std::uint32_t>(lap)));
    me.transport().post(next, sent.back()->outgoing());
  };
  if (me.rank() == 0) pass_on(0);
  for (int lap = 0; lap < laps; ++lap) {
    TALLY_TRY(receive(me, inbox, static_cast<std::size_t>(lap) + 1, me.deadline()));
    if (me.rank() != 0 || lap + 1 < laps) pass_on(lap);
  }
  return {};
}

// In each round every rank sends one message to every other rank and receives one from each.
Result<void> exchange(Member& me, int rounds) {
  Inbox inbox;
  TextMessage message("hello");
  const auto peers = static_cast<std::size_t>(me.size() - 1);
  for (int round = 1; round <= rounds; ++round) {
    std::vector<net::Outgoing> copies(peers + 1);
    for (Rank peer = 0; peer < me.size(); ++peer) {
      if (peer == me.rank()) continue;
      net::Outgoing& copy = copies[static_cast<std::size_t>(peer)];
      copy.header = message.outgoing().header;
      copy.payload = message.outgoing().payload;
      me.transport().post(peer, copy);
    }
    TALLY_TRY(receive(me, inbox, static_cast<std::size_t>(round) * peers, me.deadline()));
  }
  return {};
}

std::uint64_t digest_of(std::uint64_t seed) {
  Cluster cluster({.ranks = 5, .seed = seed, .conditions = {.jitter = 20us}});
  const Outcome outcome = cluster.run([](Member& me) { return exchange(me, 5); });
  for (Rank rank = 0; rank < 5; ++rank) EXPECT_TRUE(outcome[rank].has_value());
  return outcome.digest;
}

TEST(Cluster, RepeatsExactlyFromItsSeed) {
  std::set<std::uint64_t> digests;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const std::uint64_t digest = digest_of(seed);
    for (int again = 0; again < 5; ++again) EXPECT_EQ(digest_of(seed), digest) << "seed " << seed;
    digests.insert(digest);
  }
  EXPECT_EQ(digests.size(), 5U);
}

TEST(Cluster, TakesVirtualTimeOnly) {
  Cluster cluster({.ranks = 3,
                   .conditions = {.link = {.latency = 1h, .bytes_per_second = 1e9}},
                   .timeout = 100h});
  const Outcome outcome = cluster.run([](Member& me) { return pass_token(me, 4); });
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_TRUE(outcome[rank].has_value());
  EXPECT_GE(outcome.ended, 12h);
  EXPECT_LT(outcome.ended, 12h + 1s);
}

// The counter is not atomic and yet exact, because only one rank runs between two waits.
TEST(Cluster, RunsOneRankAtATime) {
  Cluster cluster({.ranks = 8});
  int counter = 0;
  cluster.run([&](Member& me) -> Result<void> {
    for (int i = 0; i < 100; ++i) {
      const int before = counter;
      counter = before + 1;
      me.sleep(1us);
    }
    return {};
  });
  EXPECT_EQ(counter, 800);
}

TEST(Cluster, KillsARankBeforeAFrame) {
  Cluster cluster({.ranks = 4, .seed = 11});
  cluster.kill({.rank = 2, .before_frame = 3});
  const Outcome outcome = cluster.run([](Member& me) { return pass_token(me, 10); });
  for (const Rank rank : {0, 1, 3}) {
    ASSERT_FALSE(outcome[rank].has_value());
    EXPECT_EQ(outcome[rank].error().code, ErrorCode::kPeerLost);
    EXPECT_EQ(outcome[rank].error().peer, 2);
  }
  ASSERT_FALSE(outcome[2].has_value());
  EXPECT_EQ(outcome[2].error().code, ErrorCode::kClosed);
  EXPECT_EQ(outcome[2].error().peer, 2);
  EXPECT_LT(outcome.ended, 10ms);
}

TEST(Cluster, DeliversWhatARankSentBeforeItWasKilled) {
  Cluster cluster({.ranks = 2});
  cluster.kill({.rank = 0, .before_frame = 3});
  std::size_t arrived = 0;
  const Outcome outcome = cluster.run([&](Member& me) -> Result<void> {
    Inbox inbox;
    if (me.rank() == 1) {
      const Result<void> received = receive(me, inbox, 5, me.deadline());
      arrived = inbox.arrivals.size();
      return received;
    }
    std::vector<std::unique_ptr<TextMessage>> sent;
    for (int i = 0; i < 5; ++i) {
      sent.push_back(std::make_unique<TextMessage>("one frame"));
      me.transport().post(1, sent.back()->outgoing());
    }
    return receive(me, inbox, 1, me.deadline());
  });
  EXPECT_EQ(arrived, 3U);
  EXPECT_EQ(outcome[1].error().code, ErrorCode::kPeerLost);
  EXPECT_EQ(outcome[0].error().code, ErrorCode::kClosed);
}

TEST(Cluster, KillsARankAtAMoment) {
  Cluster cluster({.ranks = 3, .conditions = {.detection_delay = 2ms}});
  cluster.kill({.rank = 1, .at = 5ms});
  std::vector<TimePoint> ended(3);
  const Outcome outcome = cluster.run([&](Member& me) {
    Inbox inbox;
    const Result<void> received = receive(me, inbox, 1, me.deadline());
    ended[static_cast<std::size_t>(me.rank())] = me.clock().now();
    return received;
  });
  EXPECT_EQ(ended[1], 5ms);
  EXPECT_EQ(outcome[1].error().code, ErrorCode::kClosed);
  for (const Rank rank : {0, 2}) {
    EXPECT_EQ(ended[static_cast<std::size_t>(rank)], 7ms);
    EXPECT_EQ(outcome[rank].error().code, ErrorCode::kPeerLost);
    EXPECT_EQ(outcome[rank].error().peer, 1);
  }
}

TEST(Cluster, DeliversAfterACutHasHealed) {
  Cluster cluster({.ranks = 3});
  cluster.cut({.one = 0, .other = 1, .from = 0ns, .until = 4s});
  const Outcome outcome = cluster.run([](Member& me) { return pass_token(me, 2); });
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_TRUE(outcome[rank].has_value());
  EXPECT_GE(outcome.ended, 4s);
  EXPECT_LT(outcome.ended, 4s + 10ms);
}

TEST(Cluster, TimesOutAcrossACutThatNeverHeals) {
  Cluster cluster({.ranks = 3, .timeout = 2s});
  cluster.cut({.one = 2, .other = 0});
  const Outcome outcome = cluster.run([](Member& me) { return pass_token(me, 2); });
  ASSERT_FALSE(outcome[0].has_value());
  EXPECT_EQ(outcome[0].error().code, ErrorCode::kTimeout);
  EXPECT_LT(outcome.ended, 10s);
}

TEST(Cluster, LetsAStoppedRankGoOn) {
  Cluster cluster({.ranks = 3});
  cluster.stop({.rank = 1, .from = 5us, .until = 3s});
  const Outcome outcome = cluster.run([](Member& me) { return pass_token(me, 2); });
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_TRUE(outcome[rank].has_value());
  EXPECT_GE(outcome.ended, 3s);
  EXPECT_LT(outcome.ended, 3s + 10ms);
}

TEST(Cluster, EndsARankThatIsStoppedForGood) {
  Cluster cluster({.ranks = 3, .timeout = 2s});
  cluster.stop({.rank = 1, .from = 5us});
  const Outcome outcome = cluster.run([](Member& me) { return pass_token(me, 2); });
  for (const Rank rank : {0, 2}) {
    ASSERT_FALSE(outcome[rank].has_value());
    EXPECT_EQ(outcome[rank].error().code, ErrorCode::kTimeout) << rank;
  }
  ASSERT_FALSE(outcome[1].has_value());
  EXPECT_EQ(outcome[1].error().code, ErrorCode::kClosed);
}

TEST(Cluster, ReportsADamagedFrame) {
  Cluster cluster({.ranks = 2});
  cluster.corrupt({.from = 0, .to = 1, .frame = 1});
  std::uint64_t corrupt_frames = 0;
  const Outcome outcome = cluster.run([&](Member& me) {
    const Result<void> passed = pass_token(me, 5);
    if (me.rank() == 1) corrupt_frames = me.transport().counters().corrupt_frames;
    return passed;
  });
  ASSERT_FALSE(outcome[1].has_value());
  EXPECT_EQ(outcome[1].error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(outcome[1].error().peer, 0);
  EXPECT_EQ(corrupt_frames, 1U);
  ASSERT_FALSE(outcome[0].has_value());
  EXPECT_EQ(outcome[0].error().code, ErrorCode::kPeerLost);
  EXPECT_EQ(outcome[0].error().peer, 1);
}

TEST(Cluster, DelaysOneLink) {
  Cluster cluster({.ranks = 3});
  cluster.delay({.from = 1, .to = 2, .extra = 1s});
  const Outcome outcome = cluster.run([](Member& me) { return pass_token(me, 3); });
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_TRUE(outcome[rank].has_value());
  EXPECT_GE(outcome.ended, 3s);
  EXPECT_LT(outcome.ended, 3s + 10ms);
}

// Ranks 0 and 1 send 50 numbered messages each to rank 2.
TEST(Cluster, ReordersBetweenLinksButNotWithinOne) {
  bool alternates = false;
  Cluster cluster({.ranks = 3, .seed = 5, .conditions = {.jitter = 100us}});
  const Outcome outcome = cluster.run([&](Member& me) -> Result<void> {
    Inbox inbox;
    if (me.rank() == 2) {
      TALLY_TRY(receive(me, inbox, 100, me.deadline()));
      std::vector<std::uint32_t> next{0, 0};
      int changes = 0;
      for (std::size_t i = 0; i < inbox.arrivals.size(); ++i) {
        const auto& arrival = inbox.arrivals[i];
        EXPECT_EQ(arrival.header.step, next[static_cast<std::size_t>(arrival.from)]++);
        changes += i > 0 && arrival.from != inbox.arrivals[i - 1].from;
      }
      alternates = changes > 2;
      return {};
    }
    std::vector<std::unique_ptr<TextMessage>> sent;
    for (std::uint32_t i = 0; i < 50; ++i) {
      sent.push_back(std::make_unique<TextMessage>("message", i));
      me.transport().post(2, sent.back()->outgoing());
      me.sleep(5us);
    }
    return {};
  });
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_TRUE(outcome[rank].has_value());
  EXPECT_TRUE(alternates);
}

// No rank sends and none has a deadline: the run still ends, with an error on every rank.
TEST(Cluster, EndsWhenNothingCanHappenAnyMore) {
  Cluster cluster({.ranks = 3});
  const Outcome outcome = cluster.run([](Member& me) {
    Inbox inbox;
    return receive(me, inbox, 1, Deadline::never());
  });
  for (Rank rank = 0; rank < 3; ++rank) {
    ASSERT_FALSE(outcome[rank].has_value());
    EXPECT_EQ(outcome[rank].error().code, ErrorCode::kClosed) << rank;
  }
}

Handle start_allreduce(Communicator& communicator, std::vector<float>& data) {
  return communicator.start({.operation = Operation::kAllreduce,
                             .input = data.data(),
                             .output = data.data(),
                             .count = data.size(),
                             .type = DataType::kFloat32});
}

// The ranks start the same two operations, and wait for them, in opposite order.
Result<void> allreduce_crosswise(Member& me) {
  TALLY_TRY(const auto one, me.communicator().split(0, me.rank(), me.deadline()));
  TALLY_TRY(const auto other, me.communicator().split(0, me.rank(), me.deadline()));
  std::vector<float> first(100, 1.0F);
  std::vector<float> second(100, 2.0F);
  const bool swapped = me.rank() % 2 == 1;
  Handle earlier = swapped ? start_allreduce(*other, second) : start_allreduce(*one, first);
  Handle later = swapped ? start_allreduce(*one, first) : start_allreduce(*other, second);
  TALLY_TRY(earlier.wait());
  TALLY_TRY(later.wait());
  const auto ranks = static_cast<float>(me.size());
  EXPECT_EQ(first, std::vector<float>(100, ranks));
  EXPECT_EQ(second, std::vector<float>(100, 2 * ranks));
  return {};
}

TEST(Cluster, StartedOperationsOfTwoCommunicatorsDoNotWaitForEachOther) {
  for (const int ranks : {2, 5}) {
    Cluster cluster({.ranks = ranks, .seed = 4, .conditions = {.jitter = 20us}});
    const Outcome outcome = cluster.run(allreduce_crosswise);
    for (Rank rank = 0; rank < ranks; ++rank) EXPECT_TRUE(outcome[rank].has_value()) << rank;
    EXPECT_LT(outcome.ended, 10ms);
  }
}

TEST(Cluster, StartedOperationsRepeatExactlyFromTheSeed) {
  const auto digest = [](std::uint64_t seed) {
    Cluster cluster({.ranks = 4, .seed = seed, .conditions = {.jitter = 20us}});
    return cluster.run(allreduce_crosswise).digest;
  };
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(digest(seed), digest(seed)) << seed;
    EXPECT_NE(digest(seed), digest(seed + 1)) << seed;
  }
}

// Rank 0 waits in run() for rank 1, which first needs the operation that rank 0 has started.
TEST(Cluster, StartedOperationsProgressWhileTheRankRunsAnother) {
  Cluster cluster({.ranks = 2});
  const Outcome outcome = cluster.run([](Member& me) -> Result<void> {
    TALLY_TRY(const auto other, me.communicator().split(0, me.rank(), me.deadline()));
    std::vector<float> data(100, 1.0F);
    Handle started = start_allreduce(*other, data);
    if (me.rank() == 1) TALLY_TRY(started.wait());
    TALLY_TRY(me.communicator().barrier());
    return started.wait();
  });
  for (const Rank rank : {0, 1}) EXPECT_TRUE(outcome[rank].has_value()) << rank;
}

TEST(Cluster, CollectivesOfACommunicatorKeepTheOrderOfIssue) {
  Cluster cluster({.ranks = 3});
  const Outcome outcome = cluster.run([](Member& me) -> Result<void> {
    std::vector<std::vector<float>> data(4, std::vector<float>(10, 1.0F));
    std::vector<int> ended;
    for (int i = 0; i < 3; ++i)
      start_allreduce(me.communicator(), data[static_cast<std::size_t>(i)])
          .then([&ended, i](const Result<void>&) { ended.push_back(i); });
    TALLY_TRY(me.communicator().allreduce(std::span(data[3])));
    EXPECT_EQ(ended, (std::vector<int>{0, 1, 2}));
    for (const auto& vector : data) EXPECT_EQ(vector, std::vector<float>(10, 3.0F));
    return {};
  });
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_TRUE(outcome[rank].has_value()) << rank;
}

// A callback may start the next operation, and may wait for another communicator.
TEST(Cluster, CallbacksMayStartOperationsAndWaitForOtherCommunicators) {
  Cluster cluster({.ranks = 2});
  const Outcome outcome = cluster.run([](Member& me) -> Result<void> {
    TALLY_TRY(const auto other, me.communicator().split(0, me.rank(), me.deadline()));
    std::vector<std::vector<float>> data(3, std::vector<float>(10, 1.0F));
    std::optional<Handle> next;
    Result<void> inside;
    Handle first = start_allreduce(me.communicator(), data[0]);
    first.then([&](const Result<void>&) {
      next = start_allreduce(me.communicator(), data[1]);
      inside = other->allreduce(std::span(data[2]));
    });
    TALLY_TRY(first.wait());
    TALLY_TRY(inside);
    TALLY_TRY(next->wait());
    for (const auto& vector : data) EXPECT_EQ(vector, std::vector<float>(10, 2.0F));
    return {};
  });
  for (const Rank rank : {0, 1}) EXPECT_TRUE(outcome[rank].has_value()) << rank;
}

// Rank 1 sends after 5 ms; rank 0 sleeps and polls, or only polls, which takes virtual time, too.
TEST(Cluster, AStartedReceiveCanBePolled) {
  for (const Duration nap : {1ms, 0ms}) {
    Cluster cluster({.ranks = 2});
    const Outcome outcome = cluster.run([&](Member& me) -> Result<void> {
      std::vector<std::int32_t> word{me.rank()};
      if (me.rank() == 1) {
        me.sleep(5ms);
        return me.communicator().send(std::span<const std::int32_t>(word), 0);
      }
      Handle received = me.communicator().start({.operation = Operation::kReceive,
                                                 .output = word.data(),
                                                 .count = 1,
                                                 .type = DataType::kInt32,
                                                 .root = 1});
      EXPECT_FALSE(received.poll());
      while (!received.poll()) me.sleep(nap);
      EXPECT_EQ(word[0], 1);
      EXPECT_GE(me.clock().now(), 5ms);
      EXPECT_LT(me.clock().now(), 7ms);
      return received.wait();
    });
    for (const Rank rank : {0, 1}) EXPECT_TRUE(outcome[rank].has_value()) << rank;
  }
}

// Rank 0 computes for a second; rank 1 does not have to wait that long for its part.
TEST(Cluster, StartedOperationsProgressWhileTheRankSleeps) {
  Cluster cluster({.ranks = 2});
  const Outcome outcome = cluster.run([](Member& me) -> Result<void> {
    std::vector<float> data(100, 1.0F);
    Handle started = start_allreduce(me.communicator(), data);
    if (me.rank() == 0) me.sleep(1s);
    TALLY_TRY(started.wait());
    EXPECT_LT(me.clock().now(), me.rank() == 0 ? 1s + 1ns : 10ms);
    return {};
  });
  for (const Rank rank : {0, 1}) EXPECT_TRUE(outcome[rank].has_value()) << rank;
}

// Operations on two communicators, one of them queued behind another, and a receive.
TEST(Cluster, TheLossOfAPeerEndsStartedOperations) {
  Cluster cluster({.ranks = 3});
  cluster.kill({.rank = 2, .at = 5ms});
  const Outcome outcome = cluster.run([](Member& me) -> Result<void> {
    TALLY_TRY(const auto other, me.communicator().split(0, me.rank(), me.deadline()));
    if (me.rank() == 2) {
      me.sleep(1s);
      return me.communicator().barrier();
    }
    std::vector<std::vector<float>> data(3, std::vector<float>(100, 1.0F));
    std::int32_t word = 0;
    std::vector<Handle> handles{start_allreduce(me.communicator(), data[0]),
                                start_allreduce(me.communicator(), data[1]),
                                start_allreduce(*other, data[2]),
                                other->start({.operation = Operation::kReceive,
                                              .output = &word,
                                              .count = 1,
                                              .type = DataType::kInt32,
                                              .root = 2})};
    for (Handle& handle : handles) {
      const Result<void> ended = handle.wait();
      EXPECT_FALSE(ended.has_value());
      if (ended.has_value()) continue;
      EXPECT_EQ(ended.error().code, ErrorCode::kPeerLost) << to_string(ended.error());
      EXPECT_EQ(ended.error().peer, 2) << to_string(ended.error());
    }
    EXPECT_LT(me.clock().now(), 10ms);
    return {};
  });
  for (const Rank rank : {0, 1}) EXPECT_TRUE(outcome[rank].has_value()) << rank;
}

TEST(Cluster, StartedOperationsEndWithTheirCommunicator) {
  Cluster cluster({.ranks = 2});
  const Outcome outcome = cluster.run([](Member& me) -> Result<void> {
    std::vector<float> data(100, 1.0F);
    TALLY_TRY(auto other, me.communicator().split(0, me.rank(), me.deadline()));
    if (me.rank() == 1) return me.communicator().barrier();
    Handle started = start_allreduce(*other, data);
    EXPECT_FALSE(started.poll());
    other.reset();
    EXPECT_TRUE(started.poll());
    EXPECT_EQ(started.wait().error().code, ErrorCode::kClosed);
    return me.communicator().barrier();
  });
  for (const Rank rank : {0, 1}) EXPECT_TRUE(outcome[rank].has_value()) << rank;
}

// Ranks 0 and 1 share a host, and ranks 2 and 3 another; no rank waits for a periodic check.
TEST(Cluster, AnArrivalInSharedMemoryWakesItsNeighbours) {
  Cluster cluster({.ranks = 4, .ranks_per_host = 2});
  const Outcome outcome = cluster.run([](Member& me) -> Result<void> {
    TALLY_TRY(const auto host, me.communicator().split(me.rank() / 2, 0, me.deadline()));
    const TimePoint began = me.clock().now();
    if (me.rank() % 2 == 1) me.sleep(5ms);
    TALLY_TRY(host->barrier());
    EXPECT_EQ(me.clock().now() - began, 5ms);
    std::vector<float> data(200'000, 1.0F);
    TALLY_TRY(host->allreduce(std::span(data)));
    EXPECT_EQ(me.clock().now() - began, 5ms);
    TALLY_TRY(me.communicator().allreduce(std::span(data)));
    EXPECT_EQ(data, std::vector<float>(data.size(), 8.0F));
    EXPECT_LT(me.clock().now() - began, 6ms);
    return {};
  });
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_TRUE(outcome[rank].has_value()) << rank;
}

TEST(Cluster, LeavesInGoodOrder) {
  Cluster cluster({.ranks = 2});
  std::size_t losses = 1;
  const Outcome outcome = cluster.run([&](Member& me) -> Result<void> {
    if (me.rank() == 0) return {};
    Inbox inbox;
    EXPECT_EQ(receive(me, inbox, 1, me.deadline()).error().code, ErrorCode::kTimeout);
    EXPECT_EQ(inbox.departed, std::vector<Rank>{0});
    losses = inbox.losses.size();
    return {};
  });
  EXPECT_TRUE(outcome[1].has_value());
  EXPECT_EQ(losses, 0U);
}

}  // namespace
}  // namespace tally::sim
