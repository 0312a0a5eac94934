#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/client/client_node_test_support.h"
#include "server/protocol/payloads.h"
#include "wire/error_body.h"

// A worker that loses links, servers, parts and the directory.

namespace tally::server {
namespace {

using ClientLosses = ClientNodeTest;

TEST_F(ClientLosses, WhatALostLinkHadIsSentAgainInOrder) {
  const TableId table = define(dense);
  node.push({table, 0, 4}, {}, gradient());
  node.push({table, 0, 4}, {}, gradient());
  std::vector<std::uint64_t> numbers;
  for (const Sent& sent : transport.take()) {
    if (sent.to == 1) numbers.push_back(sent.header.sequence);
  }
  node.on_lost(1, {});
  node.settle({});
  EXPECT_TRUE(transport.take().empty());
  node.on_linked(1);
  std::vector<std::uint64_t> again;
  for (const Sent& sent : transport.take()) again.push_back(sent.header.sequence);
  EXPECT_EQ(again, numbers);
}

// The first copy may be answered while the retry is in flight. The caller may then reuse its
// memory, so the retry must not refer to it.
TEST_F(ClientLosses, WhatIsSentAgainIsNotReadFromTheCallersMemory) {
  dense.count = 10;
  values.assign(10, 2.5F);
  const TableId table = define(dense);
  node.push({table, 0, 1}, {}, gradient());
  const Sent first = transport.take().front();
  EXPECT_EQ(first.payload.data(), gradient().data());
  node.on_lost(first.to, {});
  node.on_linked(first.to);
  const std::vector<Sent> again = transport.take();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_NE(again[0].payload.data(), gradient().data());
  EXPECT_TRUE(std::equal(again[0].payload.begin(), again[0].payload.end(), gradient().begin(),
                         gradient().end()));
}

TEST_F(ClientLosses, ANewViewMovesWhatIsUnansweredToTheNextInTheChain) {
  const TableId table = define(dense);
  const Ticket ticket = node.push({table, 0, 4}, {}, gradient());
  std::vector<Sent> before = transport.take();
  for (const Sent& sent : before) {
    if (sent.to == 2) answer(sent);
  }
  node.on_lost(1, {});
  show(view_of(2, {{2}, {2}}));
  EXPECT_EQ(transport.dropped, std::vector<NodeId>{1});
  const std::vector<Sent> after = transport.take();
  ASSERT_EQ(after.size(), 2U);
  for (const Sent& sent : after) {
    EXPECT_EQ(sent.to, 2U);
    EXPECT_EQ(sent.header.view, 2U);
    answer(sent);
  }
  EXPECT_TRUE(node.take(ticket).has_value());
}

TEST_F(ClientLosses, WhatIsElsewhereWaitsForANewerViewAndHoldsBackWhatFollowsOnThatPart) {
  dense.count = 10;
  const TableId table = define(dense);
  values.resize(10);
  node.push({table, 0, 1}, {}, gradient());
  const Sent first = transport.take().front();
  answer(first, {.outcome = Outcome::kNotPrimary, .view = 2});
  node.push({table, 0, 1}, {}, gradient());
  node.settle({});
  EXPECT_TRUE(transport.take().empty());
  show(view_of(3, {{1, 2}, {2, 1}}));
  const std::vector<Sent> after = transport.take();
  ASSERT_EQ(after.size(), 2U);
  EXPECT_EQ(after[0].header.sequence, first.header.sequence);
  EXPECT_GT(after[1].header.sequence, first.header.sequence);
}

TEST_F(ClientLosses, LossOfAllCopiesSaysWhatWasLostWithWhom) {
  const TableId table = define(dense);
  const Ticket ticket = node.pull({table, 0, 4}, {}, room());
  std::uint32_t lost_slot = 0;
  for (const Sent& sent : transport.take()) {
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
  EXPECT_EQ(completion.error().message,
            "servers 1, 2 are gone and had the only copies of " + parts + " of table 'w'");
}

TEST_F(ClientLosses, AnAnswerThatNamesASnapshotIsPassedOn) {
  dense.count = 10;
  values.resize(10);
  const TableId table = define(dense);
  const Ticket ticket = node.push({table, 0, 1}, {}, gradient());
  const auto name = encode_text("step-7");
  answer(transport.take().front(), {.outcome = Outcome::kLost}, name);
  const auto completion = node.take(ticket);
  ASSERT_FALSE(completion.has_value());
  EXPECT_NE(completion.error().message.find("step-7"), std::string::npos);
}

TEST_F(ClientLosses, AnAgreementIsRepeatedToANewPrimaryBeforeTheNext) {
  const Ticket done = node.agree(std::vector<double>{2});
  answer(transport.take().front(), {.version = 1}, encode(std::vector<double>{3}));
  ASSERT_TRUE(node.take_agree(done).has_value());
  node.agree(std::vector<double>{4});
  transport.take();
  show(view_of(2, {{2}, {2}}));
  const auto again = transport.take();
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].header.clock, 1U);
  EXPECT_EQ(*decode_values(again[0].payload), std::vector<double>{2});
  EXPECT_EQ(again[1].header.clock, 2U);
  answer(again[0], {.version = 1}, encode(std::vector<double>{3}));
}

TEST_F(ClientLosses, SizesAreAskedForAgainWhenAServerIsLost) {
  const TableId table = define(dense);
  const Ticket ticket = node.size(table);
  for (const Sent& sent : transport.take()) {
    if (sent.to == 2) answer(sent, {}, encode(Client::Size{.elements = 1}));
  }
  show(view_of(2, {{2}, {2}}));
  const auto again = transport.take();
  ASSERT_EQ(again.size(), 1U);
  answer(again[0], {}, encode(Client::Size{.elements = 3}));
  const auto size = node.take_size(ticket);
  ASSERT_TRUE(size.has_value());
  EXPECT_EQ(size->elements, 3U);
}

TEST_F(ClientLosses, AnAbandonedRequestLeavesNoLinkThatKnowsItsMemory) {
  dense.count = 10;
  values.resize(10);
  const TableId table = define(dense);
  const Ticket ticket = node.pull({table, 0, 1}, {}, room());
  const Sent sent = transport.take().front();
  transport.connected_to.clear();
  node.abandon(ticket);
  EXPECT_EQ(transport.dropped, std::vector<NodeId>{sent.to});
  EXPECT_EQ(transport.connected_to, std::vector<NodeId>{sent.to});
  answer(sent, {}, std::vector<std::byte>(40));
  EXPECT_FALSE(node.take(ticket).has_value());
}

TEST_F(ClientLosses, NothingOfAnAbandonedRequestIsSentWhileItsLinksEnd) {
  dense.count = 2 * kElements;
  values.resize(dense.count);
  const TableId table = define(dense);
  node.on_lost(2, {});
  const Ticket ticket = node.pull({table, 0, 2}, {}, room());
  ASSERT_EQ(transport.take().size(), 1U);
  // During the drop, requests that wait for server 2 could be sent, and those of server 1 could
  // move to server 2.
  transport.on_drop = [this] {
    node.on_linked(2);
    node.on_lost(1, {});
    transport.on_drop = {};
    show(view_of(2, {{2}, {2}}));
    node.settle({});
  };
  node.abandon(ticket);
  EXPECT_TRUE(transport.take().empty());
}

std::set<const std::byte*> payloads_of(const std::vector<Sent>& sent) {
  std::set<const std::byte*> found;
  for (const Sent& one : sent) found.insert(one.payload.data());
  return found;
}

// A server on the same host that has not noticed the end of a link still reads the shared memory.
TEST_F(ClientLosses, MemoryThatAServerMayBeAtIsNotUsedForAnythingElse) {
  const TableId table = define({.name = "e", .kind = TableKind::kSparse, .dimension = 2});
  const std::vector<std::uint64_t> keys = {5, 99, 7, 1000};
  const std::vector<float> rows(8);
  const Ticket late = node.push(table, {}, keys, rows);
  const Ticket later = node.push(table, {}, keys, rows);
  const auto before = payloads_of(transport.take());
  transport.stands_still = true;
  node.abandon(late);
  EXPECT_TRUE(node.awaits_release());
  // Its links have already ended, and it was not sent on a live link.
  node.abandon(later);
  node.on_linked(1);
  node.on_linked(2);
  node.push(table, {}, keys, rows);
  for (const std::byte* const payload : payloads_of(transport.take()))
    EXPECT_EQ(before.count(payload), 0U);
  for (const auto& released : std::exchange(transport.unreleased, {})) released();
  EXPECT_FALSE(node.awaits_release());
  node.push(table, {}, keys, rows);
  for (const std::byte* const payload : payloads_of(transport.take()))
    EXPECT_EQ(before.count(payload), 1U);
}

TEST_F(ClientLosses, AServerThatWasGivenUpCanAnswerWithoutEffect) {
  const TableId table = define({.name = "e", .kind = TableKind::kSparse, .dimension = 2});
  const std::vector<std::uint64_t> keys = {5, 99, 7, 1000};
  std::vector<float> rows(8);
  const Ticket ticket = node.pull(table, {}, keys, rows);
  const std::vector<Sent> before = transport.take();
  std::map<std::uint64_t, std::vector<float>> right;
  for (const Sent& sent : before)
    right[sent.header.sequence] = std::vector<float>(sent.reply.size() / sizeof(float), 1);
  const auto answer_rightly = [&](const Sent& sent) {
    answer(sent, {}, std::as_bytes(std::span(right[sent.header.sequence])));
  };
  for (const Sent& sent : before) {
    if (sent.to == 2) answer_rightly(sent);
  }
  transport.stands_still = true;
  show(view_of(2, {{2}, {2}}));
  for (const Sent& sent : transport.take()) answer_rightly(sent);
  for (const Sent& sent : before) {
    if (sent.to == 1) std::fill(sent.reply.begin(), sent.reply.end(), std::byte{0xFF});
  }
  ASSERT_TRUE(node.take(ticket).has_value());
  EXPECT_EQ(rows, std::vector<float>(8, 1));
  // Later requests do not reuse memory that the server may still write.
  node.pull(table, {}, keys, rows);
  const auto known = payloads_of(before);
  for (const Sent& sent : transport.take()) EXPECT_EQ(known.count(sent.payload.data()), 0U);
}

TEST_F(ClientLosses, ASnapshotIsPublishedByThoseWhoWroteIt) {
  const Ticket ticket = node.snapshot("s");
  const std::vector<Sent> asked = transport.take();
  ASSERT_EQ(asked.size(), 2U);
  View view = view_of(2, {{1, 2}, {2, 1}});
  view.servers.push_back({.id = 7, .address = "127.0.0.1:1"});
  show(view);
  node.on_linked(7);
  for (const Sent& sent : asked) {
    const SnapshotFile file{.name = fmt::format("server-{}-00000.safetensors", sent.to)};
    answer(sent, {}, encode(std::span(&file, 1)));
  }
  node.settle({});
  std::vector<NodeId> told;
  for (const Sent& sent : transport.take()) {
    told.push_back(sent.to);
    answer(sent, {}, encode_text("/snapshots/s"));
  }
  EXPECT_EQ(told, (std::vector<NodeId>{1, 2}));
  const auto path = node.take_snapshot(ticket);
  ASSERT_TRUE(path.has_value()) << path.error().message;
}

TEST_F(ClientLosses, ASnapshotWhoseWriterIsGoneIsToBeAskedForAgain) {
  const Ticket ticket = node.snapshot("s");
  const std::vector<Sent> asked = transport.take();
  const auto wrote = [&](const Sent& sent) {
    const SnapshotFile file{.name = fmt::format("server-{}-00000.safetensors", sent.to)};
    answer(sent, {}, encode(std::span(&file, 1)));
  };
  for (const Sent& sent : asked) {
    if (sent.to == 1) wrote(sent);
  }
  show(view_of(2, {{2}, {2}}));
  for (const Sent& sent : asked) {
    if (sent.to == 2) wrote(sent);
  }
  node.settle({});
  for (const Sent& sent : transport.take()) answer(sent, {}, encode_text("/snapshots/s"));
  ASSERT_TRUE(node.done(ticket));
  const auto path = node.take_snapshot(ticket);
  ASSERT_FALSE(path.has_value());
  EXPECT_EQ(path.error().code, ErrorCode::kPeerLost);
}

TEST_F(ClientLosses, ASnapshotThatOneCannotWriteIsDroppedByTheOthers) {
  const Ticket ticket = node.snapshot("s");
  for (const Sent& sent : transport.take()) {
    const SnapshotFile file{.name = fmt::format("server-{}-00000.safetensors", sent.to)};
    if (sent.to == 2)
      answer(sent, {}, encode(std::span(&file, 1)));
    else
      answer(sent, {.outcome = Outcome::kRefused},
             wire::encode_error({.code = ErrorCode::kSystem, .message = "no space left"}));
  }
  node.settle({});
  const std::vector<Sent> told = transport.take();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].to, 2U);
  EXPECT_EQ(told[0].header.push_kind, kDropSnapshot);
  EXPECT_EQ(decode_text(told[0].payload).value(), "s");
  EXPECT_FALSE(node.done(ticket));
  answer(told[0]);
  ASSERT_TRUE(node.done(ticket));
  EXPECT_EQ(node.take_snapshot(ticket).error().message, "no space left");
}

