#include "server/node/jobs.h"

#include <gtest/gtest.h>

namespace tally::server {
namespace {

TEST(JobHistory, AJobIsBegunOnceAndItsAnswerIsKept) {
  JobHistory metadata;
  EXPECT_TRUE(metadata.ask(5, 10).is_new);
  JobHistory::Standing again = metadata.ask(5, 10);
  EXPECT_FALSE(again.is_new);
  EXPECT_FALSE(again.answer.has_value());
  EXPECT_TRUE(metadata.ask(6, 10).is_new);
  metadata.finish(5, 10, {.outcome = Outcome::kRefused, .payload = std::vector<std::byte>(3)});
  again = metadata.ask(5, 10);
  EXPECT_FALSE(again.is_new);
  ASSERT_TRUE(again.answer.has_value());
  EXPECT_EQ(again.answer->outcome, Outcome::kRefused);
  EXPECT_EQ(again.answer->payload.size(), 3U);
  EXPECT_FALSE(metadata.ask(6, 10).answer.has_value());
}

TEST(JobHistory, WhatIsForgottenIsNotBegunAgain) {
  JobHistory metadata;
  for (std::uint64_t sequence = 1; sequence <= JobHistory::kMaxJobs + 1; ++sequence)
    EXPECT_TRUE(metadata.ask(5, sequence).is_new);
  EXPECT_FALSE(metadata.ask(5, 1).is_new);
  metadata.finish(5, 1, {});
  EXPECT_FALSE(metadata.ask(5, 1).answer.has_value());
  // A worker that has left has no jobs.
  metadata.keep_only({{.id = 6}});
  EXPECT_TRUE(metadata.ask(5, 1).is_new);
}

}  // namespace

}  // namespace tally::server
