// Servers fail at any moment: every acknowledged update survives, and is applied once.

#include <fmt/format.h>

#include "server/testing/test_cluster.h"

namespace tally::server::test {
namespace {

// Expects this value in the first part; for a sparse table in the row of `key`.
void expect_value(Cluster& cluster, TableId table, bool is_sparse,
                  const std::vector<std::uint64_t>& key, float value) {
  Worker& worker = cluster.worker(0);
  const auto pulled =
      worker.pull(table, 0, is_sparse ? sparse_payload(key, {}) : std::vector<std::byte>());
  cluster.network.run();
  ASSERT_TRUE(worker.is_done(pulled));
  EXPECT_THAT(worker.answer(pulled)->values(), ElementsAre(value));
}

TEST(ServerFailover, APushIsAnsweredWhenTheBackupHasIt) {
  Cluster cluster({.servers = 2, .workers = 1});
  const TableId table = cluster.define(dense("update=asp", 1));
  Worker& worker = cluster.worker(0);
  const NodeId primary = cluster.primary(table, 0);
  const NodeId backup = 3 - primary;
  cluster.network.hold(backup, primary);
  const auto pushed = worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of({1, 2, 3, 4}));
  cluster.network.run();
  EXPECT_EQ(worker.answer(pushed), nullptr);
  cluster.network.release(backup, primary);
  cluster.network.run();
  EXPECT_TRUE(worker.is_done(pushed));
}

TEST(ServerFailover, ChangesMadeWhileARecordIsUnderWayGoTogetherIntoTheNext) {
  Cluster cluster({.servers = 2, .workers = 1});
  const TableId table = cluster.define(dense("update=asp", 1));
  Worker& worker = cluster.worker(0);
  const NodeId primary = cluster.primary(table, 0);
  const NodeId backup = 3 - primary;
  cluster.network.hold(backup, primary);
  std::vector<std::uint64_t> pushed;
  for (int i = 0; i < 10; ++i)
    pushed.push_back(worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of({1, 1, 1, 1})));
  cluster.network.run();
  const std::uint64_t before = cluster.network.delivered(MessageKind::kRecordTaken);
  cluster.network.release(backup, primary);
  cluster.network.run();
  EXPECT_EQ(cluster.network.delivered(MessageKind::kRecordTaken) - before, 2U);
  for (const auto sequence : pushed) EXPECT_TRUE(worker.is_done(sequence));
}

TEST(ServerFailover, TheBackupTakesOverWithUnansweredPushesAppliedOnce) {
  for (const bool record_came : {false, true}) {
    Cluster cluster({.servers = 2, .workers = 1});
    const TableId table = cluster.define(dense("update=asp", 1));
    Worker& worker = cluster.worker(0);
    const NodeId primary = cluster.primary(table, 0);
    const NodeId backup = 3 - primary;
    worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of({1, 2, 3, 4}));
    cluster.network.run();
    cluster.network.hold(record_came ? backup : primary, record_came ? primary : backup);
    const auto pushed = worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of({1, 1, 1, 1}));
    cluster.network.run();
    EXPECT_EQ(worker.answer(pushed), nullptr);
    cluster.kill_server(primary);
    cluster.network.run();
    EXPECT_TRUE(worker.is_done(pushed));
    const auto pulled = worker.pull(table, 0);
    cluster.network.run();
    ASSERT_TRUE(worker.is_done(pulled));
    EXPECT_THAT(worker.answer(pulled)->values(), ElementsAre(2, 3, 4, 5));
  }
}

TEST(ServerFailover, EveryKindOfPushThatIsSentTwiceCountsOnce) {
  for (const PushKind kind : {PushKind::kGradient, PushKind::kAdd, PushKind::kAssign}) {
    for (const MessageKind message : {MessageKind::kPush, MessageKind::kPushPull}) {
      Cluster cluster({.servers = 2, .workers = 1});
      const TableId table = cluster.define(dense("update=asp", 1));
      Worker& worker = cluster.worker(0);
      worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of({5, 5, 5, 5}));
      const auto first = worker.push(table, 0, {.message = message, .kind = kind, .clock = 1},
                                     bytes_of({1, 1, 1, 1}));
      worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of({3, 3, 3, 3}));
      cluster.network.run();
      worker.ask_again(first);
      cluster.network.run();
      EXPECT_TRUE(worker.is_done(first));
      const float expected = kind == PushKind::kGradient ? 7 : kind == PushKind::kAdd ? 9 : 4;
      if (message == MessageKind::kPushPull) {
        EXPECT_THAT(worker.answer(first)->values(), Each(expected));
      }
      const auto pulled = worker.pull(table, 0);
      cluster.network.run();
      EXPECT_THAT(worker.answer(pulled)->values(), Each(expected));
    }
  }
}

