// One server with conflicting threads, with memory that its worker reuses, and after a pause.

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "server/part/table.h"
#include "server/part/table_part.h"
#include "server/storage/piece.h"
#include "server/testing/test_cluster.h"
#include "server/testing/test_lone_server.h"

namespace tally::server::test {
namespace {

constexpr NodeId kA = LoneServer::kFirstWorker;
constexpr NodeId kB = kA + 1;

TableSpec lone_table(const std::string& plan, int workers, std::uint64_t count) {
  return {
      .name = "t", .count = count, .optimizer = sgd({.rate = 1}), .plan = plan, .workers = workers};
}

// A thread that copies a part locks it for a while. It does not run the pushes that arrive
// meanwhile.
TEST(LoneServer, APushThatFoundItsPartInUseIsLeftForSettle) {
  LoneServer server(1);
  const auto facts =
      make_table_config(table_id("t"), lone_table("update=asp conflict=accumulate", 1, 65536), 1);
  ASSERT_TRUE(facts.has_value());
  MemoryBudget budget(0);
  const NewestSnapshot snapshot;
  std::atomic<std::int64_t> fill_bytes{0};
  DeferredParts deferred_parts;
  std::atomic<std::uint64_t> failed_records{0};
  TablePart part(*facts, 0, {server, budget, snapshot, fill_bytes, deferred_parts, failed_records});
  ASSERT_TRUE(part.make_present().has_value());
  part.install({.view = 1, .role = ChainPosition::Role::kPrimary}, server.view.workers);
  const std::vector<std::byte> payload = bytes_of(std::vector<float>(65536, 1));
  std::atomic<bool> is_over{false};
  std::thread copies([&] {
    while (!is_over.load()) static_cast<void>(part.copy(std::size_t{4} << 20));
  });
  int left = 0;
  int lost = 0;
  // Repeat until the conflict has occurred a few times.
  for (std::uint64_t i = 1; i <= 20000 && left < 20; ++i) {
    part.request(kA, {.header = {.kind = MessageKind::kPush, .sequence = i, .weight = 1, .rate = 1},
                      .payload = payload});
    const bool was_left = server.answer(kA, i) == nullptr;
    for (TablePart* const one : deferred_parts.take()) one->run_deferred_pushes();
    if (was_left) ++left;
    if (server.answer(kA, i) == nullptr) ++lost;
  }
  is_over.store(true);
  copies.join();
  EXPECT_GT(left, 0);
  EXPECT_EQ(lost, 0);
}

// Each push is either applied and counted with the staleness it was admitted with, or dropped.
TEST(LoneServer, OverlappingPushesAreCountedAsTheyWereDecidedOn) {
  constexpr int kThreads = 3;
  constexpr int kPushes = 400;
  LoneServer server(kThreads);
  const TableId table = server.define(
      lone_table("update=asp:rate=full conflict=atomic stale=drop:1", kThreads, 20000));
  const std::vector<std::byte> payload = bytes_of(std::vector<float>(20000, 1));
  std::array<std::uint64_t, kThreads> dropped{};
  std::array<std::uint64_t, kThreads> told_staleness{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i, worker = kA + static_cast<NodeId>(i)] {
      std::uint64_t version = 0;
      for (int push = 0; push < kPushes; ++push) {
        const auto asked = server.ask(
            worker, {.kind = MessageKind::kPush, .table = table, .version = version, .rate = 1},
            payload);
        const MessageHeader answer = server.answer(worker, asked)->header;
        version = answer.version;
        if (answer.outcome == Outcome::kDropped) ++dropped[i];
        told_staleness[i] += answer.least_clock;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto sized = server.ask(kA, {.kind = MessageKind::kSize, .table = table}, {});
  const auto size = decode_size(server.answer(kA, sized)->payload);
  const auto sum = [](const auto& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  };
  EXPECT_EQ(size->dropped, sum(dropped));
  EXPECT_EQ(size->updates, kThreads * kPushes - sum(dropped));
  EXPECT_EQ(sum(size->staleness), size->updates);
  EXPECT_EQ(size->staleness[1], sum(told_staleness));
  const auto pulled = server.ask(kA, {.kind = MessageKind::kPull, .table = table}, {});
  EXPECT_THAT(floats_of(server.answer(kA, pulled)->payload),
              Each(-static_cast<float>(size->updates)));
}

// A gradient lies in its worker's memory. The worker abandons the push and overwrites the memory;
// then the link ends.
TEST(LoneServer, AHeldGradientThatWasWrittenOverIsTakenOutOfItsRound) {
  LoneServer server(2);
  TableSpec spec = lone_table("update=bsp", 2, 0);
  spec.kind = TableKind::kSparse;
  spec.dimension = 1;
  const TableId table = server.define(spec);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; keys.size() < 2; ++key)
    if (part_of_key(key, 4) == 0) keys.push_back(key);
  std::uint64_t foreign = 0;
  while (part_of_key(foreign, 4) == 0) ++foreign;
  const MessageHeader push{.kind = MessageKind::kPush, .table = table, .rate = 1};
  const std::vector<std::byte> good = sparse_payload(keys, {2, 2});
  for (const auto& later : {sparse_payload({1, 2, 3, 4}, {}), sparse_payload({foreign, 7}, {9, 9}),
                            std::vector<std::byte>(40, std::byte{0xFF})}) {
    MessageHeader header = push;
    std::uint64_t version =
        server.ask(kA, {.kind = MessageKind::kPull, .table = table}, sparse_payload({}, {}));
    version = server.answer(kA, version)->header.version;
    header.version = version;
    std::vector<std::byte> memory = good;
    server.ask(kA, header, memory, true);
    std::copy_n(later.begin(), std::min(later.size(), memory.size()), memory.begin());
    server.node.on_lost(kA, {.code = ErrorCode::kPeerLost, .message = "ended"});
    memory.assign(memory.size(), std::byte{0xEE});
    server.node.on_linked(kA);
    const auto other = server.ask(kB, header, good);
    EXPECT_EQ(server.answer(kB, other), nullptr);
    // The worker is still a member and pushes another gradient.
    const auto again = server.ask(kA, header, good);
    ASSERT_NE(server.answer(kB, other), nullptr);
    EXPECT_EQ(server.answer(kA, again)->header.outcome, Outcome::kDone);
    const auto pulled =
        server.ask(kB, {.kind = MessageKind::kPull, .table = table}, sparse_payload(keys, {}));
    const float expected = -2 * static_cast<float>(version + 1);
    EXPECT_THAT(floats_of(server.answer(kB, pulled)->payload), ElementsAre(expected, expected));
  }
}

// As above, but the round is gathered when the link ends: it has its mean and its keys already, and
// the memory of the worker is gone.
TEST(LoneServer, AGatheredRoundReadsNothingOfALostWorker) {
  LoneServer server(2);
  TableSpec spec = lone_table("update=bsp", 2, 0);
  spec.kind = TableKind::kSparse;
  spec.dimension = 1;
  spec.measured = true;
  const TableId table = server.define(spec);
  // Two servers: the primary lists the keys of the round for its replica.
  constexpr NodeId kReplica = 9;
  server.view.servers.push_back({.id = kReplica});
  server.view.chains = {{LoneServer::kServer, kReplica}};
  server.show_view();
  server.node.on_linked(kReplica);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; keys.size() < 2; ++key)
    if (part_of_key(key, 4) == 0) keys.push_back(key);
  // The replica takes every record.
  std::size_t answered = 0;
  const auto acknowledge = [&] {
    for (;;) {
      const auto records = server.sent(kReplica, MessageKind::kRecord);
      if (answered == records.size()) return;
      const MessageHeader record = records[answered++].header;
      if ((record.push_kind & (kMoreToCome | kSpec | kListing)) != 0) continue;
      server.say(kReplica,
                 {.kind = MessageKind::kRecordTaken,
                  .table = record.table,
                  .part = record.part,
                  .view = record.view,
                  .sequence = record.sequence},
                 {});
    }
  };
  server.node.settle(TimePoint{std::chrono::seconds(1)});
  acknowledge();
  const MessageHeader push{.kind = MessageKind::kPush, .table = table, .rate = 1};
  auto memory = std::make_unique<std::vector<std::byte>>(sparse_payload(keys, {2, 2}));
  server.ask(kA, push, *memory, true);
  server.ask(kB, push, sparse_payload({}, {}));
  server.node.on_lost(kA, {.code = ErrorCode::kPeerLost, .message = "ended"});
  memory->assign(memory->size(), std::byte{0xEE});
  memory.reset();  // the address sanitizer reports a read
  const std::size_t before = server.sent(kReplica, MessageKind::kRecord).size();
  server.ask(kB, {.kind = MessageKind::kFinish, .table = table, .least_version = 1},
             encode(std::vector<double>{1, 0, 0}));
  // The record has the metadata and the two rows.
  const auto records = server.sent(kReplica, MessageKind::kRecord);
  ASSERT_EQ(records.size(), before + 2);
  const auto piece = read_sparse_piece(records.back().payload);
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->rows, 2U);
}

// One part whose mutex is held, by the answer to a first push, while `pushes` arrive on another
// thread: with conflict=accumulate they are applied together.
class PushesTogether : public testing::Test {
 protected:
  class BusyTransport final : public NodeTransport {
   public:
    explicit BusyTransport(LoneServer& server) : server_(server) {}
    void connect(const ServerInfo&) override {}
    void disconnect(NodeId) override {}
    void send(NodeId to, const MessageHeader& header, std::vector<std::byte> payload) override {
      server_.send(to, header, std::move(payload));
      if (const auto once = std::exchange(during_send, {})) std::thread(once).join();
    }
    void send_from(NodeId, const MessageHeader&, std::span<const std::byte>,
                   std::span<std::byte>) override {}
    void send_written(NodeId, const MessageHeader&, std::size_t) override {}

