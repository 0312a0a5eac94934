// A request that cannot be done is refused with a reason, does not count, and is not mistaken for
// done later. Every request gets an answer.

#include <numeric>

#include "server/testing/test_cluster.h"

namespace tally::server::test {
namespace {

// A server with memory for a few rows.
class ServerWithoutRoom : public testing::Test {
 protected:
  static constexpr std::uint32_t kDimension = 1024;

  void start(const std::string& plan) {
    cluster_ = std::make_unique<Cluster>(Cluster::Shape{.memory_limit_bytes = 8 << 20});
    table_ = cluster_->define({.name = "rows",
                               .kind = TableKind::kSparse,
                               .dimension = kDimension,
                               .optimizer = sgd({.rate = 1}),
                               .plan = plan});
  }
  std::uint64_t push(std::size_t rows, std::uint64_t version, std::uint64_t clock) {
    const auto pushed = worker().push(
        table_, 0, {.clock = clock, .version = version},
        sparse_payload(keys_of_part(0, 4, rows), std::vector<float>(rows * kDimension)));
    cluster_->network.run();
    return pushed;
  }
  Worker& worker() { return cluster_->worker(0); }
  Client::Size size() {
    const auto asked = worker().ask_server(1, {.kind = MessageKind::kSize, .table = table_}, {});
    cluster_->network.run();
    return *decode_size(worker().answer(asked)->payload);
  }
  static constexpr std::size_t kTooMany = 3000;

  std::unique_ptr<Cluster> cluster_;
  TableId table_ = 0;
};

TEST_F(ServerWithoutRoom, AGradientThatIsRefusedDoesNotCount) {
  for (const char* plan : {"update=asp", "update=bsp", "update=ssp:1"}) {
    SCOPED_TRACE(plan);
    start(plan);
    const auto refused = push(kTooMany, 0, 1);
    ASSERT_NE(worker().answer(refused), nullptr);
    EXPECT_EQ(worker().answer(refused)->error.code, ErrorCode::kExhausted);
    const Client::Size before = size();
    EXPECT_EQ(before.updates, 0U);
    EXPECT_EQ(std::accumulate(before.staleness.begin(), before.staleness.end(), 0ULL), 0U);
    const auto done = push(1, 0, 2);
    ASSERT_TRUE(worker().is_done(done));
    EXPECT_EQ(worker().answer(done)->header.version, 1U);
    EXPECT_EQ(size().staleness[0], 1U);
  }
}

TEST_F(ServerWithoutRoom, ARefusedPushIsNotToldAsAppliedAfterALaterOne) {
  for (const char* plan : {"update=asp", "update=bsp"}) {
    SCOPED_TRACE(plan);
    start(plan);
    const auto refused = push(kTooMany, 0, 1);
    ASSERT_EQ(worker().answer(refused)->header.outcome, Outcome::kRefused);
    ASSERT_TRUE(worker().is_done(push(1, 0, 1)));
    worker().ask_again(refused);
    cluster_->network.run();
    EXPECT_EQ(worker().answer(refused)->header.outcome, Outcome::kDropped);
  }
}

TEST(ServerRefusals, StateThatCannotBeWrittenIsRefusedAgain) {
  Cluster cluster({});
  const TableId table = cluster.define({.name = "weights", .count = 2, .plan = "update=asp"});
  Worker& worker = cluster.worker(0);
  const auto refused = worker.ask(
      {.kind = MessageKind::kWriteState, .push_kind = 9, .table = table}, bytes_of({1, 1}));
  worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of({1, 1}));
  cluster.network.run();
  ASSERT_EQ(worker.answer(refused)->header.outcome, Outcome::kRefused);
  worker.ask_again(refused);
  cluster.network.run();
  EXPECT_EQ(worker.answer(refused)->header.outcome, Outcome::kRefused);
}

// Plays the next server in the chain, which has no memory for the replica.
void refuse_copy(Cluster& cluster, NodeId from, NodeId to, TableId table) {
  cluster.network.transport(from).send(
      to,
      {.kind = MessageKind::kRecordTaken,
       .outcome = Outcome::kRefused,
       .table = table,
       .view = cluster.directory->view().number,
       .sequence = 1},
      wire::encode_error({.code = ErrorCode::kExhausted, .message = "no room"}));
  cluster.network.run();
}

void expect_refused(Cluster& cluster, std::uint64_t sequence) {
  cluster.network.run();
  const Worker::Answer* const answer = cluster.worker(0).answer(sequence);
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer->header.outcome, Outcome::kRefused);
  EXPECT_THAT(answer->error.message, HasSubstr("cannot take a copy"));
}

TEST(ServerRefusals, NobodyWaitsForACopyThatCannotBe) {
  for (const char* plan : {"update=asp", "update=asp conflict=atomic",
                           "update=asp conflict=accumulate", "update=bsp", "update=ssp:1"}) {
    SCOPED_TRACE(plan);
    Cluster cluster({.servers = 2, .workers = 1});
    const TableId table = cluster.define({.name = "weights", .count = 2, .plan = plan});
    const NodeId primary = cluster.primary(table, 0);
    cluster.network.hold(primary, 3 - primary);
    Worker& worker = cluster.worker(0);
    const auto first = worker.push(table, 0, {.clock = 1}, bytes_of({1, 1}));
    cluster.network.run();
    EXPECT_EQ(worker.answer(first), nullptr);
    refuse_copy(cluster, 3 - primary, primary, table);
    expect_refused(cluster, first);
    expect_refused(cluster, worker.push(table, 0, {.clock = 2, .version = 1}, bytes_of({1, 1})));
    // A pull that waits for a push which cannot be replicated.
    const auto reads =
        worker.ask({.kind = MessageKind::kPull, .table = table, .least_version = 3}, {});
    cluster.network.run();
    EXPECT_EQ(worker.answer(reads), nullptr);
    expect_refused(cluster, worker.push(table, 0, {.clock = 3, .version = 2}, bytes_of({1, 1})));
    expect_refused(cluster, reads);
  }
}

