#include "server/client_node.h"

#include <cstring>
#include <deque>

#include <gtest/gtest.h>

#include "server/bodies.h"
#include "server/storage.h"
#include "wire/error_body.h"

namespace tally::server {
namespace {

constexpr NodeId kSelf = 9;

struct Sent {
  NodeId to = 0;
  MessageHeader header;
  std::span<const std::byte> payload;
  std::span<std::byte> reply;
};

// Keeps what is sent.
class Tray final : public Postman {
 public:
  void reach(const ServerInfo& server) override { reached.push_back(server.id); }
  void drop(NodeId peer) override { dropped.push_back(peer); }
  void send(NodeId to, const MessageHeader& header, std::vector<std::byte>) override {
    if (to == kDirectory) return;
    sent.push_back({.to = to, .header = header});
  }
  void send_from(NodeId to, const MessageHeader& header, std::span<const std::byte> payload,
                 std::span<std::byte> reply) override {
    sent.push_back({to, header, payload, reply});
  }
  void send_written(NodeId, const MessageHeader&, std::size_t) override { FAIL(); }

  std::vector<Sent> take() { return std::exchange(sent, {}); }

  std::vector<NodeId> reached;
  std::vector<NodeId> dropped;
  std::vector<Sent> sent;
};

View view_of(std::uint32_t number, std::vector<std::vector<NodeId>> chains) {
  View view{.number = number, .chains = std::move(chains), .workers = {{.id = kSelf, .rank = 3}}};
  for (const NodeId id : {1U, 2U}) {
    for (const auto& chain : view.chains) {
      if (std::count(chain.begin(), chain.end(), id) == 0) continue;
      view.servers.push_back({.id = id, .address = "127.0.0.1:1"});
      break;
    }
  }
  return view;
}

class ClientNodeTest : public testing::Test {
 protected:
  void SetUp() override {
    node.join();
    show(view_of(1, {{1, 2}, {2, 1}}));
    node.on_linked(1);
    node.on_linked(2);
    // 3 parts and a bit, on both servers in turn.
    dense = {.name = "w", .count = 3 * kElements + 10};
  }

  void show(const View& view) {
    const auto bytes = encode(view);
    node.on_message(kDirectory,
                    {.header = {.kind = MessageKind::kView, .part = kSelf}, .payload = bytes});
  }
  void answer(const Sent& sent, MessageHeader facts = {}, std::span<const std::byte> payload = {}) {
    facts.kind = MessageKind::kAnswer;
    facts.table = sent.header.table;
    facts.part = sent.header.part;
    facts.sequence = sent.header.sequence;
    node.on_message(sent.to, {.header = facts, .payload = payload});
  }
  TableId define(const TableSpec& spec) {
    const Ticket ticket = node.define(spec);
    for (const Sent& sent : tray.take()) answer(sent);
    const auto id = node.take_define(ticket);
    EXPECT_TRUE(id.has_value());
    return *id;
  }
  std::span<const std::byte> gradient() { return std::as_bytes(std::span(values)); }
  std::span<std::byte> room() { return std::as_writable_bytes(std::span(values)); }

  static constexpr std::size_t kElements = kPartBytes / sizeof(float);
  Tray tray;
  int progress = 0;
  ClientNode node{
      tray, {.rank = 3, .in_flight_bytes = std::size_t{1} << 20}, {}, [this] { ++progress; }};
  TableSpec dense;
  std::vector<float> values = std::vector<float>(3 * kElements + 10);
};

TEST_F(ClientNodeTest, APushGoesPartByPartToThePrimaries) {
  const TableId table = define(dense);
  const Ticket ticket = node.push({table, 0, 4}, {.clock = 5, .version = 4}, gradient());
  auto sent = tray.take();
  ASSERT_EQ(sent.size(), 4U);
  std::sort(sent.begin(), sent.end(),
            [](const Sent& a, const Sent& b) { return a.header.part < b.header.part; });
  for (std::uint32_t part = 0; part < 4; ++part) {
    const std::uint32_t slot = slot_of(table, part, 2);
    EXPECT_EQ(sent[part].to, slot + 1);
    EXPECT_EQ(sent[part].header.part, part);
    EXPECT_EQ(sent[part].header.clock, 5U);
    EXPECT_EQ(sent[part].payload.data(), gradient().data() + part * kPartBytes);
    EXPECT_EQ(sent[part].payload.size(), part == 3 ? 40U : kPartBytes);
  }
  answer(sent[0], {.clock = 3, .version = 7, .least_clock = 2});
  answer(sent[1], {.clock = 4, .version = 6, .least_clock = 1});
  answer(sent[2], {.outcome = Outcome::kDropped, .clock = 4, .version = 9});
  EXPECT_FALSE(node.done(ticket));
  answer(sent[3], {.clock = 4, .version = 6});
  ASSERT_TRUE(node.done(ticket));
  const auto completion = node.take(ticket);
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->applied, 3U);
  EXPECT_EQ(completion->dropped, 1U);
  EXPECT_EQ(completion->version, 6U);
  EXPECT_EQ(completion->clock, 3U);
  EXPECT_EQ(completion->staleness, 2U);
  EXPECT_EQ(node.newest_version(table), 9U);
  EXPECT_GT(progress, 0);
}

TEST_F(ClientNodeTest, NoMoreIsInFlightThanThereIsRoomFor) {
  dense.count = 20 * kElements;
  const TableId table = define(dense);
  values.resize(dense.count);
  node.push({table, 0, 20}, {}, gradient());
  std::vector<Sent> first = tray.take();
  EXPECT_EQ(first.size(), 6U);  // 3 * 256 KiB and their headers are below 1 MiB, for each of two
  answer(first[0]);
  node.settle({});
  const std::vector<Sent> next = tray.take();
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].to, first[0].to);
}