    std::function<void()> during_send;

   private:
    LoneServer& server_;
  };
  struct Push {
    NodeId from = kA;
    std::uint64_t sequence = 0;
    double weight = 1;
  };

  void start(const std::string& update, const std::vector<WorkerInfo>& workers,
             const OptimizerSpec& optimizer = sgd({.rate = 1})) {
    TableSpec spec = lone_table(update + " conflict=accumulate", 2, 1);
    spec.optimizer = optimizer;
    const auto config = make_table_config(table_id("t"), spec, 1);
    ASSERT_TRUE(config.has_value());
    config_ = *config;
    part_ = std::make_unique<TablePart>(
        config_, 0,
        PartContext{transport_, budget_, snapshot_, fill_bytes_, deferred_, failed_records_});
    ASSERT_TRUE(part_->make_present().has_value());
    part_->install({.view = 1, .role = ChainPosition::Role::kPrimary}, workers);
  }
  void push(const Push& one) {
    part_->request(one.from, {.header = {.kind = MessageKind::kPush,
                                         .sequence = one.sequence,
                                         .weight = one.weight,
                                         .rate = 1},
                              .payload = gradient_});
  }
  void assign(NodeId from, std::uint64_t sequence, float value) {
    const std::vector<std::byte> payload = bytes_of({value});
    part_->request(from, {.header = {.kind = MessageKind::kPush,
                                     .push_kind = static_cast<std::uint8_t>(PushKind::kAssign),
                                     .sequence = sequence,
                                     .weight = 1},
                          .payload = payload});
  }
  void push_together(const std::vector<Push>& pushes) {
    transport_.during_send = [this, pushes] {
      for (const Push& one : pushes) push(one);
    };
    part_->request(kA, {.header = {.kind = MessageKind::kPull, .sequence = ++pulls_}});
  }
  float value() {
    const std::uint64_t sequence = ++pulls_;
    part_->request(kA, {.header = {.kind = MessageKind::kPull, .sequence = sequence}});
    return floats_of(server_.answer(kA, sequence)->payload).front();
  }

