#include "sim/sim_transport.h"

#include <gtest/gtest.h>

#include "sim/inbox_test_support.h"

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

// One thread plays both ranks; waiting advances virtual time.
class SimTransportTest : public ::testing::Test {
 protected:
  static Conditions conditions() {
    return {
        .link = {.latency = 10us, .bytes_per_second = 1e9}, .window_bytes = 100, .frame_bytes = 40};
  }

  void settle() {
    for (bool moved = true; moved;) {
      const TimePoint before = network_.clock().now();
      moved = one_.progress(inbox_one_);
      moved = two_.progress(inbox_two_) || moved;
      if (!moved) one_.wait(Deadline::never());
      moved = moved || network_.clock().now() > before;
    }
  }

  Network network_{2, 1, conditions()};
  SimTransport one_{network_, 0};
  SimTransport two_{network_, 1};
  Inbox inbox_one_;
  Inbox inbox_two_;
};

TEST_F(SimTransportTest, CutsMessagesIntoFramesAndKeepsTheirOrder) {
  TextMessage first(std::string(90, 'a'), 1);
  TextMessage second("", 2);
  TextMessage third("end", 3);
  for (TextMessage* message : {&first, &second, &third}) one_.post(1, message->outgoing());
  settle();
  ASSERT_EQ(inbox_two_.arrivals.size(), 5U);
  const std::size_t offsets[] = {0, 40, 80, 0, 0};
  const std::uint32_t steps[] = {1, 1, 1, 2, 3};
  const std::size_t sizes[] = {40, 40, 10, 0, 3};
  for (std::size_t i = 0; i < 5; ++i) {
    const auto& arrival = inbox_two_.arrivals[i];
    EXPECT_EQ(arrival.from, 0);
    EXPECT_EQ(arrival.header.number, i);
    EXPECT_EQ(arrival.header.step, steps[i]);
    EXPECT_EQ(arrival.header.offset_bytes, offsets[i]);
    EXPECT_EQ(arrival.text.size(), sizes[i]);
  }
  EXPECT_EQ(inbox_two_.arrivals[0].header.message_bytes, 90U);
  EXPECT_EQ(inbox_two_.arrivals[4].text, "end");
  EXPECT_TRUE(first.sent() && second.sent() && third.sent());
  EXPECT_EQ(one_.counters().frames_sent, 5U);
  EXPECT_EQ(one_.counters().payload_bytes_sent, 93U);
  EXPECT_EQ(two_.counters().frames_received, 5U);
  EXPECT_EQ(two_.counters().payload_bytes_received, 93U);
}

TEST_F(SimTransportTest, TakesLatencyAndTransferTime) {
  TextMessage message(std::string(40, 'a'));
  one_.post(1, message.outgoing());
  while (inbox_two_.arrivals.empty()) {
    two_.progress(inbox_two_);
    if (inbox_two_.arrivals.empty()) two_.wait(Deadline::never());
  }
  EXPECT_EQ(network_.clock().now(), 10us + 120ns);  // 40 + 80 header bytes at 1 byte per ns
}

TEST_F(SimTransportTest, SendsPayloadsWithoutMemory) {
  net::Outgoing message;
  message.payload = {static_cast<const std::byte*>(nullptr), 70};
  one_.post(1, message);
  settle();
  ASSERT_EQ(inbox_two_.arrivals.size(), 2U);
  EXPECT_EQ(inbox_two_.arrivals[1].header.payload_bytes, 30U);
  EXPECT_EQ(two_.counters().payload_bytes_received, 70U);
}

TEST_F(SimTransportTest, WritesToThePlaceThatTheReceiverGives) {
  inbox_two_.places.resize(40);
  TextMessage message("right there");
  one_.post(1, message.outgoing());
  settle();
  ASSERT_EQ(inbox_two_.arrivals.size(), 1U);
  EXPECT_EQ(inbox_two_.arrivals[0].text, "right there");
  EXPECT_EQ(static_cast<char>(inbox_two_.places[0]), 'r');
}

TEST_F(SimTransportTest, StopsSendingWhileTheReceiverHolds) {
  inbox_two_.hold = true;
  TextMessage message(std::string(1000, 'a'));
  one_.post(1, message.outgoing());
  settle();
  EXPECT_FALSE(message.sent());
  EXPECT_LE(one_.counters().payload_bytes_sent, 100U);
  inbox_two_.hold = false;
  settle();
  EXPECT_TRUE(message.sent());
  EXPECT_EQ(inbox_two_.arrivals.size(), 25U);
}

