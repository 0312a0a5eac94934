#include "group/watch_message.h"

#include <gtest/gtest.h>

#include "wire/frame.h"

namespace tally::group {
namespace {

TEST(WatchMessage, ComesOutOfABufferHoweverItIsCut) {
  const auto first =
      encode(message_of(WatchKind::kRegister, Registration{.job = "j", .rank = 2, .size = 3}));
  const auto second = encode({WatchKind::kAskStatus, {}});
  wire::Writer both;
  both.bytes(first);
  both.bytes(second);
  const std::vector<std::byte> bytes = both.take();
  for (const std::size_t piece : {1U, 7U, 80U, 81U, 1000U}) {
    MessageBuffer buffer;
    std::vector<WatchMessage> messages;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      buffer.add(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
      for (auto next = buffer.next(); next->has_value(); next = buffer.next())
        messages.push_back(**next);
    }
    ASSERT_EQ(messages.size(), 2U) << piece;
    EXPECT_EQ(body_of(messages[0], &read_registration)->rank, 2);
    EXPECT_EQ(messages[1].kind, WatchKind::kAskStatus);
  }
}

TEST(WatchMessage, GarbageIsCorruptAsSoonAsItCanBeSeen) {
  MessageBuffer buffer;
  const std::string text =
      "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a scanner that means no harm at all\r\n";
  buffer.add(std::as_bytes(std::span(text)));
  const auto next = buffer.next();
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().code, ErrorCode::kCorrupt);
}

// A header that announces more than a frame may have is refused before anything is kept for it.
TEST(WatchMessage, OversizeLengthIsCorrupt) {
  auto header = wire::encode({.kind = wire::FrameKind::kControl,
                              .message_bytes = wire::kMaxPayloadBytes + 1,
                              .payload_bytes = wire::kMaxPayloadBytes + 1});
  MessageBuffer buffer;
  buffer.add(header);
  EXPECT_FALSE(buffer.next().has_value());
}

TEST(WatchMessage, OtherFramesAndUnknownKindsAreCorrupt) {
  MessageBuffer data;
  data.add(wire::encode({.kind = wire::FrameKind::kData, .message_bytes = 1, .payload_bytes = 1}));
  EXPECT_FALSE(data.next().has_value());
  MessageBuffer unknown;
  unknown.add(encode({static_cast<WatchKind>(99), {}}));
  EXPECT_FALSE(unknown.next().has_value());
}

TEST(WatchMessage, WhatFollowsABodyIsCorrupt) {
  WatchMessage message = message_of(
      WatchKind::kPulse, Pulse{.echo = TimePoint(1), .now = TimePoint(2), .machine = "m"});
  EXPECT_TRUE(body_of(message, &read_pulse).has_value());
  message.body.push_back(std::byte{0});
  EXPECT_FALSE(body_of(message, &read_pulse).has_value());
}

TEST(WatchMessage, StatusComesBackAsItWasWritten) {
  MemberStatus member{.rank = 1,
                      .presence = Presence::kUnreachable,
                      .host = "b",
                      .pid = 4711,
                      .fate = "f",
                      .silence = Duration(5),
                      .samples_per_second = 12.5,
                      .report = Report{.rank = 1, .step = 9}};
  const auto read = body_of(message_of(WatchKind::kMember, member), &read_member_status);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->presence, Presence::kUnreachable);
  EXPECT_EQ(read->silence, Duration(5));
  EXPECT_EQ(read->samples_per_second, 12.5);
  EXPECT_EQ(read->report->step, 9U);
  const auto job = body_of(message_of(WatchKind::kJob, JobStatus{.job = "digits",
                                                                 .generation = 3,
                                                                 .size = 4,
                                                                 .address = "a:1",
                                                                 .uptime = Duration(7),
                                                                 .stall = "s",
                                                                 .members = {}}),
                           &read_job_status);
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->job, "digits");
  EXPECT_EQ(job->stall, "s");
  const auto lost =
      body_of(message_of(WatchKind::kLost, LostRanks{.generation = 2, .ranks = {1, 3}, .why = "w"}),
              &read_lost_ranks);
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->ranks, (std::vector<Rank>{1, 3}));
}

}  // namespace
}  // namespace tally::group
