// Messages that no correct peer sends: the server refuses or ignores them and continues to serve.

#include <limits>

#include "server/testing/test_cluster.h"

namespace tally::server::test {
namespace {

struct MaliceCase {
  const char* name;
  MessageHeader header;
  std::vector<std::byte> payload;
  ErrorCode code;
};

class ServerMalice : public testing::Test {
 protected:
  ServerMalice() : cluster_({.servers = 2, .workers = 1}) {
    dense_ = cluster_.define(
        {.name = "weights", .count = 2, .optimizer = sgd({.rate = 1}), .plan = "update=bsp"});
    sparse_ = cluster_.define({.name = "rows",
                               .kind = TableKind::kSparse,
                               .dimension = 1,
                               .optimizer = sgd({.rate = 1}),
                               .plan = "update=asp"});
    measured_ = cluster_.define({.name = "measured",
                                 .count = 2,
                                 .optimizer = sgd({.rate = 1}),
                                 .plan = "update=bsp",
                                 .measured = true});
    while (part_of_key(foreign_key_, 8) == 0) ++foreign_key_;
  }
  void expect_serving() {
    const auto pulled = cluster_.worker(0).pull(dense_, 0);
    cluster_.network.run();
    ASSERT_TRUE(cluster_.worker(0).is_done(pulled));
    EXPECT_THAT(cluster_.worker(0).answer(pulled)->values(), Each(0));
  }

