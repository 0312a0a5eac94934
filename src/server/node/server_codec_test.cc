// Tables whose workers push encoded gradients.

#include <optional>

#include <fmt/format.h>

#include "base/rng.h"
#include "codec/codec.h"
#include "optimizer/update_rule.h"
#include "server/testing/test_cluster.h"
#include "server/testing/test_follower.h"

namespace tally::server::test {
namespace {

constexpr std::size_t kCodedCount = 1000;

TableSpec table_of(const std::string& plan, const std::string& codec, int workers,
                   const OptimizerSpec& optimizer = sgd({.rate = 1})) {
  return {.name = "weights",
          .count = kCodedCount,
          .optimizer = optimizer,
          .plan = plan,
          .workers = workers,
          .seed = 5,
          .codec = codec,
          .first_element = 4096};
}

std::vector<float> random_gradient(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(kCodedCount);
  for (float& value : values) value = static_cast<float>(2 * rng.uniform() - 1);
  return values;
}

std::vector<float> values_at(Cluster& cluster, Worker& worker, TableId table) {
  const auto pulled = worker.pull(table, 0);
  cluster.network.run();
  return worker.answer(pulled)->values();
}

// All workers push the gradients of one round. Returns the sequence numbers of their requests.
std::vector<std::uint64_t> push_round(Cluster& cluster, TableId table, const TableSpec& spec,
                                      std::uint64_t version,
                                      MessageKind message = MessageKind::kPushAverage) {
  std::vector<std::uint64_t> requests;
  for (std::size_t w = 0; w < cluster.workers.size(); ++w)
    requests.push_back(cluster.worker(w).push(
        table, 0,
        {.message = message,
         .clock = version + 1,
         .version = version,
         .rate = 0.1,
         .weight = static_cast<double>(w + 1),
         .least_version = version + 1},
        encoded(spec, random_gradient(100 * version + w),
                {.seed = spec.seed, .step = version, .rank = static_cast<std::uint32_t>(w)})));
  return requests;
}

// The values after `rounds` rounds, computed by Follower.
std::vector<float> reference(const TableSpec& spec, int workers, std::uint64_t rounds) {
  Follower follower(spec, kCodedCount);
  for (std::uint64_t version = 0; version < rounds; ++version) {
    std::vector<std::vector<std::byte>> messages;
    std::vector<double> weights;
    for (int w = 0; w < workers; ++w) {
      messages.push_back(
          encoded(spec, random_gradient(100 * version + static_cast<std::uint64_t>(w)),
                  {.seed = spec.seed, .step = version, .rank = static_cast<std::uint32_t>(w)}));
      weights.push_back(w + 1);
    }
    follower.update(messages, weights, version, 0.1);
  }
  return follower.values();
}

TEST(ServerCodec, AGradientIsDecodedWhenItArrives) {
  for (const char* const conflict : {"lock", "atomic", "accumulate"}) {
    Cluster cluster({.servers = 2, .workers = 1});
    const TableSpec spec = table_of(fmt::format("update=asp conflict={}", conflict), "bf16", 1);
    const TableId table = cluster.define(spec);
    Worker& worker = cluster.worker(0);
    const auto message = encoded(spec, random_gradient(1), {});
    EXPECT_EQ(message.size(), kCodedCount * 2);
    const auto pushed = worker.push(table, 0, {.clock = 1, .rate = 1}, message);
    cluster.network.run();
    ASSERT_TRUE(worker.is_done(pushed));
    std::vector<float> expected(kCodedCount);
    ASSERT_TRUE(codec::make_codec(*plan::parse_codec("bf16"))->decode(message, expected));
    for (float& value : expected) value = -value;
    EXPECT_EQ(values_at(cluster, worker, table), expected) << conflict;
  }
}

TEST(ServerCodec, AdditionsAndAssignmentsAreValues) {
  Cluster cluster({.servers = 1, .workers = 1});
  const TableId table = cluster.define(table_of("update=asp", "bf16", 1));
  Worker& worker = cluster.worker(0);
  const std::vector<float> values = random_gradient(3);
  worker.push(table, 0, {.kind = PushKind::kAssign}, bytes_of(values));
  worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of(values));
  const auto short_one =
      worker.push(table, 0, {.kind = PushKind::kAdd}, encoded(table_of("", "bf16", 1), values, {}));
  cluster.network.run();
  EXPECT_EQ(worker.answer(short_one)->error.code, ErrorCode::kCorrupt);
  std::vector<float> expected = values;
  for (float& value : expected) value *= 2;
  EXPECT_EQ(values_at(cluster, worker, table), expected);
}

TEST(ServerCodec, WhatIsNoEncodingIsRefusedAndChangesNothing) {
  for (const char* const plan : {"update=bsp", "update=asp", "update=asp conflict=atomic"}) {
    Cluster cluster({.servers = 2, .workers = 1});
    const TableSpec spec = table_of(plan, "bf16", 1);
    const TableId table = cluster.define(spec);
    Worker& worker = cluster.worker(0);
    auto message = encoded(spec, random_gradient(1), {});
    auto longer = message;
    longer.push_back({});
    auto shorter = message;
    shorter.pop_back();
    for (const auto& wrong : {longer, shorter, bytes_of(random_gradient(1)), {}}) {
      const auto pushed = worker.push(table, 0, {.clock = 1}, wrong);
      cluster.network.run();
      ASSERT_NE(worker.answer(pushed), nullptr);
      EXPECT_EQ(worker.answer(pushed)->header.outcome, Outcome::kRefused);
      EXPECT_EQ(worker.answer(pushed)->error.code, ErrorCode::kCorrupt) << plan;
    }
    EXPECT_THAT(values_at(cluster, worker, table), Each(0.0F));
    const auto pushed = worker.push(table, 0, {.clock = 1}, message);
    cluster.network.run();
    EXPECT_TRUE(worker.is_done(pushed));
    EXPECT_EQ(worker.answer(pushed)->header.version, 1U);
  }
}

TEST(ServerCodec, AnUpdateIsWhatComesOutOfTheWayBack) {
  for (const char* const codec : {"bf16", "bf16:feedback=on", "int8:64", "topk:0.05", "sign:64",
                                  "sign:64,vote", "qsgd:4+rans"}) {
    for (const OptimizerSpec& optimizer : {sgd({.rate = 1}), adam({.rate = 1})}) {
      Cluster cluster({.servers = 2, .workers = 3});
      const TableSpec spec = table_of("update=bsp", codec, 3, optimizer);
      const TableId table = cluster.define(spec);
      for (std::uint64_t version = 0; version < 5; ++version) {
        push_round(cluster, table, spec, version);
        cluster.network.run();
      }
      EXPECT_EQ(values_at(cluster, cluster.worker(0), table), reference(spec, 3, 5)) << codec;
    }
  }
}

TEST(ServerCodec, AWorkerInStepIsToldTheAverageAndHasTheSameBits) {
  Cluster cluster({.servers = 2, .workers = 2});
  const TableSpec spec = table_of("update=bsp", "bf16:feedback=on", 2, adam({.rate = 0.1}));
  const TableId table = cluster.define(spec);
  Follower follower(spec, kCodedCount);
  for (std::uint64_t version = 0; version < 4; ++version) {
    const auto requests = push_round(cluster, table, spec, version);
    cluster.network.run();
    const auto* const first = cluster.worker(0).answer(requests[0]);
    const auto* const second = cluster.worker(1).answer(requests[1]);
    ASSERT_TRUE(first != nullptr && second != nullptr);
    EXPECT_EQ(first->header.push_kind, kAverage);
    EXPECT_EQ(first->header.version, version + 1);
    EXPECT_EQ(first->payload.size(), kCodedCount * 2);
    EXPECT_EQ(first->payload, second->payload);
    follower.follow(first->payload, version, 0.1);
    EXPECT_EQ(values_at(cluster, cluster.worker(0), table), follower.values());
  }
}

TEST(ServerCodec, WhoIsNotInStepGetsTheValues) {
  Cluster cluster({.servers = 1, .workers = 1});
  const TableSpec spec = table_of("update=bsp", "bf16", 1);
  const TableId table = cluster.define(spec);
  Worker& worker = cluster.worker(0);
  const auto pushed = push_round(cluster, table, spec, 0).front();
  cluster.network.run();
  EXPECT_EQ(worker.answer(pushed)->header.push_kind, kAverage);
  // Another push has changed the values since.
  worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of(std::vector<float>(kCodedCount, 1.0F)));
  cluster.network.run();
  worker.ask_again(pushed);
  cluster.network.run();
  EXPECT_EQ(worker.answer(pushed)->header.push_kind, 0);
  EXPECT_EQ(worker.answer(pushed)->values(), values_at(cluster, worker, table));
  // The part has moved to a later version.
  const auto second = push_round(cluster, table, spec, 1).front();
  push_round(cluster, table, spec, 2);
  cluster.network.run();
  worker.ask_again(second);
  cluster.network.run();
  EXPECT_EQ(worker.answer(second)->header.push_kind, 0);
  EXPECT_EQ(worker.answer(second)->header.version, 3U);
  EXPECT_EQ(worker.answer(second)->values(), values_at(cluster, worker, table));
}