  LoneServer server_{2};
  BusyTransport transport_{server_};
  MemoryBudget budget_{0};
  const NewestSnapshot snapshot_{};
  std::atomic<std::int64_t> fill_bytes_{0};
  DeferredParts deferred_;
  std::atomic<std::uint64_t> failed_records_{0};
  TableConfig config_;
  std::unique_ptr<TablePart> part_;
  const std::vector<std::byte> gradient_ = bytes_of({1});
  std::uint64_t pulls_ = 1000;
};

// A float32 of magnitude 2^24 does not change by 1, so single gradients would have no effect.
TEST_F(PushesTogether, AreAddedUpAndAppliedInOnePass) {
  start("update=asp:rate=full", {{.id = kA, .rank = 0}, {.id = kB, .rank = 1}});
  assign(kA, 1, -0x1p24F);
  push({.from = kA, .sequence = 2});
  ASSERT_EQ(value(), -0x1p24F);
  push_together({{.from = kA, .sequence = 3}, {.from = kB, .sequence = 1}});
  EXPECT_EQ(value(), -0x1p24F - 2);
}

// The gradients are 1. A step with their sum would end at -2.
TEST_F(PushesTogether, WithMomentumOrDecayEachGradientIsAStep) {
  const std::vector<WorkerInfo> workers = {{.id = kA, .rank = 0}, {.id = kB, .rank = 1}};
  start("update=asp:rate=full,momentum=kept", workers, sgd({.rate = 1, .momentum = 0.5}));
  push_together({{.from = kA, .sequence = 1}, {.from = kB, .sequence = 1}});
  EXPECT_EQ(value(), -1 - 1.5F);
  start("update=asp:rate=full", workers, sgd({.rate = 1, .weight_decay = 0.5}));
  push_together({{.from = kA, .sequence = 1}, {.from = kB, .sequence = 1}});
  EXPECT_EQ(value(), -1 - 0.5F);
}

TEST_F(PushesTogether, ARepeatedPushCountsOnce) {
  start("update=asp:rate=full", {{.id = kA, .rank = 0}, {.id = kB, .rank = 1}});
  push_together({{.from = kA, .sequence = 1},
                 {.from = kB, .sequence = 1},
                 {.from = kA, .sequence = 1},
                 {.from = kB, .sequence = 2}});
  EXPECT_EQ(value(), -3);
  EXPECT_NE(server_.answer(kB, 2), nullptr);
}

TEST_F(PushesTogether, WeightsCountForLaterShares) {
  start("update=asp:rate=shared", {{.id = kA, .rank = 0}, {.id = kB, .rank = 1}});
  // B has said nothing yet when A's push is applied, so both have half.
  push_together(
      {{.from = kA, .sequence = 1, .weight = 1}, {.from = kB, .sequence = 1, .weight = 3}});
  EXPECT_FLOAT_EQ(value(), -0.5F - 0.75F);
  push({.from = kA, .sequence = 2, .weight = 1});
  EXPECT_FLOAT_EQ(value(), -0.5F - 0.75F - 0.25F);
}

TEST_F(PushesTogether, AWorkerThatWasReplacedIsDropped) {
  start("update=asp:rate=full",
        {{.id = kA, .rank = 0}, {.id = kB, .rank = 1}, {.id = kB + 1, .rank = 1}});
  push_together({{.from = kA, .sequence = 1}, {.from = kB, .sequence = 1}});
  EXPECT_EQ(value(), -1);
  ASSERT_NE(server_.answer(kB, 1), nullptr);
  EXPECT_EQ(server_.answer(kB, 1)->header.outcome, Outcome::kDropped);
}

class LoneServerLease : public testing::Test {
 protected:
  LoneServerLease() : server(1, [this] { return now; }) {
    table = server.define(lone_table("update=asp", 1, 1));
    server.node.settle(now);
  }
  std::uint64_t pull() { return server.ask(kA, {.kind = MessageKind::kPull, .table = table}, {}); }
  // The sequence number of the last request to the directory; 0 if none.
  std::uint64_t asked() {
    const auto beats = server.sent(kDirectoryId, MessageKind::kHeartbeat);
    return beats.empty() ? 0 : beats.back().header.sequence;
  }