TEST_F(SimTransportTest, SendsNoMoreOfAWithdrawnMessage) {
  inbox_two_.hold = true;
  TextMessage withdrawn(std::string(1000, 'a'), 1);
  TextMessage next("next", 2);
  one_.post(1, withdrawn.outgoing());
  one_.post(1, next.outgoing());
  settle();
  one_.withdraw(1, withdrawn.outgoing());
  inbox_two_.hold = false;
  settle();
  EXPECT_EQ(inbox_two_.arrivals.size(), 3U);
  EXPECT_EQ(inbox_two_.arrivals.back().text, "next");
}

TEST_F(SimTransportTest, SaysGoodbyeAfterEverythingElse) {
  TextMessage message(std::string(90, 'a'));
  one_.post(1, message.outgoing());
  one_.close();
  settle();
  EXPECT_EQ(inbox_two_.arrivals.size(), 3U);
  EXPECT_EQ(inbox_two_.departed, std::vector<Rank>{0});
  EXPECT_TRUE(inbox_two_.losses.empty());
  TextMessage late(std::string(1000, 'a'));
  two_.post(0, late.outgoing());
  EXPECT_TRUE(late.sent());
}

TEST_F(SimTransportTest, IsLostWhenItEndsWithoutGoodbye) {
  {
    Network network(2, 1, conditions());
    SimTransport survivor(network, 1);
    TextMessage last("last words");
    {
      SimTransport victim(network, 0);
      victim.post(1, last.outgoing());
    }
    Inbox inbox;
    while (inbox.losses.empty()) {
      survivor.progress(inbox);
      survivor.wait(Deadline::at(1s));
    }
    ASSERT_EQ(inbox.arrivals.size(), 1U);
    EXPECT_EQ(inbox.arrivals[0].text, "last words");
    EXPECT_EQ(inbox.losses.count(0), 1U);
    EXPECT_EQ(inbox.losses.find(0)->second.code, ErrorCode::kPeerLost);
    EXPECT_EQ(inbox.losses.find(0)->second.peer, 0);
    TextMessage late("too late");
    survivor.post(0, late.outgoing());
    EXPECT_TRUE(late.sent());
  }
}

TEST_F(SimTransportTest, DropsFramesOfAnotherGeneration) {
  SimTransport newer(network_, 1, 7);
  TextMessage message("of generation 0");
  one_.post(1, message.outgoing());
  newer.wait(Deadline::never());
  EXPECT_TRUE(newer.progress(inbox_two_));
  EXPECT_TRUE(inbox_two_.arrivals.empty());
  EXPECT_EQ(newer.counters().stale_frames, 1U);
  newer.close();
}

TEST_F(SimTransportTest, SleepsToItsDeadlineInVirtualTime) {
  while (network_.clock().now() < 3s) one_.wait(Deadline::at(3s));
  EXPECT_EQ(network_.clock().now(), 3s);
  one_.wait(Deadline::at(2s));
  EXPECT_EQ(network_.clock().now(), 3s);
}

TEST_F(SimTransportTest, SleepsWhileAFrameIsHeld) {
  inbox_two_.hold = true;
  TextMessage message("held");
  one_.post(1, message.outgoing());
  settle();
  two_.progress(inbox_two_);
  const TimePoint before = network_.clock().now();
  two_.wait(Deadline::at(before + 100us));
  EXPECT_EQ(network_.clock().now(), before + 100us);
}

TEST_F(SimTransportTest, WakesFromASleepThatWouldNotEnd) {
  one_.wake();
  one_.wait(Deadline::at(3h));
  EXPECT_EQ(network_.clock().now(), 0ns);
}

TEST_F(SimTransportTest, PassesTimeForAThreadThatOnlyPolls) {
  TextMessage message("found by polling");
  one_.post(1, message.outgoing());
  int looks = 0;
  while (inbox_two_.arrivals.empty() && ++looks < 10000) two_.progress(inbox_two_);
  EXPECT_EQ(inbox_two_.arrivals.size(), 1U);
}

}  // namespace
}  // namespace tally::sim