TEST(ServerCodec, OtherPoliciesApplyWhatWasPushedAsItIs) {
  Cluster cluster({.servers = 1, .workers = 2});
  const TableSpec spec = table_of("update=ssp:2,rate=full", "bf16:feedback=on", 2);
  const TableId table = cluster.define(spec);
  std::vector<float> expected(kCodedCount);
  for (std::size_t w = 0; w < 2; ++w) {
    const auto message = encoded(spec, random_gradient(w), {});
    const auto pushed = cluster.worker(w).push(
        table, 0, {.message = MessageKind::kPushAverage, .clock = 1, .rate = 0.5}, message);
    cluster.network.run();
    std::vector<float> decoded(kCodedCount);
    ASSERT_TRUE(codec::make_codec(*plan::parse_codec("bf16"))->decode(message, decoded));
    for (std::size_t i = 0; i < kCodedCount; ++i) expected[i] -= 0.5F * decoded[i];
    EXPECT_EQ(cluster.worker(w).answer(pushed)->header.push_kind, 0);
    EXPECT_EQ(cluster.worker(w).answer(pushed)->values(), expected);
  }
}

TEST(ServerCodec, AWorkerWithoutSamplesPushesNoBytes) {
  Cluster cluster({.servers = 2, .workers = 2});
  const TableSpec spec = table_of("update=bsp", "bf16", 2);
  const TableId table = cluster.define(spec);
  const auto message = encoded(spec, random_gradient(7), {.seed = spec.seed});
  for (std::size_t w = 0; w < 2; ++w)
    cluster.worker(w).push(table, 0, {.clock = 1, .rate = 0.1, .weight = w == 0 ? 3.0 : 0.0},
                           w == 0 ? message : std::vector<std::byte>());
  cluster.network.run();
  Follower follower(spec, kCodedCount);
  follower.update({message}, {3}, 0, 0.1);
  EXPECT_EQ(values_at(cluster, cluster.worker(0), table), follower.values());
  // No worker has a gradient: nothing changes, and workers in step receive the values.
  std::vector<std::uint64_t> requests;
  for (std::size_t w = 0; w < 2; ++w)
    requests.push_back(cluster.worker(w).push(table, 0,
                                              {.message = MessageKind::kPushAverage,
                                               .clock = 2,
                                               .version = 1,
                                               .weight = 0,
                                               .least_version = 2},
                                              {}));
  cluster.network.run();
  const auto* const answer = cluster.worker(1).answer(requests[1]);
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer->header.version, 2U);
  EXPECT_EQ(answer->header.push_kind, 0);
  EXPECT_EQ(answer->values(), follower.values());
}

