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
      to_string(Plan{
          .home = Home::kServer, .update = Update::kSsp, .codec = Codec::kPowersgd, .bound = 3}),
      "home=server update=ssp:3 codec=powersgd stale=keep split=data data=partition conflict=lock");
}

TEST(Plan, ADefaultHomeIsTakenWhereTheTextHasNone) {
  const Plan server{.home = Home::kServer};
  EXPECT_EQ(parse_plan("", server).value(), server);
  EXPECT_EQ(
      parse_plan("update=ssp:3 stale=scale", server).value(),
      (Plan{.home = Home::kServer, .update = Update::kSsp, .stale = Stale::kScale, .bound = 3}));
  EXPECT_EQ(parse_plan("home=group", server).value(), Plan());
  EXPECT_EQ(
      parse_plan("update=bsp", {.home = Home::kServer, .update = Update::kSsp, .bound = 3}).value(),
      server);
}

TEST(Plan, KnownWordsThatAreNotOfferedAreRefusedWithTheNearest) {
  struct Case {
    std::string_view text, message;
  };
  constexpr Case kCases[] = {
      {"update=easgd:0.1", "update=easgd:0.1 is not offered by this version; nearest: update=bsp"},
      {"update=gossip", "update=gossip is not offered by this version; nearest: update=bsp"},
      {"codec=topk:0.01+rans",
       "codec=topk:0.01+rans is not offered by this version; nearest: codec=none"},
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
       "'hom' is no key of a plan; nearest: home (known: home, update, codec, stale, split, data, "
       "conflict)"},
      {"data=partitoin",
       "'partitoin' is no answer to data; nearest: partition (known: partition, replicate, stream, "
       "stages)"},
      {"home=", "'' is no answer to home; nearest: group (known: group, server)"},
      {"home=sever", "'sever' is no answer to home; nearest: server (known: group, server)"},
      {"conflict=atom",
       "'atom' is no answer to conflict; nearest: atomic (known: lock, atomic, accumulate)"},
      {"bsp", "'bsp' in the plan is not of the form key=word"},
      {"data=stream data=stream", "'data' is given twice in the plan"},
      {"update=bsp:3", "update=bsp:3: bsp takes nothing behind it"},
      {"stale=scale:2", "stale=scale:2: scale takes nothing behind it"},
      {"split=data*tensor:2", "split=data*tensor:2: '*tensor:2' cannot stand behind data"},
      {"update=bsp:", "update=bsp:: ':' cannot stand behind bsp"},
  };
  for (const Case& c : kCases) {
    const auto plan = parse_plan(c.text);
    ASSERT_FALSE(plan) << c.text;
    EXPECT_EQ(plan.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(plan.error().message, c.message);
  }
}

TEST(Plan, AnswersThatDoNotGoTogetherAreRefusedWithTheNearestThatDo) {
  struct Case {
    std::string_view text, message;
  };
  constexpr Case kCases[] = {
      {"update=ssp:3",
       "update=ssp:3 needs home=server: where workers do not step together somebody has to have "
       "the "
       "model; nearest: home=server update=ssp:3, or update=bsp"},
      {"update=asp:push=4",
       "update=asp:push=4 needs home=server: where workers do not step together somebody has to "
       "have the model; nearest: home=server update=asp:push=4, or update=bsp"},
      {"home=group update=kbatch:4",
       "update=kbatch:4 needs home=server: where workers do not step together somebody has to have "
       "the model; nearest: home=server update=kbatch:4, or update=bsp"},
      {"stale=drop:4",
       "stale=drop:4 needs update=asp or update=ssp: with update=bsp no gradient that counts is "
       "stale; nearest: home=server update=asp stale=drop:4, or stale=keep"},
      {"home=server update=backup:1 stale=scale",
       "stale=scale needs update=asp or update=ssp: with update=backup:1 no gradient that counts "
       "is "
       "stale; nearest: home=server update=asp stale=scale, or stale=keep"},
      {"conflict=atomic",
       "conflict=atomic needs home=server: in a group nobody writes where others do; nearest: "
       "home=server conflict=atomic, or conflict=lock"},
  };
  for (const Case& c : kCases) {
    const auto plan = parse_plan(c.text);
    ASSERT_FALSE(plan) << c.text;
    EXPECT_EQ(plan.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(plan.error().message, c.message);
  }
  for (const char* text : {"update=backup:1", "update=subset:2", "home=server update=backup:1",
                           "home=server", "conflict=lock", "home=server conflict=accumulate",
                           "update=average:50", "home=server update=local:8"}) {
    EXPECT_TRUE(parse_plan(text)) << text;
  }
}

TEST(Plan, OnlyModelsThatAreAveragedDoNotExchangeGradients) {
  for (const char* text : {"update=average:50", "update=local:8"}) {
    const Plan plan = parse_plan(text).value();
    EXPECT_TRUE(averages_models(plan));
    const auto refused = check_exchanges_gradients(plan, "lenet");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, std::string(text) +
                                           " is for word2vec only, not for lenet; nearest: "
                                           "update=bsp");
  }
  for (const char* text : {"", "update=subset:2", "home=server update=asp"}) {
    EXPECT_TRUE(check_exchanges_gradients(parse_plan(text).value(), "lenet")) << text;
  }
}

TEST(Plan, CheckRefusesWhatIsNotOffered) {
  const Plan plans[] = {{.home = static_cast<Home>(2)},
                        {.update = Update::kGossip},
                        {.codec = Codec::kDgc},
                        {.stale = Stale::kCompensate},
                        {.split = Split::kShard},
                        {.data = Data::kStages},
                        {.conflict = Conflict::kAtomic},
                        {.conflict = static_cast<Conflict>(9)},
                        {.update = static_cast<Update>(200)}};
  for (const Plan& plan : plans) EXPECT_FALSE(check(plan)) << to_string(plan);
  EXPECT_EQ(check(Plan{.update = Update::kGossip}).error().message,
            "update=gossip is not offered by this version; nearest: update=bsp");
}

}  // namespace
}  // namespace tally::plan
