#include "server/client/client_node.h"

#include <cstring>

#include <gtest/gtest.h>

#include "server/client/client_node_test_support.h"
#include "server/protocol/payloads.h"
#include "server/storage/storage.h"
#include "wire/error_body.h"

namespace tally::server {
namespace {

// The directory tells who beats without having joined that it is no member: the worker would end.
TEST(ClientNode, BeatsOnlyAfterItHasJoined) {
  RecordingTransport transport;
  ClientNode node(transport, {.rank = 3}, {}, [] {});
  TimePoint now{};
  const auto settle = [&] { node.settle(now += kHeartbeatInterval); };
  settle();
  // Another thread settles just before the message goes.
  transport.on_directory = settle;
  node.join();
  EXPECT_EQ(transport.to_directory, std::vector{MessageKind::kJoin});
  settle();
  settle();
  EXPECT_EQ(transport.to_directory,
            (std::vector{MessageKind::kJoin, MessageKind::kHeartbeat, MessageKind::kHeartbeat}));
}

TEST_F(ClientNodeTest, APushGoesPartByPartToThePrimaries) {
  const TableId table = define(dense);
  const Ticket ticket = node.push({table, 0, 4}, {.clock = 5, .version = 4}, gradient());
  auto sent = transport.take();
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

TEST_F(ClientNodeTest, WhoWaitsIsToldOfARequestOnceItIsDone) {
  const TableId table = define(dense);
  const Ticket ticket = node.push({table, 0, 4}, {}, gradient());
  const auto sent = transport.take();
  ASSERT_EQ(sent.size(), 4U);
  const int before = progress;
  for (std::size_t i = 0; i < 3; ++i) answer(sent[i]);
  EXPECT_EQ(progress, before);
  answer(sent[3]);
  EXPECT_EQ(progress, before + 1);
  EXPECT_TRUE(node.done(ticket));
}

TEST_F(ClientNodeTest, NoMoreIsInFlightThanThereIsRoomFor) {
  dense.count = 20 * kElements;
  const TableId table = define(dense);
  values.resize(dense.count);
  node.push({table, 0, 20}, {}, gradient());
  std::vector<Sent> first = transport.take();
  EXPECT_EQ(first.size(), 6U);  // 3 * 256 KiB and headers fit into 1 MiB, for each of two
  answer(first[0]);
  node.settle({});
  const std::vector<Sent> next = transport.take();
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].to, first[0].to);
}

// Two workers, four gradients per round: the second gradients of this worker must not wait for its
// first.
TEST_F(ClientNodeTest, GradientsThatAreHeldForARoundOfSeveralAreAllInFlight) {
  dense.count = 20 * kElements;
  dense.plan = "update=kbatch:4";
  dense.workers = 2;
  const TableId table = define(dense);
  values.resize(dense.count);
  node.push({table, 0, 20}, {}, gradient());
  node.push({table, 0, 20}, {}, gradient());
  EXPECT_EQ(transport.take().size(), 40U);
  // Additions are not held for a round, so they wait for room in flight.
  node.push({table, 0, 20}, {.kind = PushKind::kAdd}, gradient());
  EXPECT_LT(transport.take().size(), 20U);
}

// The pushes of a measured table are answered after finish(), which needs measure() of all parts.
TEST_F(ClientNodeTest, AMeasuredRoundIsMeasuredWhileItsGradientsAreInFlight) {
  dense.count = 20 * kElements;
  dense.plan = "update=bsp";
  dense.measured = true;
  const TableId table = define(dense);
  values.resize(dense.count);
  node.push({table, 0, 20}, {}, gradient());
  EXPECT_EQ(transport.take().size(), 20U);
  std::vector<Client::Measured> parts(20);
  const Ticket measured = node.measure(table, {}, parts);
  std::vector<Sent> asked = transport.take();
  ASSERT_EQ(asked.size(), 20U);
  for (const Sent& sent : asked) {
    const double kind = sent.header.part == 7 ? kSkipped : kComplete;
    answer(sent, {}, encode(std::vector<double>{kind, 1, 2, 0}));
  }
  EXPECT_TRUE(node.take(measured).has_value());
  EXPECT_EQ(parts[6].gradient_squares, 2);
  EXPECT_FALSE(parts[6].skipped);
  EXPECT_TRUE(parts[7].skipped);
  EXPECT_EQ(parts[7].gradient_squares, 0);
  EXPECT_FALSE(parts[7].finished.has_value());
  const Ticket finished = node.finish(table, {.factor = 0.5}, parts);
  asked = transport.take();
  ASSERT_EQ(asked.size(), 20U);
  for (const Sent& sent : asked) {
    const double kind = sent.header.part == 7 ? kSkipped : kFinished;
    answer(sent, {}, encode(std::vector<double>{kind, 0.25, 3, 4}));
  }
  EXPECT_TRUE(node.take(finished).has_value());
  ASSERT_TRUE(parts[6].finished.has_value());
  EXPECT_EQ(parts[6].finished->factor, 0.25);
  EXPECT_EQ(parts[6].finished->value_norm, 3);
  EXPECT_EQ(parts[6].finished->gradient_norm, 4);
  EXPECT_FALSE(parts[6].finished->discards);
  EXPECT_TRUE(parts[7].skipped);
}

TEST_F(ClientNodeTest, AFinishWithoutTheNumbersOfThePartIsCorrupt) {
  dense.count = 10;
  dense.plan = "update=bsp";
  dense.measured = true;
  const TableId table = define(dense);
  std::vector<Client::Measured> parts(1);
  for (const std::vector<double>& values : std::vector<std::vector<double>>{
           {}, {kFinished, 1, 0}, {kComplete, 1, 2, 0}, {7, 1, 0, 0}, {kFinished, 1, 0, 0, 0}}) {
    const Ticket finished = node.finish(table, {}, parts);
    const std::vector<Sent> asked = transport.take();
    ASSERT_EQ(asked.size(), 1U);
    answer(asked[0], {}, encode(values));
    const auto taken = node.take(finished);
    ASSERT_FALSE(taken.has_value());
    EXPECT_EQ(taken.error().code, ErrorCode::kCorrupt);
  }
  std::vector<Client::Measured> too_many(2);
  EXPECT_EQ(node.take(node.finish(table, {}, too_many)).error().code, ErrorCode::kInvalid);
}

TEST_F(ClientNodeTest, AnswersThatDoNotFitAreNotUsed) {
  dense.count = 10;
  values.assign(10, 1.0F);
  const TableId table = define(dense);
  const Ticket ticket = node.pull({table, 0, 1}, {}, room());
  const Sent sent = transport.take().front();
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
  for (const Sent& sent : transport.take())
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
  const auto sent = transport.take();
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
        node.push({77, 0, 4}, {}, gradient()), node.read_state({table, 0, 4}, 256, room()),
        node.write_state({table, 0, 4}, -1, gradient()),
        node.push(table, {}, std::vector<std::uint64_t>{1}, std::vector<float>{1})}) {
    ASSERT_TRUE(node.done(ticket));
    const auto completion = node.take(ticket);
    ASSERT_FALSE(completion.has_value());
    EXPECT_EQ(completion.error().code, ErrorCode::kInvalid);
  }
  EXPECT_TRUE(transport.take().empty());
}

