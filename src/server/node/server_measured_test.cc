// Rounds of measured tables: gathered, measured by all workers, finished by the first.
#include <cmath>

#include <fmt/format.h>

#include "server/testing/test_cluster.h"

namespace tally::server::test {
namespace {

// Two parts of two workers, on one server and on three with copies.
class ServerMeasured : public testing::TestWithParam<int> {
 protected:
  static constexpr std::uint64_t kCount = 65536 + 2;
  static constexpr std::uint32_t kRowElements = 1024;
  static constexpr std::size_t kTooMany = 2000;  // rows for the memory of start_small()

  void start(const OptimizerSpec& optimizer = sgd({.rate = 1}),
             const std::string& plan = "update=bsp") {
    cluster_ = std::make_unique<Cluster>(Cluster::Shape{.servers = GetParam(), .workers = 2});
    table_ = cluster_->define({.name = "weights",
                               .count = kCount,
                               .optimizer = optimizer,
                               .plan = plan,
                               .workers = 2,
                               .measured = true});
  }
  // A table of rows on servers with memory for few of them.
  void start_small(const std::string& plan = "update=bsp", int workers = 2) {
    cluster_ = std::make_unique<Cluster>(
        Cluster::Shape{.servers = GetParam(), .workers = workers, .memory_limit_bytes = 4 << 20});
    TableSpec spec = sparse(plan, workers, kRowElements);
    spec.measured = true;
    table_ = cluster_->define(spec);
    keys_ = keys_of_part(0, parts_of(spec, static_cast<std::uint32_t>(GetParam())), kTooMany);
  }
  // To part 0.
  std::uint64_t push_rows(std::size_t worker, std::size_t count) {
    return cluster_->worker(worker).push(
        table_, 0, {.clock = 1},
        sparse_payload({keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(count)},
                       std::vector<float>(count * kRowElements, 1)));
  }
  void expect_no_memory(std::size_t worker, std::uint64_t sequence) {
    const Worker::Answer* const answer = cluster_->worker(worker).answer(sequence);
    ASSERT_NE(answer, nullptr) << worker << " " << sequence;
    EXPECT_EQ(answer->error.code, ErrorCode::kExhausted);
    EXPECT_THAT(answer->error.message, HasSubstr("no memory"));
  }
  static std::size_t size_of_part(std::uint32_t part) { return part == 0 ? 65536 : 2; }
  std::uint64_t push(std::size_t worker, std::uint32_t part, std::uint64_t version, float value) {
    return cluster_->worker(worker).push(table_, part, {.clock = version + 1, .version = version},
                                         bytes_of(std::vector<float>(size_of_part(part), value)));
  }
  std::uint64_t measure(std::size_t worker, std::uint32_t part, std::uint64_t version,
                        double factor = 1) {
    return cluster_->worker(worker).ask(
        {.kind = MessageKind::kMeasure, .table = table_, .part = part, .version = version},
        encode(std::vector<double>{factor}));
  }
  std::uint64_t finish(std::size_t worker, std::uint32_t part, std::uint64_t version, double factor,
                       std::uint8_t kind = 0) {
    return cluster_->worker(worker).ask({.kind = MessageKind::kFinish,
                                         .push_kind = kind,
                                         .table = table_,
                                         .part = part,
                                         .version = version,
                                         .least_version = version + 1},
                                        encode(std::vector<double>{factor, 0, 0}));
  }
  std::vector<double> measured(std::size_t worker, std::uint64_t sequence) {
    const Worker::Answer* const answer = cluster_->worker(worker).answer(sequence);
    if (answer == nullptr) return {};
    return decode_values(answer->payload).value();
  }
  float value(std::uint32_t part) {
    const auto pulled = cluster_->worker(0).pull(table_, part);
    run();
    return cluster_->worker(0).answer(pulled)->values()[1];
  }
  void run() { cluster_->network.run(); }