TEST_F(ClientLosses, ASnapshotThatOneCannotPublishIsDroppedByAll) {
  const Ticket ticket = node.snapshot("s");
  for (const Sent& sent : transport.take()) {
    const SnapshotFile file{.name = fmt::format("server-{}-00000.safetensors", sent.to)};
    answer(sent, {}, encode(std::span(&file, 1)));
  }
  node.settle({});
  for (const Sent& sent : transport.take())
    answer(sent, {.outcome = Outcome::kRefused},
           wire::encode_error({.code = ErrorCode::kSystem, .message = "no space left"}));
  node.settle({});
  const std::vector<Sent> told = transport.take();
  ASSERT_EQ(told.size(), 2U);
  for (const Sent& sent : told) {
    EXPECT_EQ(sent.header.push_kind, kDropSnapshot);
    EXPECT_EQ(decode_text(sent.payload).value(), "s");
    answer(sent);
  }
  ASSERT_TRUE(node.done(ticket));
  EXPECT_EQ(node.take_snapshot(ticket).error().message, "no space left");
}

// No server is left to ask.
TEST_F(ClientLosses, ASnapshotWhoseWritersAreGoneEnds) {
  const Ticket ticket = node.snapshot("s");
  for (const Sent& sent : transport.take()) {
    const SnapshotFile file{.name = fmt::format("server-{}-00000.safetensors", sent.to)};
    if (sent.to == 1) answer(sent, {}, encode(std::span(&file, 1)));
  }
  View nobody = view_of(2, {{}, {}});
  show(nobody);
  node.settle({});
  EXPECT_TRUE(transport.take().empty());
  ASSERT_TRUE(node.done(ticket));
  EXPECT_EQ(node.take_snapshot(ticket).error().code, ErrorCode::kPeerLost);
}