TEST_F(ClientNodeTest, WhatALostLinkHadIsSentAgainInOrder) {
  const TableId table = define(dense);
  node.push({table, 0, 4}, {}, gradient());
  node.push({table, 0, 4}, {}, gradient());
  std::vector<std::uint64_t> numbers;
  for (const Sent& sent : tray.take()) {
    if (sent.to == 1) numbers.push_back(sent.header.sequence);
  }
  node.on_lost(1, {});
  node.settle({});
  EXPECT_TRUE(tray.take().empty());
  node.on_linked(1);
  std::vector<std::uint64_t> again;
  for (const Sent& sent : tray.take()) again.push_back(sent.header.sequence);
  EXPECT_EQ(again, numbers);
}

TEST_F(ClientNodeTest, ANewViewMovesWhatIsUnansweredToTheNextInTheChain) {
  const TableId table = define(dense);
  const Ticket ticket = node.push({table, 0, 4}, {}, gradient());
  std::vector<Sent> before = tray.take();
  for (const Sent& sent : before) {
    if (sent.to == 2) answer(sent);
  }
  node.on_lost(1, {});
  show(view_of(2, {{2}, {2}}));
  EXPECT_EQ(tray.dropped, std::vector<NodeId>{1});
  const std::vector<Sent> after = tray.take();
  ASSERT_EQ(after.size(), 2U);
  for (const Sent& sent : after) {
    EXPECT_EQ(sent.to, 2U);
    EXPECT_EQ(sent.header.view, 2U);
    answer(sent);
  }
  EXPECT_TRUE(node.take(ticket).has_value());
}

TEST_F(ClientNodeTest, WhatIsElsewhereWaitsForANewerViewAndHoldsBackWhatFollowsOnThatPart) {
  dense.count = 10;
  const TableId table = define(dense);
  values.resize(10);
  node.push({table, 0, 1}, {}, gradient());
  const Sent first = tray.take().front();
  answer(first, {.outcome = Outcome::kElsewhere, .view = 2});
  node.push({table, 0, 1}, {}, gradient());
  node.settle({});
  EXPECT_TRUE(tray.take().empty());
  show(view_of(3, {{1, 2}, {2, 1}}));
  const std::vector<Sent> after = tray.take();
  ASSERT_EQ(after.size(), 2U);
  EXPECT_EQ(after[0].header.sequence, first.header.sequence);
  EXPECT_GT(after[1].header.sequence, first.header.sequence);
}

TEST_F(ClientNodeTest, LossOfAllCopiesSaysWhatWasLostWithWhom) {
  const TableId table = define(dense);
  const Ticket ticket = node.pull({table, 0, 4}, {}, room());
  std::uint32_t lost_slot = 0;
  for (const Sent& sent : tray.take()) {
    if (sent.to == 2) {
      answer(sent, {}, std::vector<std::byte>(sent.reply.size()));
    } else {
      lost_slot = slot_of(table, sent.header.part, 2);
    }
  }
  std::vector<std::vector<NodeId>> chains = {{2}, {2}};
  chains[lost_slot] = {};
  show(view_of(2, chains));
  ASSERT_TRUE(node.done(ticket));
  const auto completion = node.take(ticket);
  ASSERT_FALSE(completion.has_value());
  EXPECT_EQ(completion.error().code, ErrorCode::kPeerLost);
  const std::string parts = slot_of(table, 0, 2) == lost_slot ? "parts 0, 2" : "parts 1, 3";
  EXPECT_NE(completion.error().message.find(parts + " of table 'w' are lost with servers 1, 2"),
            std::string::npos)
      << completion.error().message;
}