  TimePoint now{std::chrono::seconds(100)};
  LoneServer server;
  TableId table = 0;
};

TEST_F(LoneServerLease, WhoStoodStillAsksTheDirectoryBeforeItAnswers) {
  now += std::chrono::seconds(1);
  EXPECT_NE(server.answer(kA, pull()), nullptr);
  EXPECT_EQ(asked(), 0U);
  now += std::chrono::seconds(3);
  const auto waits = pull();
  EXPECT_EQ(server.answer(kA, waits), nullptr);
  server.node.settle(now);
  const std::uint64_t number = asked();
  ASSERT_NE(number, 0U);
  // Neither an answer to an earlier request nor an old view confirms that the server still serves.
  server.say(kDirectoryId, {.kind = MessageKind::kHeartbeat, .sequence = number - 1}, {});
  server.show_view();
  EXPECT_EQ(server.answer(kA, waits), nullptr);
  server.say(kDirectoryId, {.kind = MessageKind::kHeartbeat, .sequence = number}, {});
  ASSERT_NE(server.answer(kA, waits), nullptr);
  EXPECT_EQ(server.answer(kA, waits)->header.view, 2U);
  EXPECT_NE(server.answer(kA, pull()), nullptr);
}

TEST_F(LoneServerLease, WhoWasGivenUpMeanwhileSaysSo) {
  now += std::chrono::seconds(3);
  server.node.settle(now);
  const auto waits = pull();
  EXPECT_EQ(server.answer(kA, waits), nullptr);
  server.view.servers.clear();
  server.view.chains = {{}};
  server.show_view();
  EXPECT_TRUE(server.node.expelled());
  ASSERT_NE(server.answer(kA, waits), nullptr);
  EXPECT_EQ(server.answer(kA, waits)->header.outcome, Outcome::kNotPrimary);
}

}  // namespace
}  // namespace tally::server::test