  std::unique_ptr<Cluster> cluster_;
  TableId table_ = 0;
  std::vector<std::uint64_t> keys_;
};

INSTANTIATE_TEST_SUITE_P(Servers, ServerMeasured, testing::Values(1, 3),
                         [](const auto& servers) { return fmt::format("On{}", servers.param); });

TEST_P(ServerMeasured, ACompleteRoundWaitsForTheFirstCallThatFinishesIt) {
  start();
  const auto waits = measure(0, 1, 0);
  const auto pushed = push(0, 1, 0, 1);
  run();
  EXPECT_TRUE(measured(0, waits).empty());
  push(1, 1, 0, 3);
  run();
  EXPECT_THAT(measured(0, waits), ElementsAre(0, 0, 8, 0));  // two elements of mean 2
  const auto half = measure(1, 1, 0, 0.5);
  run();
  EXPECT_THAT(measured(1, half), ElementsAre(0, 0, 2, 0));
  EXPECT_EQ(cluster_->worker(0).answer(pushed), nullptr);
  EXPECT_EQ(value(1), 0);
  const auto first = finish(0, 1, 0, 0.25);
  run();
  EXPECT_TRUE(cluster_->worker(0).is_done(first));
  EXPECT_TRUE(cluster_->worker(0).is_done(pushed));
  EXPECT_FLOAT_EQ(value(1), -0.5F);
  // The second call changes nothing, and a late measurement tells how the round ended.
  const auto second = finish(1, 1, 0, 100);
  const auto late = measure(1, 1, 0);
  run();
  EXPECT_TRUE(cluster_->worker(1).is_done(second));
  for (const auto& [worker, sequence] : {std::pair{std::size_t{0}, first}, {1, second}, {1, late}})
    EXPECT_THAT(measured(worker, sequence), ElementsAre(kFinished, 0.25, 0, 0));
  EXPECT_FLOAT_EQ(value(1), -0.5F);
}

TEST_P(ServerMeasured, ADiscardedRoundChangesOnlyTheVersion) {
  start(sgd({.rate = 1, .momentum = 0.9}));
  for (std::size_t worker = 0; worker < 2; ++worker) push(worker, 0, 0, 1);
  const auto ended = finish(1, 0, 0, 1, kDiscard);
  run();
  EXPECT_THAT(measured(1, ended), ElementsAre(kDiscarded, 1, 0, 0));
  EXPECT_EQ(value(0), 0);
  const auto told = measure(0, 0, 0);
  for (std::size_t worker = 0; worker < 2; ++worker) push(worker, 0, 1, 1);
  finish(0, 0, 1, 1);
  run();
  EXPECT_THAT(measured(0, told), ElementsAre(2, 1, 0, 0));
  EXPECT_EQ(value(0), -1);  // the first momentum
}

// Worker 0 dies after it has finished one part. Worker 1 learns the factor from that part, also
// from a server that has taken over, and uses it for the other part.
TEST_P(ServerMeasured, TheFactorOfADeadWorkerIsTakenOver) {
  for (const bool server_dies : {false, true}) {
    if (server_dies && GetParam() == 1) continue;
    start();
    for (std::size_t worker = 0; worker < 2; ++worker)
      for (std::uint32_t part = 0; part < 2; ++part) push(worker, part, 0, 1);
    finish(0, 0, 0, 0.125);
    run();
    cluster_->kill_worker(0);
    run();
    if (server_dies) cluster_->kill_server(cluster_->primary(table_, 0));
    run();
    const auto told = measure(1, 0, 0);
    const auto open = measure(1, 1, 0);
    run();
    EXPECT_THAT(measured(1, told), ElementsAre(1, 0.125, 0, 0));
    ASSERT_EQ(measured(1, open).size(), 4U);
    EXPECT_EQ(measured(1, open)[0], 0);
    EXPECT_EQ(measured(1, open)[2], 2);
    const auto ended = finish(1, 1, 0, 0.125);
    run();
    EXPECT_TRUE(cluster_->worker(1).is_done(ended));
    const auto pulled = cluster_->worker(1).pull(table_, 1);
    run();
    EXPECT_THAT(cluster_->worker(1).answer(pulled)->values(), Each(-0.125F));
  }
}

// The round is finished and replicated, but no answer arrives. The successor tells both workers the
// factor that was used, also the one that calls with another.
TEST_P(ServerMeasured, ASuccessorAnswersWithTheNumbersOfTheLostServer) {
  if (GetParam() == 1) return;
  start();
  for (std::size_t worker = 0; worker < 2; ++worker) push(worker, 0, 0, 1);
  run();
  const NodeId primary = cluster_->primary(table_, 0);
  for (const auto& worker : cluster_->workers) cluster_->network.hold(primary, worker->id());
  const auto first = finish(0, 0, 0, 0.5);
  run();
  const auto second = finish(1, 0, 0, 0.25);
  run();
  cluster_->kill_server(primary);
  run();
  EXPECT_THAT(measured(0, first), ElementsAre(kFinished, 0.5, 0, 0));
  EXPECT_THAT(measured(1, second), ElementsAre(kFinished, 0.5, 0, 0));
  EXPECT_EQ(value(0), -0.5F);
}

// The gathered round is lost with its server: the workers push again, and the call that comes with
// them finishes the round at once.
TEST_P(ServerMeasured, ARoundThatWasGatheredByADeadServerIsGatheredAgain) {
  if (GetParam() == 1) return;
  start();
  for (std::size_t worker = 0; worker < 2; ++worker) push(worker, 0, 0, 1);
  const auto told = measure(0, 0, 0);
  run();
  EXPECT_THAT(measured(0, told), ElementsAre(0, 0, 65536, 0));
  const NodeId primary = cluster_->primary(table_, 0);
  cluster_->network.hold(cluster_->worker(0).id(), primary);
  const auto ended = finish(0, 0, 0, 0.5);
  cluster_->kill_server(primary);
  run();
  EXPECT_TRUE(cluster_->worker(0).is_done(ended));
  EXPECT_EQ(value(0), -0.5F);
}

// The record of a finished round is lost with the primary: the call is answered only when the
// replica has the update, so the worker calls again.
TEST_P(ServerMeasured, ACallIsAnsweredWhenTheReplicaHasTheUpdate) {
  if (GetParam() == 1) return;
  start();
  for (std::size_t worker = 0; worker < 2; ++worker) push(worker, 0, 0, 1);
  const auto told = measure(0, 0, 0);
  run();
  ASSERT_FALSE(measured(0, told).empty());
  const View view = cluster_->directory->view();
  const auto& chain =
      view.chains[slot_of(table_, 0, static_cast<std::uint32_t>(view.chains.size()))];
  ASSERT_GE(chain.size(), 2U);
  cluster_->network.hold(chain[0], chain[1]);
  const auto ended = finish(0, 0, 0, 0.5);
  run();
  const auto again = finish(0, 0, 0, 0.5);
  run();
  EXPECT_EQ(cluster_->worker(0).answer(ended), nullptr);
  EXPECT_EQ(cluster_->worker(0).answer(again), nullptr);
  cluster_->kill_server(chain[0]);
  run();
  EXPECT_TRUE(cluster_->worker(0).is_done(ended));
  EXPECT_EQ(cluster_->worker(0).open(), 0U);
  EXPECT_EQ(cluster_->worker(1).open(), 0U);
  EXPECT_EQ(value(0), -0.5F);
}

// A round that the server has no memory for: all its requests are refused at once, and the part
// continues to serve.
TEST_P(ServerMeasured, ARoundThatDoesNotFitIsRefused) {
  start_small();
  const auto early = measure(0, 0, 0);
  const auto waits = finish(0, 0, 0, 1);
  const std::uint64_t pushed[] = {push_rows(0, kTooMany), push_rows(1, kTooMany)};
  run();
  const auto late = measure(1, 0, 0);
  const auto late_finish = finish(1, 0, 0, 1);
  run();
  for (const auto& [worker, sequence] : {std::pair{std::size_t{0}, early},
                                         {0, waits},
                                         {0, pushed[0]},
                                         {1, pushed[1]},
                                         {1, late},
                                         {1, late_finish}})
    expect_no_memory(worker, sequence);
  // Smaller gradients of the same version make a round. The call that was refused does not count.
  // A worker that has pushed again waits for the others.
  push_rows(0, 1);
  const auto told = measure(0, 0, 0);
  run();
  EXPECT_EQ(cluster_->worker(0).answer(told), nullptr);
  push_rows(1, 1);
  run();
  EXPECT_THAT(measured(0, told), ElementsAre(kComplete, 0, 1024, 0));
  const auto ended = finish(1, 0, 0, 0.5);
  run();
  EXPECT_TRUE(cluster_->worker(1).is_done(ended));
}

// Worker 0 has heard that the round does not fit, and sends nothing again. The successor knows, and
// refuses the requests of worker 1 instead of waiting for the gradient of worker 0.
TEST_P(ServerMeasured, ASuccessorKnowsTheRoundThatFailed) {
  if (GetParam() == 1) return;
  start_small();
  const NodeId primary = cluster_->primary(table_, 0);
  cluster_->network.hold(primary, cluster_->worker(1).id());
  const std::uint64_t pushed[] = {push_rows(0, kTooMany), push_rows(1, kTooMany)};
  const std::uint64_t told[] = {measure(0, 0, 0), measure(1, 0, 0)};
  run();
  expect_no_memory(0, pushed[0]);
  expect_no_memory(0, told[0]);
  cluster_->kill_server(primary);
  const auto ended = finish(1, 0, 0, 1);
  run();
  for (const std::uint64_t sequence : {pushed[1], told[1], ended}) expect_no_memory(1, sequence);
  push_rows(0, 1);
  push_rows(1, 1);
  const auto again = finish(1, 0, 0, 0.5);
  run();
  EXPECT_THAT(measured(1, again), ElementsAre(kFinished, 0.5, 0, 0));
}

// A failed round is refused when the replica knows of it: all its requests are sent again if the
// server is lost before.
TEST_P(ServerMeasured, ARefusalOfARoundWaitsForTheReplica) {
  if (GetParam() == 1) return;
  start_small();
  const View view = cluster_->directory->view();
  const auto& chain =
      view.chains[slot_of(table_, 0, static_cast<std::uint32_t>(view.chains.size()))];
  ASSERT_GE(chain.size(), 2U);
  cluster_->network.hold(chain[0], chain[1]);
  const std::uint64_t pushed[] = {push_rows(0, kTooMany), push_rows(1, kTooMany)};
  const std::uint64_t told[] = {measure(0, 0, 0), measure(1, 0, 0)};
  run();
  for (std::size_t worker = 0; worker < 2; ++worker) {
    EXPECT_EQ(cluster_->worker(worker).answer(pushed[worker]), nullptr);
    EXPECT_EQ(cluster_->worker(worker).answer(told[worker]), nullptr);
  }
  cluster_->kill_server(chain[0]);
  run();
  for (std::size_t worker = 0; worker < 2; ++worker) {
    expect_no_memory(worker, pushed[worker]);
    expect_no_memory(worker, told[worker]);
  }
}

// A worker that is not drawn pushes nothing. It is refused like the others when the round does not
// fit, and waits for the round once a drawn worker has pushed again. A successor knows that the
// round was gathered.
TEST_P(ServerMeasured, AWorkerThatIsNotDrawnFollowsTheSecondAttempt) {
  start_small("update=subset:2", 3);
  std::vector<std::size_t> drawn;
  std::size_t idle = 0;
  std::uint64_t pushed[3] = {};
  for (std::size_t worker = 0; worker < 3; ++worker) pushed[worker] = push_rows(worker, kTooMany);
  run();
  for (std::size_t worker = 0; worker < 3; ++worker) {
    if (cluster_->worker(worker).answer(pushed[worker])->header.outcome == Outcome::kDropped)
      idle = worker;
    else
      drawn.push_back(worker);
  }
  ASSERT_EQ(drawn.size(), 2U);
  const auto early = measure(idle, 0, 0);
  run();
  expect_no_memory(idle, early);
  push_rows(drawn[0], 1);
  run();
  const auto waits = measure(idle, 0, 0);
  run();
  EXPECT_EQ(cluster_->worker(idle).answer(waits), nullptr);
  push_rows(drawn[1], 1);
  run();
  EXPECT_THAT(measured(idle, waits), ElementsAre(kComplete, 0, 1024, 0));
  if (GetParam() > 1) cluster_->kill_server(cluster_->primary(table_, 0));
  const auto ended = finish(idle, 0, 0, 0.5);
  run();
  EXPECT_THAT(measured(idle, ended), ElementsAre(kFinished, 0.5, 0, 0));
}

// A version that no worker has a gradient for is not taken for a decision.
TEST_P(ServerMeasured, ARoundWithoutGradientsIsSkipped) {
  start(sgd({.rate = 1}), "update=backup:1");
  const auto first = measure(0, 0, 0);
  const auto second = measure(1, 0, 0);
  run();
  EXPECT_THAT(measured(0, first), ElementsAre(kSkipped, 0, 0, 0));
  EXPECT_THAT(measured(1, second), ElementsAre(kSkipped, 0, 0, 0));
  const auto ended = finish(0, 0, 0, 0.5);
  run();
  EXPECT_THAT(measured(0, ended), ElementsAre(kSkipped, 0, 0, 0));
  EXPECT_EQ(value(0), 0);
}

// A worker that measures offers no gradient of that version any more: the round does not wait for
// it (backup:B, a gradient that was too late for other parts).
TEST_P(ServerMeasured, ABackupRoundDoesNotWaitForAWorkerThatMeasures) {
  start(sgd({.rate = 1}), "update=backup:1");
  const auto first = push(0, 1, 0, 2);
  const auto told = measure(1, 1, 0);
  finish(0, 1, 0, 1);
  run();
  EXPECT_TRUE(cluster_->worker(0).is_done(first));
  EXPECT_FALSE(measured(1, told).empty());
  EXPECT_EQ(value(1), -2);
}

TEST_P(ServerMeasured, ASetVersionForgetsTheRound) {
  start();
  for (std::size_t worker = 0; worker < 2; ++worker) push(worker, 1, 0, 1);
  run();
  const auto set = cluster_->worker(0).ask(
      {.kind = MessageKind::kSetVersion, .table = table_, .part = 1, .version = 7}, {});
  run();
  EXPECT_TRUE(cluster_->worker(0).is_done(set));
  for (std::size_t worker = 0; worker < 2; ++worker) push(worker, 1, 7, 4);
  finish(0, 1, 7, 1);
  run();
  EXPECT_EQ(value(1), -4);
}

TEST(ServerMeasuredSpec, NormsNeedRoundsThatWorkersWaitFor) {
  const auto refusal = [](const TableSpec& spec) {
    const auto made = make_table_config(1, spec, 1);
    return made ? std::string() : made.error().message;
  };
  TableSpec spec = dense("update=bsp", 2);
  spec.optimizer = lamb();
  EXPECT_THAT(refusal(spec), HasSubstr("set TableSpec::measured"));
  spec.measured = true;
  EXPECT_EQ(refusal(spec), "");
  for (const char* plan : {"update=asp", "update=ssp:2", "update=kbatch:2", "update=kasync:2"}) {
    spec.plan = plan;
    EXPECT_THAT(refusal(spec), HasSubstr("need update=bsp, backup or subset")) << plan;
  }
  TableSpec rows = sparse("update=bsp", 2);
  rows.measured = true;
  EXPECT_EQ(refusal(rows), "");
  rows.optimizer = lars();
  EXPECT_THAT(refusal(rows), HasSubstr("sparse tables have none"));
}

}  // namespace
}  // namespace tally::server::test