TEST_F(ClientNodeTest, AnAnswerThatNamesASnapshotIsPassedOn) {
  dense.count = 10;
  values.resize(10);
  const TableId table = define(dense);
  const Ticket ticket = node.push({table, 0, 1}, {}, gradient());
  const auto name = encode_text("step-7");
  answer(tray.take().front(), {.outcome = Outcome::kLost}, name);
  const auto completion = node.take(ticket);
  ASSERT_FALSE(completion.has_value());
  EXPECT_NE(completion.error().message.find("step-7"), std::string::npos);
}

TEST_F(ClientNodeTest, AnswersThatDoNotFitAreNotUsed) {
  dense.count = 10;
  values.assign(10, 1.0F);
  const TableId table = define(dense);
  const Ticket ticket = node.pull({table, 0, 1}, {}, room());
  const Sent sent = tray.take().front();
  Sent wrong = sent;
  wrong.header.part = 1;
  answer(wrong, {}, std::vector<std::byte>(40));
  wrong = sent;
  wrong.to = sent.to == 1 ? 2 : 1;
  answer(wrong, {}, std::vector<std::byte>(40));
  EXPECT_FALSE(node.done(ticket));
  MessageHeader header = sent.header;
  header.kind = MessageKind::kAnswer;
  header.payload_bytes = 40;
  EXPECT_EQ(node.place(sent.to, header).data(), room().data());
  header.payload_bytes = 36;
  EXPECT_TRUE(node.place(sent.to, header).empty());
  answer(sent, {}, std::vector<std::byte>(36));
  const auto completion = node.take(ticket);
  ASSERT_FALSE(completion.has_value());
  EXPECT_EQ(completion.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(values[0], 1.0F);
}

TEST_F(ClientNodeTest, ARefusalIsTheServersError) {
  const Ticket ticket = node.define(dense);
  for (const Sent& sent : tray.take())
    answer(sent, {.outcome = Outcome::kRefused},
           wire::encode_error({.code = ErrorCode::kMismatch, .message = "another table"}));
  const auto id = node.take_define(ticket);
  ASSERT_FALSE(id.has_value());
  EXPECT_EQ(id.error().code, ErrorCode::kMismatch);
}

TEST_F(ClientNodeTest, SparseRowsAreAskedOfTheirPartsAndComeBackInOrder) {
  const TableId table = define({.name = "e", .kind = TableKind::kSparse, .dimension = 2});
  const std::vector<std::uint64_t> keys = {5, 99, 7, 1000};
  std::vector<float> rows(8);
  const Ticket ticket = node.pull(table, {}, keys, rows);
  const auto sent = tray.take();
  EXPECT_EQ(sent.size(), 8U);
  for (const Sent& one : sent) {
    std::uint32_t count = 0;
    std::memcpy(&count, one.payload.data(), sizeof(count));
    std::vector<float> answered;
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint64_t key = 0;
      std::memcpy(&key, one.payload.data() + 8 + 8 * i, sizeof(key));
      answered.insert(answered.end(), {static_cast<float>(key), -static_cast<float>(key)});
    }
    answer(one, {.version = 1}, std::as_bytes(std::span(answered)));
  }
  ASSERT_TRUE(node.take(ticket).has_value());
  EXPECT_EQ(rows, (std::vector<float>{5, -5, 99, -99, 7, -7, 1000, -1000}));
}

TEST_F(ClientNodeTest, WhatCannotBeAskedSaysWhy) {
  const TableId table = define(dense);
  for (const Ticket ticket :
       {node.push({table, 0, 5}, {}, gradient()), node.push({table, 0, 3}, {}, gradient()),
        node.pull({table, 4294967295U, 4294967295U}, {}, room()),
        node.push({77, 0, 4}, {}, gradient()),
        node.push(table, {}, std::vector<std::uint64_t>{1}, std::vector<float>{1})}) {
    ASSERT_TRUE(node.done(ticket));
    const auto completion = node.take(ticket);
    ASSERT_FALSE(completion.has_value());
    EXPECT_EQ(completion.error().code, ErrorCode::kInvalid);
  }
  EXPECT_TRUE(tray.take().empty());
}

TEST_F(ClientNodeTest, AJoinerAgreesInTheRoundThatIsGathered) {
  const std::vector<double> mine = {2};
  const Ticket ticket = node.agree(mine);
  const Sent first = tray.take().front();
  EXPECT_EQ(first.to, 1U);
  EXPECT_EQ(first.header.clock, 1U);
  answer(first, {.outcome = Outcome::kDropped, .version = 57});
  node.settle({});
  const Sent second = tray.take().front();
  EXPECT_EQ(second.header.clock, 57U);
  answer(second, {.version = 57}, encode(std::vector<double>{10}));
  const auto sums = node.take_agree(ticket);
  ASSERT_TRUE(sums.has_value());
  EXPECT_EQ(*sums, std::vector<double>{10});
  node.agree(mine);
  EXPECT_EQ(tray.take().front().header.clock, 58U);
}