TEST(ServerRefusals, ACopyThatTheLastOfThreeCannotTakeIsToldToTheWorker) {
  Cluster cluster({.servers = 3, .workers = 1, .replicas = 3});
  const TableId table = cluster.define({.name = "weights", .count = 2, .plan = "update=asp"});
  const View view = cluster.directory->view();
  const std::vector<NodeId>& chain = view.chains[slot_of(table, 0, 3)];
  cluster.network.hold(chain[1], chain[2]);
  const auto pushed = cluster.worker(0).push(table, 0, {}, bytes_of({1, 1}));
  cluster.network.run();
  EXPECT_EQ(cluster.worker(0).answer(pushed), nullptr);
  refuse_copy(cluster, chain[2], chain[1], table);
  expect_refused(cluster, pushed);
}

// A server that joined when all chains were complete.
TEST(ServerRefusals, ASpareServerHasNothingOfATableAndSaysSo) {
  Cluster cluster({.servers = 2, .workers = 1});
  const TableId table = cluster.define({.name = "weights", .count = 2, .plan = "update=asp"});
  const NodeId spare = cluster.add_server();
  cluster.network.run();
  Worker& worker = cluster.worker(0);
  const auto asked = worker.ask_server(spare, {.kind = MessageKind::kSize, .table = table}, {});
  cluster.network.run();
  ASSERT_TRUE(worker.is_done(asked));
  EXPECT_EQ(decode_size(worker.answer(asked)->payload)->elements, 0U);
}

TEST(ServerRefusals, ARoundThatCanNeverBeCompleteIsNotDefined) {
  Cluster cluster({.servers = 1, .workers = 1});
  for (const auto& [plan, is_fine] :
       {std::pair{"update=kbatch:512", true}, std::pair{"update=kbatch:513", false}}) {
    const TableSpec spec{.name = plan, .count = 2, .plan = plan, .workers = 2};
    const auto defined = cluster.worker(0).ask_server(
        1, {.kind = MessageKind::kDefine, .table = table_id(spec.name)}, encode(spec));
    cluster.network.run();
    EXPECT_EQ(cluster.worker(0).is_done(defined), is_fine);
    if (!is_fine) {
      EXPECT_EQ(cluster.worker(0).answer(defined)->error.code, ErrorCode::kInvalid);
    }
  }
}

// The limit of held gradients is reached. Their server fails, and the workers resend them to the
// next one.
class FullRound : public testing::Test {
 protected:
  FullRound() : cluster_({.servers = 2, .workers = 2}) {
    table_ = cluster_.define({.name = "weights",
                              .count = 2,
                              .optimizer = sgd({.rate = 1}),
                              .plan = "update=kbatch:257",
                              .workers = 2});
  }
  std::uint64_t push(std::size_t worker, std::uint64_t clock) {
    return cluster_.worker(worker).push(table_, 0, {.clock = clock}, bytes_of({1, 1}));
  }
  // Another change makes the primary replicate its state, so the replica knows the held gradients.
  void change_server() {
    cluster_.worker(1).push(table_, 0, {.kind = PushKind::kAdd}, bytes_of({0, 0}));
    cluster_.network.run();
    cluster_.kill_server(cluster_.primary(table_, 0));
    cluster_.network.run();
  }

  Cluster cluster_;
  TableId table_ = 0;
};

TEST_F(FullRound, KeepsThePlacesOfWhatIsSentAgain) {
  for (std::uint64_t i = 1; i <= PushHistory::kMaxHeld; ++i) push(0, i);
  cluster_.network.run();
  change_server();
  EXPECT_EQ(cluster_.worker(0).open(), PushHistory::kMaxHeld);
  push(1, 1);
  cluster_.network.run();
  EXPECT_EQ(cluster_.worker(0).open(), 0U);
  const auto pulled = cluster_.worker(0).pull(table_, 0);
  cluster_.network.run();
  EXPECT_THAT(cluster_.worker(0).answer(pulled)->values(), Each(-1));
}

TEST_F(FullRound, HasRoomWhereOthersWereGivenUp) {
  Worker& worker = cluster_.worker(0);
  // Abandoned pushes: sent with sequence numbers that the worker does not track.
  for (std::uint64_t i = 1; i <= PushHistory::kMaxHeld; ++i)
    cluster_.network.transport(worker.id())
        .send(cluster_.primary(table_, 0),
              {.kind = MessageKind::kPush,
               .table = table_,
               .view = cluster_.directory->view().number,
               .sequence = 10 + i,
               .clock = i,
               .weight = 1,
               .rate = 1},
              bytes_of({1, 1}));
  for (std::size_t i = 0; i < 20 + PushHistory::kMaxHeld; ++i)
    worker.ask({.kind = MessageKind::kClock, .table = table_}, {});
  cluster_.network.run();
  change_server();
  const auto pushed = push(0, 300);
  cluster_.network.run();
  EXPECT_EQ(worker.answer(pushed), nullptr);
  EXPECT_EQ(worker.open(), 1U);
}

}  // namespace
}  // namespace tally::server::test