TEST_F(ClientLosses, WithoutTheDirectoryEverythingEnds) {
  const TableId table = define(dense);
  const Ticket ticket = node.push({table, 0, 4}, {}, gradient());
  node.on_lost(kDirectoryId, {.code = ErrorCode::kPeerLost, .message = "connection closed"});
  EXPECT_EQ(transport.dropped, (std::vector<NodeId>{1, 2}));
  for (const Ticket one : {ticket, node.push({table, 0, 4}, {}, gradient())}) {
    ASSERT_TRUE(node.done(one));
    const auto completion = node.take(one);
    ASSERT_FALSE(completion.has_value());
    EXPECT_EQ(completion.error().code, ErrorCode::kPeerLost);
  }
}

TEST_F(ClientLosses, AWorkerThatWasGivenUpIsTold) {
  View view = view_of(2, {{1, 2}, {2, 1}});
  view.workers[0].id = 4;
  show(view);
  const Ticket ticket = node.agree(std::vector<double>{1});
  ASSERT_TRUE(node.done(ticket));
  EXPECT_FALSE(node.take_agree(ticket).has_value());
}

TEST(ClientJoining, WhoIsNotLetInHearsWhy) {
  RecordingTransport transport;
  ClientNode node(transport, {}, {}, [] {});
  node.join();
  const auto why = wire::encode_error({.code = ErrorCode::kRefused, .message = "too many"});
  node.on_message(kDirectoryId, {.header = {.outcome = Outcome::kRefused}, .payload = why});
  EXPECT_FALSE(node.joined());
  ASSERT_TRUE(node.closed().has_value());
  EXPECT_EQ(node.closed()->code, ErrorCode::kRefused);
}

}  // namespace
}  // namespace tally::server
