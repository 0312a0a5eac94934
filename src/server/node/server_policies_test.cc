// Every policy with three workers, on one server and on three with copies.

#include <cmath>

#include <fmt/format.h>

#include "policy/rules.h"
#include "server/testing/test_cluster.h"

namespace tally::server::test {
namespace {

constexpr std::uint32_t kPart = 0;

class ServerPolicies : public testing::TestWithParam<int> {
 protected:
  void start(const std::string& plan, std::uint64_t seed = 1) {
    cluster_ = std::make_unique<Cluster>(
        Cluster::Shape{.servers = GetParam(), .workers = 3, .seed = seed});
    table_ = cluster_->define(
        {.name = "weights", .count = 2, .optimizer = sgd({.rate = 1}), .plan = plan, .workers = 3});
  }
  std::uint64_t push(std::size_t worker, std::uint64_t version, std::uint64_t clock, float value,
                     MessageKind kind = MessageKind::kPush, bool waits_for_version = false) {
    return cluster_->worker(worker).push(table_, kPart,
                                         {.message = kind,
                                          .clock = clock,
                                          .version = version,
                                          .least_version = waits_for_version ? version + 1 : 0},
                                         bytes_of({value, value}));
  }
  void run() { cluster_->network.run(); }
  const Worker::Answer* answer(std::size_t worker, std::uint64_t sequence) {
    return cluster_->worker(worker).answer(sequence);
  }
  std::vector<float> values() {
    const auto pulled = cluster_->worker(0).pull(table_, kPart);
    run();
    return answer(0, pulled)->values();
  }
  Client::Size size() {
    Client::Size sum;
    for (const auto& [id, server] : cluster_->servers) {
      const auto asked =
          cluster_->worker(0).ask_server(id, {.kind = MessageKind::kSize, .table = table_}, {});
      run();
      add(*decode_size(answer(0, asked)->payload), sum);
    }
    return sum;
  }