// The primary fails before, during or after the replication of an update. The new primary has the
// update exactly once, with the residual of the broadcast.
TEST(ServerCodec, TheResidualOfTheWayBackSurvivesItsServer) {
  const TableSpec spec = table_of("update=bsp", "sign:64", 2, adam({.rate = 0.1}));
  const std::vector<float> expected = reference(spec, 2, 6);
  for (int messages = 0; messages < 24; ++messages) {
    Cluster cluster({.servers = 3, .workers = 2, .seed = static_cast<std::uint64_t>(messages)});
    const TableId table = cluster.define(spec);
    for (std::uint64_t version = 0; version < 6; ++version) {
      const auto requests = push_round(cluster, table, spec, version);
      if (version == 3) {
        for (int i = 0; i < messages; ++i) cluster.network.step();
        cluster.kill_server(cluster.primary(table, 0));
      }
      cluster.network.run();
      for (std::size_t w = 0; w < 2; ++w) ASSERT_TRUE(cluster.worker(w).is_done(requests[w]));
    }
    EXPECT_EQ(values_at(cluster, cluster.worker(0), table), expected) << messages;
  }
}

TEST(ServerCodec, AfterAFailOverWhoAsksAgainGetsTheValuesOnce) {
  Cluster cluster({.servers = 2, .workers = 2});
  const TableSpec spec = table_of("update=bsp", "sign:64", 2);
  const TableId table = cluster.define(spec);
  const NodeId primary = cluster.primary(table, 0);
  // Both updates are applied and replicated, but no answer arrives.
  for (const auto& worker : cluster.workers) cluster.network.hold(primary, worker->id());
  const auto requests = push_round(cluster, table, spec, 0);
  cluster.network.run();
  cluster.kill_server(primary);
  cluster.network.run();
  const std::vector<float> expected = reference(spec, 2, 1);
  for (std::size_t w = 0; w < 2; ++w) {
    const auto* const answer = cluster.worker(w).answer(requests[w]);
    ASSERT_NE(answer, nullptr);
    EXPECT_EQ(answer->header.outcome, Outcome::kDone);
    EXPECT_EQ(answer->header.push_kind, 0);
    EXPECT_EQ(answer->header.version, 1U);
    EXPECT_EQ(answer->values(), expected);
  }
}

