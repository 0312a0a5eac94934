#include "plan/plan.h"

#include <gtest/gtest.h>

namespace tally::plan {
namespace {

TEST(Plan, TextBecomesTheValueItSays) {
  struct Case {
    std::string_view text;
    Plan plan;
  };
  const Case kCases[] = {
      {"", {}},
      {"  \t ", {}},
      {"home=group update=bsp codec=none stale=keep split=data data=partition", {}},
      {"data=replicate", {.data = Data::kReplicate}},
      {" data=stream   home=group\n", {.data = Data::kStream}},
      {"codec=topk:0.05,exact+rans",
       {.codec = {.kind = Codec::kTopk,
                  .density = 0.05,
                  .exact = true,
                  .feedback = true,
                  .early_momentum = true,
                  .stage = EntropyStage::kRans}}},
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
  struct Case {
    std::string_view text, printed;
  };
  constexpr Case kCases[] = {
      {"home=server update=ssp:3 codec=int8:128+rans",
       "home=server update=ssp:3 codec=int8:128+rans stale=keep split=data data=partition "
       "conflict=lock"},
      {"codec=auto:from=int8/topk:0.05,exact",
       "home=group update=bsp codec=auto:from=int8/topk:0.05,exact stale=keep split=data "
       "data=partition"},
      {"data=stream codec=topk:0.01",
       "home=group update=bsp codec=topk stale=keep split=data data=stream"},
  };
  for (const Case& c : kCases) {
    const auto plan = parse_plan(c.text);
    ASSERT_TRUE(plan) << c.text << ": " << plan.error().message;
    EXPECT_EQ(to_string(*plan), c.printed);
    EXPECT_EQ(parse_plan(c.printed).value(), *plan) << c.printed;
  }
}

TEST(Plan, ForPeopleItHasTheAnswersAsTheyWereGiven) {
  struct Case {
    std::string_view text, printed;
  };
  constexpr Case kCases[] = {
      {"", "home=group update=bsp codec=none"},
      {"codec=qsgd:4+rans", "home=group update=bsp codec=qsgd:4+rans"},
      {" data=stream\tcodec=topk:0.01 ", "home=group update=bsp codec=topk:0.01 data=stream"},
      {"data=partition", "home=group update=bsp codec=none data=partition"},
      {"update=asp home=server stale=drop:03", "home=server update=asp codec=none stale=drop:03"},
  };
  for (const Case& c : kCases) {
    const auto plan = parse_plan(c.text);
    ASSERT_TRUE(plan) << c.text << ": " << plan.error().message;
    EXPECT_EQ(short_text(*plan, c.text), c.printed);
    EXPECT_EQ(parse_plan(c.printed).value(), *plan) << c.printed;
  }
  EXPECT_EQ(short_text({.home = Home::kServer}, "update=bsp"), "home=server update=bsp codec=none");
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
       "'partitoin' is no answer to data; nearest: partition (known: partition, replicate, "
       "stream)"},
      {"home=", "'' is no answer to home; nearest: group (known: group, server)"},
      {"home=sever", "'sever' is no answer to home; nearest: server (known: group, server)"},
      {"conflict=atom",
       "'atom' is no answer to conflict; nearest: atomic (known: lock, atomic, accumulate)"},
      {"codec=int9",
       "'int9' is no codec; nearest: int8 (known: none, fp16, bf16, int8, fp8, qsgd, ternary, "
       "natural, onebit, sign, onebit-adam, topk, randk, dgc, threshold, powersgd, auto)"},
      {"codec=topk:2", "codec=topk:2: 2 is not above 0 and at most 1"},
      {"codec=none:2", "codec=none:2: none takes no settings"},
      {"codec=none codec=none", "'codec' is given twice in the plan"},
      {"bsp", "'bsp' in the plan is not of the form key=word; did you mean update=bsp?"},
      {"home=group topk:0.1",
       "'topk:0.1' in the plan is not of the form key=word; did you mean codec=topk:0.1?"},
      {"fast", "'fast' in the plan is not of the form key=word"},
      {"update=bsp,codec=int8",
       "'update=bsp,codec=int8': spaces separate the keys of a plan, as in \"update=bsp "
       "codec=int8\""},
      {"data=stream data=stream", "'data' is given twice in the plan"},
      {"update=bsp:3", "update=bsp:3: bsp takes no settings"},
      {"stale=scale:2", "stale=scale:2: scale takes no settings"},
      {"split=data*tensor:2", "split=data*tensor:2: '*tensor:2' cannot follow data"},
      {"update=bsp:", "update=bsp:: ':' cannot follow bsp"},
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
       "update=ssp:3 needs home=server: workers that do not step together need servers to hold the "
       "model; nearest: home=server update=ssp:3, or update=bsp"},
      {"update=asp:push=4",
       "update=asp:push=4 needs home=server: workers that do not step together need servers to "
       "hold the model; nearest: home=server update=asp:push=4, or update=bsp"},
      {"home=group update=kbatch:4",
       "update=kbatch:4 needs home=server: workers that do not step together need servers to hold "
       "the model; nearest: home=server update=kbatch:4, or update=bsp"},
      {"stale=drop:4",
       "stale=drop:4 needs update=asp, ssp, kasync, softsync or kbatch:K,async: with update=bsp no "
       "applied gradient is stale; nearest: home=server update=asp stale=drop:4, or stale=keep"},
      {"home=server update=backup:1 stale=scale",
       "stale=scale needs update=asp, ssp, kasync, softsync or kbatch:K,async: with "
       "update=backup:1 "
       "no applied gradient is stale; nearest: home=server update=asp stale=scale, or stale=keep"},
      {"home=server update=kbatch:2 stale=scale",
       "stale=scale needs update=asp, ssp, kasync, softsync or kbatch:K,async: with "
       "update=kbatch:2 "
       "no applied gradient is stale; nearest: home=server update=asp stale=scale, or stale=keep"},
      {"update=softsync:2",
       "update=softsync:2 needs home=server: workers that do not step together need servers to "
       "hold the model; nearest: home=server update=softsync:2, or update=bsp"},
      {"home=server update=asp:push=4 stale=compensate:0.04",
       "stale=compensate:0.04 needs a push that is one gradient: push=4 sends a sum of gradients "
       "at "
       "several values; nearest: stale=scale, or push=1"},
      {"home=server update=asp stale=compensate:0.04 codec=dgc",
       "stale=compensate:0.04 needs a push that is one gradient: dgc sends sums of momentum over "
       "many steps; nearest: stale=scale, or codec=none"},
      {"home=server update=asp stale=compensate:0.04 codec=sign:vote",
       "stale=compensate:0.04 needs a push that is one gradient: a vote has no magnitudes; "
       "nearest: "
       "stale=scale, or codec=none"},
      {"update=backup:1 codec=auto",
       "codec=auto with update=backup:1: auto compares the times of whole steps, which do not wait "
       "for all ranks here; nearest: update=bsp, or codec=int8"},
      {"conflict=atomic",
       "conflict=atomic needs home=server: in a group each value has one writer; nearest: "
       "home=server conflict=atomic, or conflict=lock"},
      {"update=local:8 codec=int8",
       "codec=int8 needs an update of gradients: update=local:8 exchanges whole models; nearest: "
       "codec=none"},
      {"home=server update=average:50 codec=int8",
       "codec=int8 needs an update of gradients: update=average:50 exchanges whole models; "
       "nearest: codec=none"},
      {"home=server codec=auto",
       "codec=auto needs home=group: servers do not measure the network to each worker; nearest: "
       "home=group, or codec=int8"},
      {"home=server update=asp codec=powersgd:4",
       "codec=powersgd:4 on servers needs update=bsp: its messages can only be decoded "
       "together with those of all other workers of the same step; nearest: update=bsp, or "
       "codec=int8"},
      {"home=server update=subset:2 codec=onebit-adam",
       "codec=onebit-adam on servers needs update=bsp: its messages can only be decoded "
       "together with those of all other workers of the same step; nearest: update=bsp, or "
       "codec=int8"},
  };
  for (const Case& c : kCases) {
    const auto plan = parse_plan(c.text);
    ASSERT_FALSE(plan) << c.text;
    EXPECT_EQ(plan.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(plan.error().message, c.message);
  }
  for (const char* text :
       {"update=backup:1", "update=subset:2", "home=server update=backup:1", "home=server",
        "conflict=lock", "home=server conflict=accumulate", "update=average:50",
        "home=server update=local:8", "codec=auto", "update=backup:1 codec=topk:0.05",
        "home=server update=kasync:2 stale=compensate:0.04",
        "home=server update=softsync:2 stale=drop:3",
        "home=server update=kbatch:2,async stale=scale", "update=subset:2 codec=powersgd",
        "home=server codec=powersgd", "home=server codec=onebit-adam",
        "home=server update=backup:1 codec=dgc",
        "home=server update=asp stale=compensate:0.04 codec=sign"}) {
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
                        {.codec = {.kind = Codec::kDgc}},
                        {.codec = {.kind = static_cast<Codec>(99)}},
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