TEST_F(ClientNodeTest, AnAgreementIsRepeatedToANewPrimaryBeforeTheNext) {
  const Ticket done = node.agree(std::vector<double>{2});
  answer(tray.take().front(), {.version = 1}, encode(std::vector<double>{3}));
  ASSERT_TRUE(node.take_agree(done).has_value());
  node.agree(std::vector<double>{4});
  tray.take();
  show(view_of(2, {{2}, {2}}));
  const auto again = tray.take();
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].header.clock, 1U);
  EXPECT_EQ(*decode_values(again[0].payload), std::vector<double>{2});
  EXPECT_EQ(again[1].header.clock, 2U);
  answer(again[0], {.version = 1}, encode(std::vector<double>{3}));
}

TEST_F(ClientNodeTest, SizesAreAskedForAgainWhenAServerIsLost) {
  const TableId table = define(dense);
  const Ticket ticket = node.size(table);
  for (const Sent& sent : tray.take()) {
    if (sent.to == 2) answer(sent, {}, encode(Client::Size{.elements = 1}));
  }
  show(view_of(2, {{2}, {2}}));
  const auto again = tray.take();
  ASSERT_EQ(again.size(), 1U);
  answer(again[0], {}, encode(Client::Size{.elements = 3}));
  const auto size = node.take_size(ticket);
  ASSERT_TRUE(size.has_value());
  EXPECT_EQ(size->elements, 3U);
}

TEST_F(ClientNodeTest, ACancelledPushEndsWithWhatWasSent) {
  dense.count = 20 * kElements;
  values.resize(dense.count);
  const TableId table = define(dense);
  const Ticket ticket = node.push({table, 0, 20}, {}, gradient());
  const auto sent = tray.take();
  node.cancel(ticket);
  for (const Sent& one : sent) answer(one);
  const auto completion = node.take(ticket);
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->applied, 6U);
  EXPECT_EQ(completion->dropped, 14U);
}

TEST_F(ClientNodeTest, AnAbandonedRequestLeavesNoLinkThatKnowsItsMemory) {
  dense.count = 10;
  values.resize(10);
  const TableId table = define(dense);
  const Ticket ticket = node.pull({table, 0, 1}, {}, room());
  const Sent sent = tray.take().front();
  tray.reached.clear();
  node.abandon(ticket);
  EXPECT_EQ(tray.dropped, std::vector<NodeId>{sent.to});
  EXPECT_EQ(tray.reached, std::vector<NodeId>{sent.to});
  answer(sent, {}, std::vector<std::byte>(40));
  EXPECT_FALSE(node.take(ticket).has_value());
}

TEST_F(ClientNodeTest, WithoutTheDirectoryEverythingEnds) {
  const TableId table = define(dense);
  const Ticket ticket = node.push({table, 0, 4}, {}, gradient());
  node.on_lost(kDirectory, {.code = ErrorCode::kPeerLost, .message = "connection closed"});
  EXPECT_EQ(tray.dropped, (std::vector<NodeId>{1, 2}));
  for (const Ticket one : {ticket, node.push({table, 0, 4}, {}, gradient())}) {
    ASSERT_TRUE(node.done(one));
    const auto completion = node.take(one);
    ASSERT_FALSE(completion.has_value());
    EXPECT_EQ(completion.error().code, ErrorCode::kPeerLost);
  }
}

TEST_F(ClientNodeTest, AWorkerThatWasGivenUpIsTold) {
  View view = view_of(2, {{1, 2}, {2, 1}});
  view.workers[0].id = 4;
  show(view);
  const Ticket ticket = node.agree(std::vector<double>{1});
  ASSERT_TRUE(node.done(ticket));
  EXPECT_FALSE(node.take_agree(ticket).has_value());
}

TEST_F(ClientNodeTest, TheCrewIsThatOfTheView) {
  View view = view_of(2, {{1, 2}, {2, 1}});
  view.workers.insert(view.workers.begin(), {.id = 5, .rank = 7});
  show(view);
  EXPECT_EQ(node.crew().workers, 2);
  EXPECT_EQ(node.crew().lowest_rank, 3);
}

TEST_F(ClientNodeTest, AClosedRoundIsKnownAtOnce) {
  const TableId table = define(dense);
  node.on_message(1, {.header = {.kind = MessageKind::kClosed, .table = table, .version = 12}});
  EXPECT_EQ(node.newest_version(table), 12U);
}

}  // namespace
}  // namespace tally::server
