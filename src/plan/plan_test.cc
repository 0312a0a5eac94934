#include "plan/plan.h"

#include <gtest/gtest.h>

namespace tally::plan {
namespace {

TEST(Plan, TextBecomesTheValueItSays) {
  struct Case {
    std::string_view text;
    Plan plan;
  };
  constexpr Case kCases[] = {
      {"", {}},
      {"  \t ", {}},
      {"home=group update=bsp codec=none stale=keep split=data data=partition", {}},
      {"data=replicate", {.data = Data::kReplicate}},
      {" data=stream   home=group\n", {.data = Data::kStream}},
  };
  for (const Case& c : kCases) {
    const auto plan = parse_plan(c.text);
    ASSERT_TRUE(plan) << c.text << ": " << plan.error().message;
    EXPECT_EQ(*plan, c.plan) << c.text;
    EXPECT_TRUE(check(*plan));
  }
}

TEST(Plan, PrintedItHasAllAnswersAndIsReadAgain) {
  EXPECT_EQ(to_string(Plan()),
            "home=group update=bsp codec=none stale=keep split=data data=partition");
  for (const Data data : {Data::kPartition, Data::kReplicate, Data::kStream}) {
    const Plan plan{.data = data};
    const auto again = parse_plan(to_string(plan));
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, plan);
  }
  EXPECT_EQ(
      to_string(Plan{.home = Home::kServer, .update = Update::kSsp, .codec = Codec::kPowersgd}),
      "home=server update=ssp codec=powersgd stale=keep split=data data=partition");
}

TEST(Plan, KnownWordsThatAreNotOfferedAreRefusedWithTheNearest) {
  struct Case {
    std::string_view text, message;
  };
  constexpr Case kCases[] = {
      {"home=server", "home=server is not offered by this version; nearest: home=group"},
      {"update=ssp:3", "update=ssp:3 is not offered by this version; nearest: update=bsp"},
      {"update=average:50",
       "update=average:50 is not offered by this version; nearest: update=bsp"},
      {"codec=topk:0.01+rans",
       "codec=topk:0.01+rans is not offered by this version; nearest: codec=none"},
      {"stale=scale", "stale=scale is not offered by this version; nearest: stale=keep"},
      {"split=pipeline:2", "split=pipeline:2 is not offered by this version; nearest: split=data"},
      {"data=stages", "data=stages is not offered by this version; nearest: data=partition"},
  };
  for (const Case& c : kCases) {
    const auto plan = parse_plan(c.text);
    ASSERT_FALSE(plan) << c.text;
    EXPECT_EQ(plan.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(plan.error().message, c.message);
  }
}

TEST(Plan, WhatNobodyKnowsIsNamedWithTheNearestWord) {
  struct Case {
    std::string_view text, message;
  };
  constexpr Case kCases[] = {
      {"hom=group",
       "'hom' is no key of a plan; nearest: home (known: home, update, codec, stale, split, data)"},
      {"data=partitoin",
       "'partitoin' is no answer to data; nearest: partition (known: partition, replicate, stream, "
       "stages)"},
      {"home=", "'' is no answer to home; nearest: group (known: group, server)"},
      {"bsp", "'bsp' in the plan is not of the form key=word"},
      {"data=stream data=stream", "'data' is given twice in the plan"},
      {"update=bsp:3", "update=bsp:3: bsp takes nothing behind it"},
      {"split=data*tensor:2", "split=data*tensor:2: data takes nothing behind it"},
  };
  for (const Case& c : kCases) {
    const auto plan = parse_plan(c.text);
    ASSERT_FALSE(plan) << c.text;
    EXPECT_EQ(plan.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(plan.error().message, c.message);
  }
}

TEST(Plan, CheckRefusesWhatIsNotOffered) {
  const Plan plans[] = {{.home = Home::kServer},
                        {.update = Update::kGossip},
                        {.codec = Codec::kDgc},
                        {.stale = Stale::kCompensate},
                        {.split = Split::kShard},
                        {.data = Data::kStages},
                        {.update = static_cast<Update>(200)}};
  for (const Plan& plan : plans) EXPECT_FALSE(check(plan)) << to_string(plan);
  EXPECT_EQ(check(Plan{.update = Update::kGossip}).error().message,
            "update=gossip is not offered by this version; nearest: update=bsp");
}

}  // namespace
}  // namespace tally::plan