  Cluster cluster_;
  TableId dense_ = 0;
  TableId sparse_ = 0;
  TableId measured_ = 0;
  std::uint64_t foreign_key_ = 0;
};

TEST_F(ServerMalice, RequestsThatMakeNoSenseAreRefused) {
  const auto push = [](TableId table, std::uint32_t part, std::uint8_t kind, double weight) {
    return MessageHeader{.kind = MessageKind::kPush,
                         .push_kind = kind,
                         .table = table,
                         .part = part,
                         .weight = weight};
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  MessageHeader wild_rate = push(dense_, 0, 0, 1);
  wild_rate.rate = kInfinity;
  const auto measure = [&](std::uint64_t version) {
    return MessageHeader{.kind = MessageKind::kMeasure, .table = measured_, .version = version};
  };
  const auto finish = [&](std::uint64_t version, std::uint64_t next) {
    return MessageHeader{.kind = MessageKind::kFinish,
                         .table = measured_,
                         .version = version,
                         .least_version = next};
  };
  std::vector<std::byte> too_many_keys(8);
  too_many_keys[3] = std::byte{0xFF};
  std::vector<std::byte> not_zero = sparse_payload({}, {});
  not_zero[7] = std::byte{1};
  const std::vector<MaliceCase> cases{
      {"a push that is too short", push(dense_, 0, 0, 1), bytes_of({1}), ErrorCode::kCorrupt},
      {"a push that is too long", push(dense_, 0, 0, 1), bytes_of({1, 2, 3}), ErrorCode::kCorrupt},
      {"a push of unknown kind", push(dense_, 0, 4, 1), bytes_of({1, 2}), ErrorCode::kCorrupt},
      {"a negative weight", push(dense_, 0, 0, -1), bytes_of({1, 2}), ErrorCode::kCorrupt},
      {"an infinite weight", push(dense_, 0, 0, kInfinity), bytes_of({1, 2}), ErrorCode::kCorrupt},
      {"a weight that is no number", push(sparse_, 0, 0, kNan), sparse_payload({}, {}),
       ErrorCode::kCorrupt},
      {"an addition of infinite weight", push(dense_, 0, 1, kInfinity), bytes_of({1, 2}),
       ErrorCode::kCorrupt},
      {"an infinite learning rate", wild_rate, bytes_of({1, 2}), ErrorCode::kCorrupt},
      {"no keys at all", push(sparse_, 0, 0, 1), {}, ErrorCode::kCorrupt},
      {"more keys than bytes", push(sparse_, 0, 0, 1), too_many_keys, ErrorCode::kCorrupt},
      {"reserved bytes in use", push(sparse_, 0, 0, 1), not_zero, ErrorCode::kCorrupt},
      {"a key of another part", push(sparse_, 0, 1, 1), sparse_payload({foreign_key_}, {1}),
       ErrorCode::kCorrupt},
      {"a part that is not there", push(dense_, 2, 0, 1), bytes_of({1, 2}), ErrorCode::kInvalid},
      {"state of a sparse table",
       {.kind = MessageKind::kReadState, .table = sparse_},
       {},
       ErrorCode::kInvalid},
      {"state that is not there",
       {.kind = MessageKind::kReadState, .push_kind = 9, .table = dense_},
       {},
       ErrorCode::kInvalid},
      {"state that is too short",
       {.kind = MessageKind::kWriteState, .table = dense_},
       bytes_of({1}),
       ErrorCode::kCorrupt},
      {"a measurement of a table that has none",
       {.kind = MessageKind::kMeasure, .table = dense_},
       encode(std::vector<double>{1}),
       ErrorCode::kCorrupt},
      {"the end of a round of such a table",
       {.kind = MessageKind::kFinish, .table = dense_, .least_version = 1},
       encode(std::vector<double>{1, 0, 0}),
       ErrorCode::kCorrupt},
      {"a measurement without a factor", measure(0), {}, ErrorCode::kCorrupt},
      {"a measurement with two factors", measure(0), encode(std::vector<double>{1, 1}),
       ErrorCode::kCorrupt},
      {"a factor of seven bytes", measure(0), std::vector<std::byte>(7), ErrorCode::kCorrupt},
      {"the end of a round without norms", finish(0, 1), encode(std::vector<double>{1}),
       ErrorCode::kCorrupt},
      {"the end of a round with a norm too many", finish(0, 1),
       encode(std::vector<double>{1, 0, 0, 0}), ErrorCode::kCorrupt},
      {"the end of a round that waits for its own version", finish(0, 0),
       encode(std::vector<double>{1, 0, 0}), ErrorCode::kCorrupt},
      {"the end of a round that waits for a later version", finish(0, 5),
       encode(std::vector<double>{1, 0, 0}), ErrorCode::kCorrupt},
      {"values that are none",
       {.kind = MessageKind::kAgree, .clock = 1},
       std::vector<std::byte>(7),
       ErrorCode::kCorrupt},
      {"an agreement without a number",
       {.kind = MessageKind::kAgree},
       encode(std::vector<double>{1}),
       ErrorCode::kInvalid},
  };
  Worker& worker = cluster_.worker(0);
  for (const MaliceCase& one : cases) {
    SCOPED_TRACE(one.name);
    const auto asked = worker.ask(one.header, one.payload);
    cluster_.network.run();
    ASSERT_NE(worker.answer(asked), nullptr);
    EXPECT_EQ(worker.answer(asked)->header.outcome, Outcome::kRefused);
    EXPECT_EQ(worker.answer(asked)->error.code, one.code) << worker.answer(asked)->error.message;
  }
  expect_serving();
}

// conflict=atomic takes pushes on a path of its own.
TEST_F(ServerMalice, AWeightThatIsNotFiniteIsRefusedUnderAtomicUpdates) {
  const TableId table = cluster_.define({.name = "shared",
                                         .count = 2,
                                         .optimizer = sgd({.rate = 1}),
                                         .plan = "update=asp conflict=atomic"});
  Worker& worker = cluster_.worker(0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Worker::PushOptions& wild :
       {Worker::PushOptions{.weight = kInfinity}, Worker::PushOptions{.rate = kInfinity},
        Worker::PushOptions{.kind = PushKind::kAdd, .weight = kInfinity}}) {
    const auto pushed = worker.push(table, 0, wild, bytes_of({1, 2}));
    cluster_.network.run();
    ASSERT_NE(worker.answer(pushed), nullptr);
    EXPECT_EQ(worker.answer(pushed)->error.code, ErrorCode::kCorrupt);
  }
  // The replica still takes records.
  const auto pushed = worker.push(table, 0, {}, bytes_of({1, 2}));
  const auto pulled = worker.pull(table, 0);
  cluster_.network.run();
  EXPECT_TRUE(worker.is_done(pushed));
  EXPECT_THAT(worker.answer(pulled)->values(), ElementsAre(-1, -2));
}

// Rounds that are far away are neither measured nor finished, and the current one is.
TEST_F(ServerMalice, TheEndOfARoundThatIsFarAwayDecidesNothing) {
  Worker& worker = cluster_.worker(0);
  for (const std::uint64_t version :
       {std::uint64_t{5}, std::numeric_limits<std::uint64_t>::max() - 1}) {
    const auto measured =
        worker.ask({.kind = MessageKind::kMeasure, .table = measured_, .version = version},
                   encode(std::vector<double>{1}));
    const auto finished = worker.ask({.kind = MessageKind::kFinish,
                                      .table = measured_,
                                      .version = version,
                                      .least_version = version + 1},
                                     encode(std::vector<double>{100, 0, 0}));
    cluster_.network.run();
    EXPECT_EQ(worker.answer(measured), nullptr);
    EXPECT_EQ(worker.answer(finished), nullptr);
  }
  const auto pushed = worker.push(measured_, 0, {}, bytes_of({1, 2}));
  cluster_.network.run();
  EXPECT_EQ(worker.answer(pushed), nullptr);
  worker.ask({.kind = MessageKind::kFinish, .table = measured_, .version = 0, .least_version = 1},
             encode(std::vector<double>{0.5, 0, 0}));
  cluster_.network.run();
  EXPECT_TRUE(worker.is_done(pushed));
  const auto pulled = worker.pull(measured_, 0);
  cluster_.network.run();
  EXPECT_THAT(worker.answer(pulled)->values(), ElementsAre(-0.5F, -1));
  expect_serving();
}

TEST_F(ServerMalice, RequestsToAServerThatMakeNoSenseAreRefused) {
  const TableSpec other{.name = "weights", .count = 3, .plan = "update=bsp"};
  TableSpec no_plan{.name = "other", .count = 3, .plan = "update=never"};
  TableSpec too_large{.name = "huge", .count = std::uint64_t{1} << 46, .plan = "update=bsp"};
  const std::vector<MaliceCase> cases{
      {"no spec", {.kind = MessageKind::kDefine, .table = 7}, bytes_of({1}), ErrorCode::kCorrupt},
      {"another spec",
       {.kind = MessageKind::kDefine, .table = table_id("weights")},
       encode(other),
       ErrorCode::kMismatch},
      {"another number",
       {.kind = MessageKind::kDefine, .table = 7},
       encode(other),
       ErrorCode::kInvalid},
      {"a plan that is none",
       {.kind = MessageKind::kDefine, .table = table_id("other")},
       encode(no_plan),
       ErrorCode::kInvalid},
      {"too many parts",
       {.kind = MessageKind::kDefine, .table = table_id("huge")},
       encode(too_large),
       ErrorCode::kExhausted},
      {"a snapshot without a folder",
       {.kind = MessageKind::kSnapshot},
       encode_text("a"),
       ErrorCode::kInvalid},
      {"a path that is none",
       {.kind = MessageKind::kRestore},
       std::vector<std::byte>(3),
       ErrorCode::kCorrupt},
  };
  Worker& worker = cluster_.worker(0);
  for (const MaliceCase& one : cases) {
    SCOPED_TRACE(one.name);
    const auto asked = worker.ask_server(1, one.header, one.payload);
    cluster_.network.run();
    ASSERT_NE(worker.answer(asked), nullptr);
    EXPECT_EQ(worker.answer(asked)->header.outcome, Outcome::kRefused);
    EXPECT_EQ(worker.answer(asked)->error.code, one.code) << worker.answer(asked)->error.message;
  }
  expect_serving();
}

TEST_F(ServerMalice, WhoIsNoWorkerIsRefused) {
  Worker stranger(cluster_.network, 77, 5);
  const View view = cluster_.directory->view();
  Message said{.header = {.kind = MessageKind::kView}};
  const auto bytes = encode(view);
  said.payload = bytes;
  stranger.on_message(kDirectoryId, said);
  const auto pushed = stranger.push(dense_, 0, {}, bytes_of({1, 1}));
  const auto defined =
      stranger.ask_server(1, {.kind = MessageKind::kDefine, .table = table_id("x")},
                          encode(TableSpec{.name = "x", .count = 1}));
  cluster_.network.run();
  for (const auto sequence : {pushed, defined}) {
    ASSERT_NE(stranger.answer(sequence), nullptr);
    EXPECT_EQ(stranger.answer(sequence)->error.code, ErrorCode::kClosed);
  }
  expect_serving();
}

TEST_F(ServerMalice, RecordsOfWhoIsNotThePredecessorHaveNoEffect) {
  const NodeId primary = cluster_.primary(dense_, 0);
  const PartMetadata metadata{.round = policy::Round({}).encode()};
  for (const NodeId from : {NodeId{3}, NodeId{99}, NodeId{3 - primary}}) {
    for (const std::uint8_t flags :
         {std::uint8_t{0}, kWhole, kSpec, kListing, static_cast<std::uint8_t>(kSpec | kListing)}) {
      cluster_.network.transport(from).send(primary,
                                            {.kind = MessageKind::kRecord,
                                             .push_kind = flags,
                                             .table = dense_,
                                             .part = 0,
                                             .view = cluster_.directory->view().number,
                                             .sequence = 1},
                                            encode(metadata));
      cluster_.network.run();
    }
    cluster_.network.transport(from).send(
        primary, {.kind = MessageKind::kRecordTaken, .table = dense_, .sequence = 1}, {});
  }
  cluster_.network.run();
  expect_serving();
}

TEST_F(ServerMalice, RecordsThatCannotBeReadAreRefusedAndThePartIsNotGoneOnFrom) {
  const NodeId primary = cluster_.primary(dense_, 0);
  const NodeId backup = 3 - primary;
  const MessageHeader record{.kind = MessageKind::kRecord,
                             .push_kind = kMoreToCome,
                             .table = dense_,
                             .part = 0,
                             .view = cluster_.directory->view().number,
                             .sequence = 1000};
  const auto send = [&](MessageHeader header, std::vector<std::byte> payload) {
    cluster_.network.transport(primary).send(backup, header, std::move(payload));
    cluster_.network.run();
  };
  send(record, bytes_of({1}));
  MessageHeader piece = record;
  piece.clock = 1;
  piece.push_kind = 0;
  send(piece, bytes_of({1}));
  // Valid metadata, but the pieces are out of order.
  const PartMetadata metadata{.round = policy::Round({.workers = 1}).encode()};
  send(record, encode(metadata));
  piece.clock = 5;
  send(piece, bytes_of({1}));
  expect_serving();
}

TEST_F(ServerMalice, ViewsComeFromTheDirectoryAlone) {
  View forged = cluster_.directory->view();
  forged.number += 10;
  for (auto& chain : forged.chains) chain.clear();
  cluster_.network.transport(3).send(1, {.kind = MessageKind::kView, .part = 1}, encode(forged));
  cluster_.network.transport(kDirectoryId)
      .send(1, {.kind = MessageKind::kView, .part = 1}, bytes_of({1, 2, 3}));
  cluster_.network.run();
  expect_serving();
  EXPECT_TRUE(cluster_.has_event("the directory sent a corrupt view"));
}

TEST(ServerMemory, GradientsThatWaitForTheirRoundAreBounded) {
  Cluster cluster({.servers = 1, .workers = 2});
  const TableId table =
      cluster.define({.name = "weights", .count = 2, .plan = "update=bsp", .workers = 2});
  Worker& worker = cluster.worker(0);
  std::vector<std::uint64_t> pushed;
  for (std::uint64_t i = 0; i < 300; ++i)
    pushed.push_back(worker.push(table, 0, {.clock = i, .version = i}, bytes_of({0, 0})));
  cluster.network.run();
  std::size_t refused = 0;
  for (const auto sequence : pushed)
    if (worker.answer(sequence) != nullptr &&
        worker.answer(sequence)->error.code == ErrorCode::kExhausted)
      ++refused;
  EXPECT_EQ(refused, 300 - PushHistory::kMaxHeld);
  EXPECT_EQ(worker.open(), PushHistory::kMaxHeld);
}

TEST_F(ServerMalice, MessagesOfViewsThatNeverComeAreBounded) {
  for (int i = 0; i < 70000; ++i)
    cluster_.network.transport(3).send(
        1, {.kind = MessageKind::kPull, .table = dense_, .view = 0xFFFFFFFF}, {});
  cluster_.network.run();
  expect_serving();
}

// The sender of a record that was not kept must learn that it has to send it again.
TEST_F(ServerMalice, RecordsOfViewsThatDoNotComeAreKeptOrAnswered) {
  constexpr std::uint64_t kSent = 140000;
  constexpr std::uint64_t kKept = 2 * 65536;
  for (std::uint64_t i = 0; i < kSent; ++i)
    cluster_.network.transport(3).send(
        1, {.kind = MessageKind::kRecord, .table = dense_, .view = 0xFFFFFFFF}, {});
  const std::uint64_t before = cluster_.network.delivered(MessageKind::kRecordTaken);
  cluster_.network.run();
  EXPECT_EQ(cluster_.network.delivered(MessageKind::kRecordTaken) - before, kSent - kKept);
  expect_serving();
}

TEST(ServerMemory, ATableThatDoesNotFitIsRefusedInWords) {
  Cluster cluster({.servers = 1, .workers = 1, .memory_limit_bytes = 1 << 20});
  const TableSpec spec{.name = "big", .count = 1 << 20, .plan = "update=asp"};
  cluster.define(spec);
  Worker& worker = cluster.worker(0);
  EXPECT_EQ(worker.answer(1)->error.code, ErrorCode::kExhausted);
  EXPECT_THAT(worker.answer(1)->error.message, HasSubstr("no memory"));
}

// Rows exhaust the memory of the primary or of a replica: the server reports that, and no request
// is left without an answer.
TEST(ServerMemory, RowsThatDoNotFitOnAllCopiesAreRefusedInWords) {
  Cluster cluster({.servers = 2, .workers = 1, .memory_limit_bytes = 16 << 20});
  const TableId table = cluster.define(
      {.name = "rows", .kind = TableKind::kSparse, .dimension = 1024, .plan = "update=asp"});
  Worker& worker = cluster.worker(0);
  std::vector<std::uint64_t> pushed;
  for (std::uint64_t key = 0; key < 8000; ++key) {
    pushed.push_back(worker.push(table, part_of_key(key, 8), {.kind = PushKind::kAdd},
                                 sparse_payload({key}, std::vector<float>(1024, 1))));
    cluster.network.run();
  }
  EXPECT_EQ(worker.open(), 0U);
  std::size_t refused = 0;
  for (const auto sequence : pushed) {
    if (worker.is_done(sequence)) continue;
    ++refused;
    EXPECT_EQ(worker.answer(sequence)->error.code, ErrorCode::kExhausted);
    EXPECT_THAT(worker.answer(sequence)->error.message, HasSubstr("no memory"));
  }
  EXPECT_GT(refused, 1000U);
  EXPECT_LT(refused, 7000U);
}

}  // namespace
}  // namespace tally::server::test