// A chain of three loses its head, its middle or its tail while a push passes through it.
TEST(ServerFailover, AChainOfThreeLosesAnyOfThem) {
  for (const bool is_sparse : {false, true}) {
    for (std::size_t victim = 0; victim < 3; ++victim) {
      for (int delivered = 0; delivered < 12; ++delivered) {
        Cluster cluster({.servers = 3, .workers = 1, .replicas = 3});
        const TableId table =
            cluster.define(is_sparse ? sparse("update=asp", 1) : dense("update=asp", 1, 1));
        Worker& worker = cluster.worker(0);
        const auto key = keys_of_part(0, 12, 1);
        const auto payload = [&](float value) {
          return is_sparse ? sparse_payload(key, {value}) : bytes_of({value});
        };
        worker.push(table, 0, {.kind = PushKind::kAdd}, payload(1));
        cluster.network.run();
        const View view = cluster.directory->view();
        const std::vector<NodeId> chain = view.chains[slot_of(table, 0, 3)];
        std::vector<std::uint64_t> pushed;
        for (int i = 0; i < 3; ++i)
          pushed.push_back(worker.push(table, 0, {.kind = PushKind::kAdd}, payload(1)));
        for (int i = 0; i < delivered; ++i) cluster.network.step();
        cluster.kill_server(chain[victim]);
        cluster.network.run();
        for (const auto sequence : pushed) EXPECT_TRUE(worker.is_done(sequence));
        expect_value(cluster, table, is_sparse, key, 4);
        // The other replicas have the value as well.
        for (std::size_t i = 0; i < 3; ++i) {
          const NodeId next = chain[(victim + 1 + i) % 3];
          if (next == chain[victim] || cluster.servers.size() == 1) continue;
          cluster.kill_server(cluster.primary(table, 0));
          cluster.network.run();
          expect_value(cluster, table, is_sparse, key, 4);
        }
      }
    }
  }
}

TEST(ServerFailover, ANewcomerIsFilledAndTakesOver) {
  for (const bool is_sparse : {false, true}) {
    Cluster cluster({.servers = 2, .workers = 1});
    const TableId table =
        cluster.define(is_sparse ? sparse("update=asp", 1) : dense("update=asp", 1, 200000));
    Worker& worker = cluster.worker(0);
    const std::uint32_t parts = is_sparse ? 8 : 4;
    std::vector<std::vector<std::byte>> payloads, questions;
    for (std::uint32_t part = 0; part < parts; ++part) {
      const auto keys = keys_of_part(part, parts, 10);
      const std::size_t count = is_sparse ? 10 : (part < 3 ? 65536 : 200000 - 3 * 65536);
      const std::vector<float> values(count, static_cast<float>(part + 1));
      payloads.push_back(is_sparse ? sparse_payload(keys, values) : bytes_of(values));
      questions.push_back(is_sparse ? sparse_payload(keys, {}) : std::vector<std::byte>());
      worker.push(table, part, {.kind = PushKind::kAdd}, payloads.back());
    }
    cluster.network.run();
    cluster.kill_server(1);
    cluster.network.run();
    const NodeId newcomer = cluster.add_server();
    cluster.network.run();
    // The newcomer was filled without a request; now the only other replica fails.
    cluster.kill_server(2);
    cluster.network.run();
    EXPECT_EQ(cluster.primary(table, 0), newcomer);
    for (std::uint32_t part = 0; part < parts; ++part) {
      const auto pulled = worker.pull(table, part, questions[part]);
      cluster.network.run();
      ASSERT_TRUE(worker.is_done(pulled));
      EXPECT_THAT(worker.answer(pulled)->values(), Each(static_cast<float>(part + 1)));
    }
    EXPECT_FALSE(cluster.has_event("lost:"));
  }
}

