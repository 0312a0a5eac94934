#include "recipes/word2vec/update_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::word2vec {
namespace {

using testing::HasSubstr;
using Kind = UpdateRule::Kind;

TEST(UpdateRule, IsReadFromAPlan) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "home=group update=average:500"},
      {" update=average:20  data=partition", "home=group update=average:20"},
      {"home=group update=local:1000 codec=none", "home=group update=local:1000"},
      {"home=server", "home=server update=asp"},
      {"update=asp home=server", "home=server update=asp"},
      {"home=server update=ssp:0", "home=server update=ssp:0"}};
  for (const auto& [plan, text] : cases) {
    const auto rule = parse_update_rule(plan);
    ASSERT_TRUE(rule.has_value()) << plan << rule.error().message;
    EXPECT_EQ(to_string(*rule), text);
    EXPECT_EQ(*parse_update_rule(text), *rule);
  }
}

TEST(UpdateRule, OfOtherPlansIsRefusedWithWhatThereIs) {
  const std::pair<std::string, std::string> cases[] = {
      {"update=bsp", "average:MS"},
      {"home=server update=bsp", "average:MS"},
      {"update=average:0", "average"},
      {"update=average:x", "average"},
      {"update=local", "local"},
      {"update=asp", "home=server"},
      {"home=server update=average:5", "update=asp"},
      {"home=server update=ssp", "ssp"},
      {"home=here", "home"},
      {"data=replicate", "data=partition"},
      {"update=average:5 update=average:5", "twice"},
      {"average", "key=word"},
      {"updat=average:5", "update"}};
  for (const auto& [plan, message] : cases) {
    const auto rule = parse_update_rule(plan);
    ASSERT_FALSE(rule.has_value()) << plan;
    EXPECT_EQ(rule.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(rule.error().message, HasSubstr(message)) << plan;
  }
}

TEST(AveragingSchedule, HoldsRoundsAfterSoManyWordsAndAtTheEnd) {
  AveragingSchedule schedule({.kind = Kind::kLocal, .words = 300}, 1000);
  std::vector<double> rounds;
  while (!schedule.is_over()) {
    rounds.push_back(schedule.next());
    schedule.advance(1);
  }
  EXPECT_THAT(rounds, testing::Pointwise(testing::DoubleNear(1e-9), {0.3, 0.6, 1.0}));
}

TEST(AveragingSchedule, FindsTheDistanceThatTakesThePeriod) {
  // The worker trains 1e6 words per second and averages every half second.
  AveragingSchedule schedule({.kind = Kind::kAverage, .period = std::chrono::milliseconds(500)},
                             100000000);
  double before = 0, last = 0;
  int rounds = 0;
  for (; !schedule.is_over(); ++rounds) {
    last = schedule.next() - before;
    before = schedule.next();
    if (rounds > 5 && before < 1) {
      EXPECT_NEAR(last * 100, 0.5, 1e-6);
    }
    schedule.advance(last * 100);
  }
  EXPECT_EQ(before, 1);
  EXPECT_NEAR(rounds, 200, 5);
}

TEST(AveragingSchedule, OfAShortTextIsOneRound) {
  for (const std::uint64_t words : {0, 1, 19999}) {
    AveragingSchedule schedule({}, words);
    EXPECT_EQ(schedule.next(), 1);
    schedule.advance(0);
    EXPECT_TRUE(schedule.is_over());
  }
}

}  // namespace
}  // namespace tally::word2vec
