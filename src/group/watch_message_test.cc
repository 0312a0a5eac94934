#include "group/watch_message.h"

#include <gtest/gtest.h>

namespace tally::group {
namespace {

TEST(WatchMessage, WhatFollowsABodyIsCorrupt) {
  ControlMessage message = message_of(
      ControlKind::kPulse, Pulse{.echo = TimePoint(1), .now = TimePoint(2), .machine = "m"});
  EXPECT_TRUE(body_of<Pulse>(message).has_value());
  message.body.push_back(std::byte{0});
  EXPECT_FALSE(body_of<Pulse>(message).has_value());
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
  const auto read = body_of<MemberStatus>(message_of(ControlKind::kMember, member));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->presence, Presence::kUnreachable);
  EXPECT_EQ(read->silence, Duration(5));
  EXPECT_EQ(read->samples_per_second, 12.5);
  EXPECT_EQ(read->report->step, 9U);
  const auto job = body_of<JobStatus>(message_of(ControlKind::kJob, JobStatus{.job = "digits",
                                                                              .generation = 3,
                                                                              .size = 4,
                                                                              .address = "a:1",
                                                                              .uptime = Duration(7),
                                                                              .stall = "s",
                                                                              .members = {}}));
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->job, "digits");
  EXPECT_EQ(job->stall, "s");
  const auto lost = body_of<LostRanks>(
      message_of(ControlKind::kLost, LostRanks{.generation = 2, .ranks = {1, 3}, .why = "w"}));
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->ranks, (std::vector<Rank>{1, 3}));
}

}  // namespace
}  // namespace tally::group