  std::unique_ptr<Cluster> cluster_;
  TableId table_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Servers, ServerPolicies, testing::Values(1, 3),
                         [](const auto& servers) { return fmt::format("On{}", servers.param); });

TEST_P(ServerPolicies, BspAppliesTheMeanWhenAllHaveCome) {
  start("update=bsp");
  const auto first = push(0, 0, 1, 3);
  const auto second = push(1, 0, 1, 6);
  run();
  EXPECT_EQ(answer(0, first), nullptr);
  const auto third = push(2, 0, 1, 9, MessageKind::kPushPull);
  run();
  for (const auto& [worker, sequence] : {std::pair{0, first}, std::pair{1, second}}) {
    ASSERT_NE(answer(static_cast<std::size_t>(worker), sequence), nullptr);
    EXPECT_EQ(answer(static_cast<std::size_t>(worker), sequence)->header.version, 1U);
  }
  EXPECT_THAT(answer(2, third)->values(), Each(-6));
}

TEST_P(ServerPolicies, AWorkerThatEndsIsNotWaitedForAndWhatItGaveCounts) {
  start("update=bsp");
  push(0, 0, 1, 3);
  push(1, 0, 1, 9);
  run();
  cluster_->kill_worker(1);
  run();
  EXPECT_THAT(values(), Each(0));
  push(2, 0, 1, 3);
  run();
  EXPECT_THAT(values(), Each(-5));
  const auto next = push(0, 1, 2, 1);
  push(2, 1, 2, 1);
  run();
  ASSERT_NE(answer(0, next), nullptr);
  EXPECT_THAT(values(), Each(-6));
}

TEST_P(ServerPolicies, AspAppliesAtOnceAndTellsStaleness) {
  start("update=asp:rate=full");
  push(0, 0, 1, 1);
  run();
  const auto stale = push(1, 0, 1, 1);
  run();
  EXPECT_EQ(answer(1, stale)->header.least_clock, 1U);
  EXPECT_THAT(values(), Each(-2));
  const Client::Size sum = size();
  EXPECT_EQ(sum.elements, 2U);
  EXPECT_EQ(sum.updates, 2U);
  EXPECT_EQ(sum.staleness[0], 1U);
  EXPECT_EQ(sum.staleness[1], 1U);
}

TEST_P(ServerPolicies, AspDropsWhatIsTooStale) {
  start("update=asp:rate=full stale=drop:0");
  push(0, 0, 1, 1);
  run();
  const auto stale = push(1, 0, 1, 1, MessageKind::kPushPull);
  run();
  EXPECT_EQ(answer(1, stale)->header.outcome, Outcome::kDropped);
  EXPECT_THAT(answer(1, stale)->values(), Each(-1));
  // A repeated request gets the same answer.
  cluster_->worker(1).ask_again(stale);
  run();
  EXPECT_EQ(answer(1, stale)->header.outcome, Outcome::kDropped);
  EXPECT_EQ(size().dropped, 1U);
}

TEST_P(ServerPolicies, CompensationUsesWhatTheWorkerHadPulled) {
  start("update=asp:rate=full stale=compensate:0.5");
  const auto pulled = cluster_->worker(1).pull(table_, kPart);
  run();
  EXPECT_THAT(answer(1, pulled)->values(), Each(0));
  push(0, 0, 1, 2);
  run();
  // The value is -2 and the gradient was computed at 0: 2 + 0.5 * 2 * 2 * (-2 - 0) = -2.
  push(1, 0, 1, 2);
  run();
  EXPECT_THAT(values(), Each(0));
}

// A worker that does not wait for its round reads again before the round is applied.
TEST_P(ServerPolicies, CompensationInARoundUsesWhatWasPulledBeforeThePush) {
  start("update=kbatch:2,async,rate=full stale=compensate:0.5");
  cluster_->worker(1).pull(table_, kPart);
  run();
  push(0, 0, 1, 2);
  push(0, 0, 2, 2);
  run();
  EXPECT_THAT(values(), Each(-2));
  push(1, 0, 1, 2);
  cluster_->worker(1).pull(table_, kPart);
  run();
  push(0, 1, 3, 2);
  run();
  // The mean of 2 + 0.5 * 2 * 2 * (-2 - 0) = -2 and of 2.
  EXPECT_THAT(values(), Each(-2));
}

TEST_P(ServerPolicies, SspReadsWaitForTheSlowestClock) {
  start("update=ssp:1,rate=shared");
  push(0, 0, 1, 3);
  push(0, 0, 2, 3);
  const auto waits = cluster_->worker(0).ask(
      {.kind = MessageKind::kPull, .table = table_, .part = kPart, .least_clock = 1}, {});
  run();
  EXPECT_EQ(answer(0, waits), nullptr);
  push(1, 0, 1, 3);
  const auto clock = cluster_->worker(2).ask(
      {.kind = MessageKind::kClock, .table = table_, .part = kPart, .clock = 1}, {});
  run();
  EXPECT_TRUE(cluster_->worker(2).is_done(clock));
  ASSERT_NE(answer(0, waits), nullptr);
  EXPECT_EQ(answer(0, waits)->header.clock, 1U);
  EXPECT_THAT(answer(0, waits)->values(), Each(-3));
}

TEST_P(ServerPolicies, AspWeighsBySamplesAndForgetsTheShareOfALostWorker) {
  start("update=asp:rate=shared");
  const auto weighing = [&](std::size_t worker, std::uint64_t version, double weight) {
    cluster_->worker(worker).push(table_, kPart,
                                  {.clock = version + 1, .version = version, .weight = weight},
                                  bytes_of({1, 1}));
    run();
  };
  weighing(0, 0, 8);   // the others count as this one: 1/3
  weighing(1, 1, 16);  // 16 of 8 + 16 + 16
  weighing(2, 2, 8);   // 8 of 32
  weighing(1, 3, 16);  // 16 of 32
  const float sum = 1.0F / 3 + 0.4F + 0.25F + 0.5F;
  EXPECT_THAT(values(), Each(testing::FloatEq(-sum)));
  cluster_->kill_worker(2);
  run();
  weighing(0, 4, 8);  // 8 of 24
  EXPECT_THAT(values(), Each(testing::FloatEq(-sum - 1.0F / 3)));
}

TEST_P(ServerPolicies, AspTakesOffTheMomentumOfTurnsByTheWorkersThatLive) {
  cluster_ = std::make_unique<Cluster>(Cluster::Shape{.servers = GetParam(), .workers = 3});
  table_ = cluster_->define({.name = "weights",
                             .count = 2,
                             .optimizer = sgd({.rate = 1, .momentum = 0.8}),
                             .plan = "update=asp:rate=shared",
                             .workers = 3});
  // m' = 0.8 - 2/3 = 2/15; each gradient has 1/3 (1 - m') / (1 - 0.8) = 13/9 of the rate.
  double velocity = 0, value = 0;
  for (std::uint64_t i = 0; i < 4; ++i) {
    push(i % 3, i, i / 3 + 1, 1);
    run();
    velocity = 2.0 / 15 * velocity + 1;
    value -= 13.0 / 9 * velocity;
    EXPECT_THAT(values(), Each(testing::FloatNear(static_cast<float>(value), 1e-5F)));
  }
  cluster_->kill_worker(2);
  run();
  // m' = 0.8 - 1/2 = 0.3; 1/2 (1 - 0.3) / (1 - 0.8) = 1.75.
  push(0, 4, 3, 1);
  run();
  velocity = 0.3 * velocity + 1;
  value -= 1.75 * velocity;
  EXPECT_THAT(values(), Each(testing::FloatNear(static_cast<float>(value), 1e-5F)));
}

// Two updates of asp with two workers make a step, so adamw gets beta1 = 1 - 2 (1 - 0.9) = 0.8, and
// 1/sqrt(2) of the learning rate and of the decay. After a loss every update makes a step.
TEST_P(ServerPolicies, AspGivesAdamwTheMomentumAndTheDecayOfSteps) {
  cluster_ = std::make_unique<Cluster>(Cluster::Shape{.servers = GetParam(), .workers = 2});
  table_ = cluster_->define({.name = "weights",
                             .count = 2,
                             .optimizer = adamw({.rate = 1, .beta2 = 0.99, .weight_decay = 0.1}),
                             .plan = "update=asp:rate=shared",
                             .workers = 2});
  double value = 0, mean = 0, square = 0;
  const auto expect = [&](double gradient, double step, double beta1, double share) {
    mean = beta1 * mean + (1 - beta1) * gradient;
    square = 0.99 * square + 0.01 * gradient * gradient;
    value -= value * share * 0.1 * share;
    value -= share * (mean / (1 - std::pow(beta1, step))) /
             (std::sqrt(square / (1 - std::pow(0.99, step))) + 1e-8);
    EXPECT_THAT(values(), Each(testing::FloatNear(static_cast<float>(value), 1e-5F)));
  };
  for (std::uint64_t i = 0; i < 6; ++i) {
    const float gradient = i % 2 == 0 ? 1 : -3;
    push(i % 2, i, i / 2 + 1, gradient);
    run();
    expect(gradient, static_cast<double>(i + 1), 0.8, std::sqrt(0.5));
  }
  cluster_->kill_worker(1);
  run();
  push(0, 6, 4, 2);
  run();
  expect(2, 7, 0.9, 1);
}

TEST_P(ServerPolicies, KasyncAveragesGradientsOfAnyVersion) {
  start("update=kasync:2,rate=full");
  const auto first = push(0, 0, 1, 2);
  run();
  EXPECT_EQ(answer(0, first), nullptr);
  push(0, 0, 2, 8);  // of the same worker: for the next round
  push(1, 0, 1, 4);
  run();
  EXPECT_THAT(values(), Each(-3));
  EXPECT_TRUE(cluster_->worker(0).is_done(first));
  const auto late = push(2, 0, 1, 2);  // computed at version 0, counts all the same
  run();
  EXPECT_THAT(values(), Each(-8));
  EXPECT_EQ(answer(2, late)->header.outcome, Outcome::kDone);
  EXPECT_EQ(answer(2, late)->header.least_clock, 1U);  // the staleness
  EXPECT_EQ(size().staleness[1], 2U);
  EXPECT_EQ(size().dropped, 0U);
}

TEST_P(ServerPolicies, SoftsyncScalesEachGradientByItsStaleness) {
  start("update=softsync:1,rate=full stale=scale");  // rounds of 3
  for (std::uint64_t version = 0; version < 4; ++version) {
    for (std::size_t worker = 0; worker < 3; ++worker) push(worker, version, version + 1, 3);
    run();
  }
  EXPECT_THAT(values(), Each(-12));
  push(0, 0, 5, 12);  // four versions late
  push(1, 4, 5, 3);
  push(2, 4, 5, 3);
  run();
  EXPECT_THAT(values(), Each(-15));
}

TEST_P(ServerPolicies, BackupTakesTheFirstAndTellsTheLate) {
  start("update=backup:1");
  push(0, 0, 1, 2);
  push(2, 0, 1, 4);
  run();
  EXPECT_THAT(values(), Each(-3));
  ASSERT_EQ(cluster_->worker(1).closed().size(), 1U);
  EXPECT_EQ(cluster_->worker(1).closed()[0].version, 1U);
  const auto late = push(1, 0, 1, 100);
  run();
  EXPECT_EQ(answer(1, late)->header.outcome, Outcome::kDropped);
  EXPECT_THAT(values(), Each(-3));
}

TEST_P(ServerPolicies, SubsetTakesThoseWhoAreDrawn) {
  start("update=subset:2");
  const auto plan = plan::parse_plan("update=subset:2", {.home = plan::Home::kServer});
  const auto rules = policy::rules_of(*plan, 3, 1);
  const std::vector<int> drawn = policy::drawn_ranks(*rules, 0);
  ASSERT_EQ(drawn.size(), 2U);
  for (int rank = 0; rank < 3; ++rank) {
    const bool takes_part = rank == drawn[0] || rank == drawn[1];
    const auto sequence = push(static_cast<std::size_t>(rank), 0, 1, takes_part ? 2.0F : 100.0F);
    run();
    if (!takes_part) {
      EXPECT_EQ(answer(static_cast<std::size_t>(rank), sequence)->header.outcome,
                Outcome::kDropped);
    }
  }
  EXPECT_THAT(values(), Each(-2));
}

TEST_P(ServerPolicies, KbatchTakesSeveralOfOneWorker) {
  start("update=kbatch:2");
  const auto first = push(0, 0, 1, 2);
  const auto second = push(0, 0, 2, 4);
  run();
  EXPECT_TRUE(cluster_->worker(0).is_done(first));
  EXPECT_TRUE(cluster_->worker(0).is_done(second));
  EXPECT_THAT(values(), Each(-3));
}

// With three servers, the primary of the part fails while gradients of some workers wait for the
// others.
TEST_P(ServerPolicies, RoundsGoOnWhereTheyWereAfterAServerEnds) {
  if (GetParam() == 1) return;
  for (const char* plan : {"update=bsp", "update=backup:1", "update=kbatch:2", "update=subset:2"}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(fmt::format("{} seed {}", plan, seed));
      start(plan, seed);
      Rng rng(seed);
      std::uint64_t version = 0;
      for (int step = 1; step <= 4; ++step) {
        std::vector<std::uint64_t> sequences;
        for (std::size_t worker = 0; worker < 3; ++worker)
          sequences.push_back(push(worker, version, static_cast<std::uint64_t>(step), 1,
                                   MessageKind::kPushPull, true));
        for (std::uint64_t steps = rng.below(30); steps > 0; --steps) cluster_->network.step();
        if (step == 2) cluster_->kill_server(cluster_->primary(table_, kPart));
        run();
        for (std::size_t worker = 0; worker < 3; ++worker) {
          ASSERT_NE(answer(worker, sequences[worker]), nullptr);
          EXPECT_EQ(answer(worker, sequences[worker])->header.version, version + 1);
        }
        ++version;
      }
      EXPECT_THAT(values(), Each(-4));
    }
  }
}

TEST_P(ServerPolicies, AWorkerThatJoinsTakesPartInTheNextRound) {
  start("update=bsp");
  for (std::size_t worker = 0; worker < 3; ++worker) push(worker, 0, 1, 1);
  run();
  cluster_->kill_worker(2);
  run();
  Worker& late = cluster_->add_worker(2);
  run();
  push(0, 1, 2, 3);
  push(1, 1, 2, 3);
  run();
  EXPECT_THAT(values(), Each(-1));
  const auto pushed = late.push(table_, kPart, {.clock = 2, .version = 1}, bytes_of({0, 0}));
  run();
  EXPECT_TRUE(late.is_done(pushed));
  EXPECT_THAT(values(), Each(-3));
}

TEST_P(ServerPolicies, AgreementsSumOverAllAndSurviveTheirServer) {
  start("update=asp");
  const auto offer = [&](std::size_t worker, std::uint64_t number, double value) {
    return cluster_->worker(worker).ask({.kind = MessageKind::kAgree, .clock = number},
                                        encode(std::vector<double>{value, 1}));
  };
  const auto first = offer(0, 1, 0.5);
  offer(1, 1, 1);
  run();
  EXPECT_EQ(answer(0, first), nullptr);
  const auto third = offer(2, 1, 2);
  run();
  ASSERT_TRUE(cluster_->worker(2).is_done(third));
  EXPECT_THAT(*decode_values(answer(0, first)->payload), ElementsAre(3.5, 3));
  if (GetParam() == 1) return;
  const auto before = offer(0, 2, 1);
  offer(1, 2, 1);
  run();
  cluster_->kill_server(cluster_->directory->view().chains[0].front());
  run();
  const auto last = offer(2, 2, 1);
  run();
  EXPECT_TRUE(cluster_->worker(2).is_done(last));
  EXPECT_THAT(*decode_values(answer(0, before)->payload), ElementsAre(3, 3));
}

TEST_P(ServerPolicies, StateAndVersionAreReadAndPutBack) {
  cluster_ = std::make_unique<Cluster>(Cluster::Shape{.servers = GetParam(), .workers = 1});
  table_ = cluster_->define({.name = "weights",
                             .count = 2,
                             .optimizer = sgd({.rate = 1, .momentum = 0.5}),
                             .plan = "update=asp"});
  push(0, 0, 1, 2);
  run();
  const MessageHeader state{.kind = MessageKind::kReadState, .table = table_, .part = kPart};
  const auto read = cluster_->worker(0).ask(state, {});
  run();
  EXPECT_THAT(answer(0, read)->values(), Each(2));
  MessageHeader header = state;
  header.kind = MessageKind::kWriteState;
  cluster_->worker(0).ask(header, bytes_of({7, 8}));
  header.kind = MessageKind::kSetVersion;
  header.version = 41;
  cluster_->worker(0).ask(header, {});
  run();
  if (GetParam() > 1) cluster_->kill_server(cluster_->primary(table_, kPart));
  run();
  const auto again = cluster_->worker(0).ask(state, {});
  run();
  EXPECT_THAT(answer(0, again)->values(), ElementsAre(7, 8));
  EXPECT_EQ(answer(0, again)->header.version, 41U);
}

// After the version is set back, no gradient of a later version is left.
TEST_P(ServerPolicies, WhatWaitsForARoundIsDroppedWhenTheVersionIsPutBack) {
  start("update=bsp");
  MessageHeader header{
      .kind = MessageKind::kSetVersion, .table = table_, .part = kPart, .version = 7};
  cluster_->worker(0).ask(header, {});
  run();
  const auto deferred_parts = push(0, 7, 8, 100);
  run();
  EXPECT_EQ(answer(0, deferred_parts), nullptr);
  header.version = 5;
  cluster_->worker(1).ask(header, {});
  run();
  ASSERT_NE(answer(0, deferred_parts), nullptr);
  EXPECT_EQ(answer(0, deferred_parts)->header.outcome, Outcome::kDropped);
  for (std::uint64_t version = 5; version < 8; ++version) {
    push(1, version, version + 1, 3);
    push(2, version, version + 1, 6);
    run();
    const auto last = push(0, version, version + 1, 9);
    run();
    ASSERT_NE(answer(0, last), nullptr);
    EXPECT_EQ(answer(0, last)->header.outcome, Outcome::kDone) << version;
  }
  EXPECT_THAT(values(), Each(-18));
}

}  // namespace
}  // namespace tally::server::test
