#include "server/node/agreement.h"

#include <gtest/gtest.h>

namespace tally::server {
namespace {

MessageHeader agree(std::uint64_t number) {
  return {.kind = MessageKind::kAgree, .sequence = number, .clock = number};
}

TEST(Agreement, IsCompleteWhenEveryMemberHasOfferedOrIsBeyond) {
  Agreement agreement;
  agreement.set_members({{.id = 1, .rank = 1}, {.id = 2, .rank = 0}});
  EXPECT_TRUE(agreement.offer(1, agree(1), {1}).empty());
  auto answers = agreement.offer(2, agree(1), {2});
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].sums, std::vector<double>{3});
  // A repeated request gets the same answer.
  answers = agreement.offer(1, agree(1), {1});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].sums, std::vector<double>{3});
}

TEST(Agreement, DoesNotWaitForWhoLeftAndCountsWhatTheyGave) {
  Agreement agreement;
  agreement.set_members({{.id = 1}, {.id = 2, .rank = 1}, {.id = 3, .rank = 2}});
  agreement.offer(1, agree(1), {1});
  agreement.offer(2, agree(1), {10});
  const auto answers = agreement.set_members({{.id = 1}});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].worker, 1U);
  EXPECT_EQ(answers[0].sums, std::vector<double>{11});
}

TEST(Agreement, TellsALatecomerWhichRoundIsGathered) {
  Agreement agreement;
  agreement.set_members({{.id = 1}});
  for (std::uint64_t number = 1; number <= 5; ++number)
    EXPECT_EQ(agreement.offer(1, agree(number), {1}).size(), 1U);
  agreement.set_members({{.id = 1}, {.id = 2, .rank = 1}});
  auto answers = agreement.offer(2, agree(1), {1});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].outcome, Outcome::kDropped);
  EXPECT_EQ(answers[0].number, 6U);
  EXPECT_TRUE(agreement.offer(2, agree(6), {1}).empty());
  answers = agreement.offer(1, agree(6), {1});
  EXPECT_EQ(answers.size(), 2U);
}

// A server that has just taken over has no state. It must not mistake a latecomer's first round for
// the current round of the group.
TEST(Agreement, OnANewServerALatecomerIsToldWhenTheOthersCome) {
  Agreement agreement;
  agreement.set_members({{.id = 1}, {.id = 2, .rank = 1}});
  EXPECT_TRUE(agreement.offer(2, agree(1), {1}).empty());
  auto answers = agreement.offer(1, agree(57), {1});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].worker, 2U);
  EXPECT_EQ(answers[0].outcome, Outcome::kDropped);
  EXPECT_EQ(answers[0].number, 57U);
  answers = agreement.offer(2, agree(57), {1});
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].sums, std::vector<double>{2});
}

// Worker 1 received the sum of round 7 from a failed server, worker 2 did not, and worker 3 joined
// afterwards. All workers must get the same sum.
TEST(Agreement, WhoCameAfterARoundWasCompleteElsewhereIsNotInIt) {
  MessageHeader had = agree(7);
  had.push_kind = kHadAnswer;
  for (const bool latecomer_is_early : {false, true}) {
    Agreement agreement;
    agreement.set_members({{.id = 1}, {.id = 2, .rank = 1}, {.id = 3, .rank = 2}});
    EXPECT_TRUE(agreement.offer(2, agree(7), {20}).empty());
    if (!latecomer_is_early) {
      EXPECT_TRUE(agreement.offer(1, had, {1}).empty());
    }
    auto answers = agreement.offer(3, agree(1), {300});
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].number, latecomer_is_early ? 7U : 8U);
    if (latecomer_is_early) {
      EXPECT_TRUE(agreement.offer(3, agree(7), {300}).empty());
      answers = agreement.offer(1, had, {1});
      ASSERT_EQ(answers.size(), 1U);
      EXPECT_EQ(answers[0].worker, 3U);
      EXPECT_EQ(answers[0].outcome, Outcome::kDropped);
      EXPECT_EQ(answers[0].number, 8U);
    }
    answers = agreement.offer(3, agree(8), {300});
    ASSERT_EQ(answers.size(), 2U);
    for (const auto& answer : answers) EXPECT_EQ(answer.sums, std::vector<double>{21});
    EXPECT_TRUE(agreement.offer(1, agree(8), {1}).empty());
    answers = agreement.offer(2, agree(8), {20});
    ASSERT_EQ(answers.size(), 3U);
    EXPECT_EQ(answers[0].sums, std::vector<double>{321});
  }
}

TEST(Agreement, AWorkerThatWaitsForNothingIsRefused) {
  Agreement agreement;
  agreement.set_members({{.id = 1}, {.id = 2, .rank = 1}});
  for (std::uint64_t number = 1; number <= 3; ++number)
    EXPECT_TRUE(agreement.offer(1, agree(number), {1}).empty());
  const auto refused = agreement.offer(1, agree(4), {1});
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].outcome, Outcome::kRefused);
  EXPECT_EQ(refused[0].error->code, ErrorCode::kExhausted);
}

TEST(Agreement, RefusesUnequalCountsAndGivesUp) {
  Agreement agreement;
  agreement.set_members({{.id = 1}, {.id = 2, .rank = 1}});
  agreement.offer(1, agree(1), {1});
  const auto refused = agreement.offer(2, agree(1), {1, 2});
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].error->code, ErrorCode::kMismatch);
  const auto given_up = agreement.give_up();
  ASSERT_EQ(given_up.size(), 1U);
  EXPECT_EQ(given_up[0].outcome, Outcome::kNotPrimary);
}

}  // namespace
}  // namespace tally::server