TEST(ServerFailover, ANewcomerIsSentALittleAtATimeAndTheRestIsServedMeanwhile) {
  constexpr std::uint32_t kParts = 128;
  Cluster cluster({.servers = 1, .workers = 1, .replicas = 2});
  const TableId table = cluster.define(dense("update=asp", 1, kParts * 65536));
  Worker& worker = cluster.worker(0);
  const NodeId newcomer = cluster.add_server();
  cluster.network.hold(1, newcomer);
  cluster.network.run();
  EXPECT_GT(cluster.network.bytes_under_way(1, newcomer), std::size_t{15} << 20);
  EXPECT_LT(cluster.network.bytes_under_way(1, newcomer), std::size_t{17} << 20);
  const std::vector<float> ones(65536, 1);
  const auto pushed = worker.push(table, kParts - 1, {.kind = PushKind::kAdd}, bytes_of(ones));
  cluster.network.run();
  EXPECT_TRUE(worker.is_done(pushed));
  cluster.network.release(1, newcomer);
  cluster.network.run();
  cluster.kill_server(1);
  cluster.network.run();
  const auto pulled = worker.pull(table, kParts - 1);
  cluster.network.run();
  ASSERT_TRUE(worker.is_done(pulled));
  EXPECT_THAT(worker.answer(pulled)->values(), Each(1));
  EXPECT_FALSE(cluster.has_event("lost:"));
}

TEST(ServerFailover, WhatIsPushedWhileItsPartIsUnderWayToANewcomerWaitsForIt) {
  Cluster cluster({.servers = 1, .workers = 1, .replicas = 2});
  const TableId table = cluster.define(dense("update=asp", 1));
  Worker& worker = cluster.worker(0);
  worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of({1, 1, 1, 1}));
  cluster.network.run();
  const NodeId newcomer = cluster.add_server();
  cluster.network.hold(1, newcomer);
  cluster.network.run();
  // The replication to the newcomer is stuck in the network, so a push waits for it.
  const auto waits = worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of({1, 1, 1, 1}));
  cluster.network.run();
  EXPECT_EQ(worker.answer(waits), nullptr);
  cluster.network.release(1, newcomer);
  cluster.network.run();
  EXPECT_TRUE(worker.is_done(waits));
}

TEST(ServerFailover, LossOfBothCopiesIsReportedWithTheTablesName) {
  Cluster cluster({.servers = 3, .workers = 1, .replicas = 2});
  const TableId table = cluster.define(dense("update=asp", 1));
  Worker& worker = cluster.worker(0);
  const auto slot = slot_of(table, 0, 3);
  const std::vector<NodeId> chain = cluster.directory->view().chains[slot];
  worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of({1, 1, 1, 1}));
  cluster.network.run();
  // No message reaches the third server before the other two fail.
  const NodeId third = 6 - chain[0] - chain[1];
  cluster.network.hold(chain[0], third);
  cluster.network.hold(chain[1], third);
  cluster.kill_server(chain[0]);
  cluster.network.run();
  cluster.kill_server(chain[1]);
  cluster.network.run();
  EXPECT_TRUE(cluster.has_event("lost: parts of table weights"));
  const auto pulled = worker.pull(table, 0);
  cluster.network.run();
  ASSERT_NE(worker.answer(pulled), nullptr);
  EXPECT_EQ(worker.answer(pulled)->header.outcome, Outcome::kLost);
}

TEST(ServerFailover, ATableThatWasNotTouchedIsNotLost) {
  Cluster cluster({.servers = 2, .workers = 1});
  const TableId table = cluster.define(dense("update=asp", 1));
  cluster.kill_server(cluster.primary(table, 0));
  cluster.network.run();
  Worker& worker = cluster.worker(0);
  const auto pulled = worker.pull(table, 0);
  cluster.network.run();
  ASSERT_TRUE(worker.is_done(pulled));
  EXPECT_THAT(worker.answer(pulled)->values(), Each(0));
}

