#include "bench/compress/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::bench::compress {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Measurement measured(const std::string& link, const std::string& plan, double ms) {
  return {.model = "mlp",
          .link = link,
          .plan = plan,
          .samples_ms = {ms, ms, ms},
          .sent_bytes = {2e6},
          .loss_ratio = 1.5};
}

PlanComparison some_comparison() {
  return {
      .measurements = {measured("1gbit", "codec=none", 300), measured("1gbit", "codec=int8", 90),
                       measured("1gbit", "codec=auto", 100), measured("none", "codec=none", 50),
                       measured("none", "codec=auto", 51)},
      .failures = {{"mlp, none, codec=sign: gone"}}};
}

TEST(CompressReport, ComparesWithTheFirstPlanOfTheSameLink) {
  const std::vector<Target> targets = targets_of(some_comparison());
  ASSERT_EQ(targets.size(), 5U);
  EXPECT_EQ(targets[0].what, "mlp, 1gbit: best (int8) over none");
  EXPECT_NEAR(targets[0].seen, 300.0 / 90, 1e-9);
  EXPECT_TRUE(targets[0].met());
  EXPECT_NEAR(targets[1].seen, 0.9, 1e-9);  // 1.11 times the best time
  EXPECT_FALSE(targets[1].met());
  EXPECT_TRUE(targets[2].met());
  EXPECT_TRUE(targets[3].met());
  EXPECT_TRUE(targets[4].met());  // 2 % slower
  const std::string text = report_on(some_comparison(), 1).table;
  EXPECT_THAT(text, HasSubstr("failed: mlp, none, codec=sign: gone"));
  EXPECT_THAT(text, HasSubstr("3.33x"));
}

TEST(CompressReport, HasALineOfJsonForEach) {
  std::vector<std::string> plans;
  for (const Json& line : report_on(some_comparison(), 1).lines) {
    plans.push_back(line["plan"]);
    EXPECT_EQ(line["sent_bytes_per_step"], 2e6);
  }
  EXPECT_THAT(plans,
              ElementsAre("codec=none", "codec=int8", "codec=auto", "codec=none", "codec=auto"));
}

TEST(CompressPlans, AreReadWithSemicolonsBetween) {
  EXPECT_THAT(*parse_plans("codec=none;codec=int8 update=subset:1"),
              ElementsAre("codec=none", "codec=int8 update=subset:1"));
  EXPECT_FALSE(parse_plans("codec=zip").has_value());
  EXPECT_FALSE(parse_plans("home=server").has_value());
  EXPECT_EQ(short_name("codec=topk:0.01"), "topk:0.01");
  EXPECT_EQ(short_name("codec=none update=subset:1"), "codec=none update=subset:1");
}

TEST(CompressLinks, AreSpeedsOrNone) {
  for (const char* const good : {"none", "100mbit", "1gbit", "2.5gbit", "64kbit"})
    EXPECT_TRUE(check_link(good).has_value()) << good;
  for (const char* const bad :
       {"", "fast", "100", "1gbit/s", "0mbit", "-1gbit", "1e9gbit", "nangbit"})
    EXPECT_FALSE(check_link(bad).has_value()) << bad;
}

}  // namespace
}  // namespace tally::bench::compress