TEST(ServerCodec, TheResidualIsReadAndWrittenBehindTheOptimizersState) {
  const TableSpec spec = table_of("update=bsp", "sign:64", 1, adam({.rate = 0.1}));
  std::vector<std::vector<float>> arrays(4);
  {
    Cluster cluster({.servers = 2, .workers = 1});
    const TableId table = cluster.define(spec);
    Worker& worker = cluster.worker(0);
    for (std::uint64_t version = 0; version < 3; ++version) {
      push_round(cluster, table, spec, version);
      cluster.network.run();
    }
    arrays[0] = values_at(cluster, worker, table);
    for (std::uint8_t array = 0; array < 4; ++array) {
      const auto read =
          worker.ask({.kind = MessageKind::kReadState, .push_kind = array, .table = table}, {});
      cluster.network.run();
      ASSERT_EQ(worker.is_done(read), array < 3);
      if (array < 3) arrays[array + 1U] = worker.answer(read)->values();
    }
  }
  Cluster cluster({.servers = 2, .workers = 1});
  const TableId table = cluster.define(spec);
  Worker& worker = cluster.worker(0);
  worker.push(table, 0, {.kind = PushKind::kAssign}, bytes_of(arrays[0]));
  for (std::uint8_t array = 0; array < 3; ++array)
    worker.ask({.kind = MessageKind::kWriteState, .push_kind = array, .table = table},
               bytes_of(arrays[array + 1U]));
  worker.ask({.kind = MessageKind::kSetVersion, .table = table, .version = 3}, {});
  cluster.network.run();
  for (std::uint64_t version = 3; version < 6; ++version) {
    push_round(cluster, table, spec, version);
    cluster.network.run();
  }
  EXPECT_EQ(values_at(cluster, worker, table), reference(spec, 1, 6));
}

TEST(ServerCodec, ATableWithAnotherCodecIsAnotherTable) {
  Cluster cluster({.servers = 1, .workers = 1});
  TableSpec spec = table_of("update=bsp", "sign:64", 1);
  spec.columns = 10;
  cluster.define(spec);
  Worker& worker = cluster.worker(0);
  const auto define = [&](const TableSpec& other) {
    const auto asked = worker.ask_server(
        1, {.kind = MessageKind::kDefine, .table = table_id(other.name)}, encode(other));
    cluster.network.run();
    const auto* const answer = worker.answer(asked);
    if (answer->header.outcome == Outcome::kDone) return std::optional<ErrorCode>();
    return std::optional(answer->error.code);
  };
  EXPECT_EQ(define(spec), std::nullopt);
  TableSpec other = spec;
  other.codec = "sign:32";
  EXPECT_EQ(define(other), ErrorCode::kMismatch);
  other = spec;
  other.columns = 20;
  EXPECT_EQ(define(other), ErrorCode::kMismatch);
  other = spec;
  other.first_element = 0;
  EXPECT_EQ(define(other), ErrorCode::kMismatch);
  // powersgd needs the factors of all workers in the same round, so asp is refused.
  other = table_of("update=asp", "powersgd:2", 1);
  other.name = "factors";
  EXPECT_EQ(define(other), ErrorCode::kInvalid);
}

}  // namespace
}  // namespace tally::server::test