TEST_F(ClientNodeTest, AKeyThatIsPushedTwiceIsRefused) {
  const TableId table = define({.name = "e", .kind = TableKind::kSparse, .dimension = 1});
  const Ticket ticket =
      node.push(table, {}, std::vector<std::uint64_t>{1, 1, 2}, std::vector<float>{1, 10, 100});
  const auto completion = node.take(ticket);
  ASSERT_FALSE(completion.has_value());
  EXPECT_EQ(completion.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(completion.error().message,
            "key 1 occurs twice in a push to table 'e': add its rows first");
  EXPECT_TRUE(transport.take().empty());
}

TEST_F(ClientNodeTest, APushWithoutARateHasThatOfTheOptimizer) {
  dense.optimizer = sgd({.rate = 0.5});
  const TableId table = define(dense);
  node.push({table, 0, 4}, {}, gradient());
  for (const Sent& one : transport.take()) EXPECT_EQ(one.header.rate, 0.5);
  node.push({table, 0, 4}, {.rate = 0.25}, gradient());
  for (const Sent& one : transport.take()) EXPECT_EQ(one.header.rate, 0.25);
}

TEST_F(ClientNodeTest, AJoinerAgreesInTheRoundThatIsGathered) {
  const std::vector<double> mine = {2};
  const Ticket ticket = node.agree(mine);
  const Sent first = transport.take().front();
  EXPECT_EQ(first.to, 1U);
  EXPECT_EQ(first.header.clock, 1U);
  answer(first, {.outcome = Outcome::kDropped, .version = 57});
  node.settle({});
  const Sent second = transport.take().front();
  EXPECT_EQ(second.header.clock, 57U);
  answer(second, {.version = 57}, encode(std::vector<double>{10}));
  const auto sums = node.take_agree(ticket);
  ASSERT_TRUE(sums.has_value());
  EXPECT_EQ(*sums, std::vector<double>{10});
  node.agree(mine);
  EXPECT_EQ(transport.take().front().header.clock, 58U);
}

TEST_F(ClientNodeTest, TheCrewIsThatOfTheView) {
  View view = view_of(2, {{1, 2}, {2, 1}});
  view.workers.insert(view.workers.begin(), {.id = 5, .rank = 7});
  show(view);
  EXPECT_EQ(node.membership().workers, 2);
  EXPECT_EQ(node.membership().lowest_rank, 3);
}

TEST_F(ClientNodeTest, AClosedRoundIsKnownAtOnce) {
  const TableId table = define(dense);
  node.on_message(1, {.header = {.kind = MessageKind::kClosed, .table = table, .version = 12}});
  EXPECT_EQ(node.newest_version(table), 12U);
}

}  // namespace
}  // namespace tally::server
