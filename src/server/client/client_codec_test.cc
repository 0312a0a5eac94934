// A worker that encodes its gradients.
#include <gmock/gmock.h>

#include "server/client/client_node_test_support.h"

namespace tally::server {
namespace {

using testing::Each;
using testing::HasSubstr;

std::vector<std::byte> raw_bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

std::vector<std::byte> bytes_copy(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

class ClientCodecTest : public ClientNodeTest {
 protected:
  void SetUp() override {
    ClientNodeTest::SetUp();
    dense.codec = "sign";
    dense.plan = "update=bsp";
  }
  std::vector<std::vector<std::byte>> owned = {raw_bytes({1}), raw_bytes({2, 2}),
                                               raw_bytes({3, 3, 3}), raw_bytes({4})};
  std::vector<std::span<const std::byte>> messages{owned.begin(), owned.end()};
};

TEST_F(ClientCodecTest, EachPartGetsItsMessageAndGivesItsAverageOrItsValues) {
  const TableId table = define(dense);
  EXPECT_TRUE(node.keeps_residual(table));
  std::vector<Client::Average> averages(4);
  values.assign(values.size(), 5.0F);
  const Ticket ticket =
      node.push_average({.table = table, .first = 0, .count = 4}, {.clock = 8, .version = 7},
                        {.least_version = 8}, messages, room(), averages);
  const std::vector<Sent> sent = transport.take();
  ASSERT_EQ(sent.size(), 4U);
  for (const Sent& one : sent) {
    EXPECT_EQ(one.header.kind, MessageKind::kPushAverage);
    EXPECT_EQ(one.header.version, 7U);
    EXPECT_EQ(one.header.least_version, 8U);
    EXPECT_EQ(bytes_copy(one.payload), owned[one.header.part]);
    // The client does not copy an average into the values, even if it has the same length.
    MessageHeader header{.kind = MessageKind::kAnswer,
                         .table = table,
                         .part = one.header.part,
                         .sequence = one.header.sequence};
    header.payload_bytes =
        static_cast<std::uint32_t>(one.header.part < 3 ? kPartBytes : 10 * sizeof(float));
    EXPECT_EQ(node.place(one.to, header).size(), header.payload_bytes);
    header.push_kind = kAverage;
    EXPECT_TRUE(node.place(one.to, header).empty());
    if (one.header.part == 1) {
      const std::vector<float> part(kElements, 9.0F);
      answer(one, {.version = 8}, std::as_bytes(std::span(part)));
    } else {
      answer(one, {.push_kind = kAverage, .version = 8}, owned[3 - one.header.part]);
    }
  }
  const auto completion = node.take(ticket);
  ASSERT_TRUE(completion.has_value()) << completion.error().message;
  EXPECT_EQ(completion->applied, 4U);
  EXPECT_EQ(completion->version, 8U);
  for (const std::size_t part : {0U, 2U, 3U}) {
    EXPECT_TRUE(averages[part].is_average);
    EXPECT_EQ(averages[part].bytes, owned[3 - part]);
  }
  EXPECT_FALSE(averages[1].is_average);
  const std::span<const float> all = values;
  EXPECT_THAT(all.first(kElements), Each(5.0F));
  EXPECT_THAT(all.subspan(kElements, kElements), Each(9.0F));
  EXPECT_THAT(all.subspan(2 * kElements), Each(5.0F));
}

// A retry is the same message, and only its answer counts.
TEST_F(ClientCodecTest, WhatALostServerHadIsSentToItsSuccessor) {
  const TableId table = define(dense);
  std::vector<Client::Average> averages(1);
  const Client::PartRange first{.table = table, .first = 0, .count = 1};
  const std::span<std::byte> part = room().first(kPartBytes);
  const Ticket ticket = node.push_average(first, {.clock = 1}, {.least_version = 1},
                                          Client::Messages(messages).first(1), part, averages);
  const Sent before = transport.take().at(0);
  const NodeId other = 3 - before.to;
  show(view_of(2, {{other}, {other}}));
  const std::vector<Sent> again = transport.take();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].to, other);
  EXPECT_EQ(again[0].header.sequence, before.header.sequence);
  EXPECT_EQ(bytes_copy(again[0].payload), owned[0]);
  // An answer to the first copy comes too late.
  answer(before, {.push_kind = kAverage, .version = 1}, owned[1]);
  EXPECT_FALSE(node.done(ticket));
  const std::vector<float> fresh(kElements, 2.0F);
  answer(again[0], {.version = 1}, std::as_bytes(std::span(fresh)));
  ASSERT_TRUE(node.take(ticket).has_value());
  EXPECT_FALSE(averages[0].is_average);
  EXPECT_THAT(std::span<const float>(values).first(kElements), Each(2.0F));
}

TEST_F(ClientCodecTest, AnAverageThatNobodyAskedForIsCorrupt) {
  const TableId table = define(dense);
  const Ticket ticket =
      node.push_average({.table = table, .first = 0, .count = 1}, {}, {},
                        Client::Messages(messages).first(1), room().first(kPartBytes), {});
  answer(transport.take().at(0), {.push_kind = kAverage}, owned[0]);
  const auto done = node.take(ticket);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::kCorrupt);
}

TEST_F(ClientCodecTest, WhatCannotBeAskedSaysWhy) {
  const TableId coded = define(dense);
  dense.name = "plain";
  dense.codec.clear();
  const TableId plain = define(dense);
  const auto why = [&](Ticket ticket) { return node.take(ticket).error().message; };
  EXPECT_THAT(why(node.push({.table = coded, .first = 0, .count = 4}, {}, gradient())),
              HasSubstr("are encoded"));
  EXPECT_THAT(why(node.push_encoded({.table = plain, .first = 0, .count = 4}, {}, messages)),
              HasSubstr("are not encoded"));
  EXPECT_THAT(why(node.push_encoded({.table = coded, .first = 0, .count = 3}, {}, messages)),
              HasSubstr("4 messages and 0 averages for 3 parts"));
  EXPECT_THAT(why(node.push_encoded({.table = coded, .first = 1, .count = 4}, {}, messages)),
              HasSubstr("parts 1 to 5"));
  EXPECT_THAT(why(node.push_encoded({.table = coded, .first = 0, .count = 4},
                                    {.kind = PushKind::kAssign}, messages)),
              HasSubstr("additions and assignments are values"));
  EXPECT_FALSE(node.keeps_residual(plain));
}

}  // namespace
}  // namespace tally::server
