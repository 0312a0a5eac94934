#include <gtest/gtest.h>

namespace tally::server {
namespace {

TEST(JobBook, AJobIsBegunOnceAndItsAnswerIsKept) {
  JobBook book;
  EXPECT_TRUE(book.ask(5, 10).is_new);
  JobBook::Standing again = book.ask(5, 10);
  EXPECT_FALSE(again.is_new);
  EXPECT_FALSE(again.answer.has_value());
  EXPECT_TRUE(book.ask(6, 10).is_new);
  book.finish(5, 10, {.outcome = Outcome::kRefused, .payload = std::vector<std::byte>(3)});
  again = book.ask(5, 10);
  EXPECT_FALSE(again.is_new);
  ASSERT_TRUE(again.answer.has_value());
  EXPECT_EQ(again.answer->outcome, Outcome::kRefused);
  EXPECT_EQ(again.answer->payload.size(), 3U);
  EXPECT_FALSE(book.ask(6, 10).answer.has_value());
}

TEST(JobBook, WhatIsForgottenIsNotBegunAgain) {
  JobBook book;
  for (std::uint64_t sequence = 1; sequence <= JobBook::kMaxJobs + 1; ++sequence)
    EXPECT_TRUE(book.ask(5, sequence).is_new);
  EXPECT_FALSE(book.ask(5, 1).is_new);
  book.finish(5, 1, {});
  EXPECT_FALSE(book.ask(5, 1).answer.has_value());
  // A worker that is gone has no jobs.
  book.keep_only({{.id = 6}});
  EXPECT_TRUE(book.ask(5, 1).is_new);
}

}  // namespace

}  // namespace tally::server