TEST(ServerFailover, ABrokenLinkBetweenServersLosesNothing) {
  for (const bool is_sparse : {false, true}) {
    for (int delivered = 0; delivered < 10; ++delivered) {
      Cluster cluster({.servers = 2, .workers = 1});
      const TableId table =
          cluster.define(is_sparse ? sparse("update=asp", 1) : dense("update=asp", 1, 1));
      Worker& worker = cluster.worker(0);
      const auto key = keys_of_part(0, 8, 1);
      std::vector<std::uint64_t> pushed;
      for (int i = 0; i < 4; ++i)
        pushed.push_back(worker.push(table, 0, {.kind = PushKind::kAdd},
                                     is_sparse ? sparse_payload(key, {1}) : bytes_of({1})));
      for (int i = 0; i < delivered; ++i) cluster.network.step();
      cluster.network.break_link(1, 2);
      cluster.network.run();
      for (const auto sequence : pushed) EXPECT_TRUE(worker.is_done(sequence));
      cluster.kill_server(cluster.primary(table, 0));
      cluster.network.run();
      expect_value(cluster, table, is_sparse, key, 4);
    }
  }
}

// Servers fail and join at random while three workers push. The tables equal the sum of the
// acknowledged pushes for every seed.
TEST(ServerFailover, AcknowledgedPushesEqualTheTablesByManySeeds) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const bool is_sparse = seed % 2 == 0;
    const int replicas = 2 + static_cast<int>(seed % 3 == 0);
    Cluster cluster({.servers = 3, .workers = 3, .replicas = replicas, .seed = seed});
    const char* const plans[] = {"update=asp:rate=shared conflict=lock",
                                 "update=asp:rate=shared conflict=atomic",
                                 "update=asp:rate=shared conflict=accumulate"};
    const TableSpec spec = is_sparse ? sparse(plans[seed % 3], 3) : dense(plans[seed % 3], 3, 1);
    const TableId table = cluster.define(spec);
    const std::uint32_t parts = is_sparse ? 12 : 1;
    std::vector<std::vector<std::uint64_t>> keys;
    for (std::uint32_t part = 0; part < parts; ++part) keys.push_back(keys_of_part(part, parts, 2));
    double expected = 0;
    for (int turn = 0; turn < 6; ++turn) {
      for (auto& worker : cluster.workers) {
        for (int i = 0; i < 5; ++i) {
          const auto part = static_cast<std::uint32_t>(rng.below(parts));
          const auto value = static_cast<float>(1 + rng.below(9));
          expected += value;
          const auto kind = rng.below(2) == 0 ? PushKind::kAdd : PushKind::kGradient;
          // With rate=3 and three workers, a gradient is subtracted unscaled.
          const float sent = kind == PushKind::kAdd ? value : -value;
          worker->push(
              table, part, {.kind = kind, .rate = 3},
              is_sparse ? sparse_payload({keys[part][rng.below(2)]}, {sent}) : bytes_of({sent}));
        }
      }
      for (std::uint64_t steps = rng.below(60); steps > 0; --steps) cluster.network.step();
      const std::uint64_t fate = rng.below(4);
      if (fate == 0 && cluster.servers.size() > 1) {
        auto victim = cluster.servers.begin();
        std::advance(victim, static_cast<std::ptrdiff_t>(rng.below(cluster.servers.size())));
        cluster.kill_server(victim->first, rng.below(2) == 0);
        if (cluster.servers.size() == 1 || rng.below(2) == 0) cluster.network.run();
      } else if (fate == 1) {
        cluster.add_server();
      }
      // Losing another server before the last one is replaced may lose data, so wait for the
      // replacement.
      if (cluster.servers.size() <= 2) {
        cluster.network.run();
        cluster.add_server();
        cluster.network.run();
      }
      if (fate == 0) cluster.network.run();
    }
    cluster.network.run();
    EXPECT_FALSE(cluster.has_event("lost:"));
    double sum = 0;
    for (std::uint32_t part = 0; part < parts; ++part) {
      const auto pulled = cluster.worker(0).pull(
          table, part, is_sparse ? sparse_payload(keys[part], {}) : std::vector<std::byte>());
      cluster.network.run();
      ASSERT_TRUE(cluster.worker(0).is_done(pulled));
      for (const float value : cluster.worker(0).answer(pulled)->values()) sum += value;
    }
    for (auto& worker : cluster.workers) EXPECT_EQ(worker->open(), 0U);
    ASSERT_EQ(sum, expected);
  }
}

}  // namespace
}  // namespace tally::server::test
