#include "tally/optimizer.h"

#include <gtest/gtest.h>

#include <limits>

namespace tally {
namespace {

OptimizerSpec without_ratio(OptimizerSpec spec) {
  spec.adapts = false;
  return spec;
}

OptimizerSpec frozen_after(std::uint64_t updates, OptimizerSpec spec) {
  spec.freeze_after = updates;
  return spec;
}

TEST(Optimizer, TextBecomesTheValueItSays) {
  struct Case {
    std::string_view text;
    OptimizerSpec spec;
  };
  const Case cases[] = {
      {"sgd", sgd()},
      {"sgd:rate=0.5", sgd({.rate = 0.5})},
      {"momentum", sgd({.momentum = 0.9})},
      {"sgd:momentum=0.9", sgd({.momentum = 0.9})},
      {"momentum:momentum=0.5,dampening=0.1", sgd({.momentum = 0.5, .dampening = 0.1})},
      {"nesterov:decay=5e-4", sgd({.momentum = 0.9, .weight_decay = 5e-4, .nesterov = true})},
      {"adagrad:rate_decay=0.1,initial=0.5",
       adagrad({.rate_decay = 0.1, .initial_accumulator = 0.5})},
      {"adam:beta1=0.8,epsilon=1e-6", adam({.beta1 = 0.8, .epsilon = 1e-6})},
      {"adam:freeze=100", frozen_after(100, adam())},
      {"adamw:freeze=1e3,rate=0.01", frozen_after(1000, adamw({.rate = 0.01}))},
      {"adam:freeze=0", adam()},
      {"adamw:beta2=0.95,decay=0.1", adamw({.beta2 = 0.95, .weight_decay = 0.1})},
      {"lamb:ratio_min=0.01,ratio_max=5", lamb({.ratio_min = 0.01, .ratio_max = 5})},
      {"ftrl:rate=0.05,beta=2,l1=1,l2=0.5", ftrl({.rate = 0.05, .beta = 2, .l1 = 1, .l2 = 0.5})},
      {"lars:trust=0.02,momentum=0", lars({.momentum = 0, .trust = 0.02})},
      {"lars:adapt=off", without_ratio(lars())},
      {"lamb:decay=0,adapt=off", without_ratio(lamb({.weight_decay = 0}))},
      {"lamb:adapt=on", lamb()},
  };
  for (const Case& c : cases) {
    const auto spec = parse_optimizer(c.text);
    ASSERT_TRUE(spec) << c.text << ": " << spec.error().message;
    EXPECT_EQ(*spec, c.spec) << c.text;
  }
}

TEST(Optimizer, PrintedItHasItsWordAndWhatIsNotDefault) {
  EXPECT_EQ(to_string(sgd()), "sgd");
  EXPECT_EQ(to_string(sgd({.momentum = 0.9})), "momentum");
  EXPECT_EQ(to_string(sgd({.rate = 0.01, .momentum = 0.8})), "momentum:rate=0.01,momentum=0.8");
  EXPECT_EQ(to_string(sgd({.momentum = 0.9, .nesterov = true})), "nesterov");
  EXPECT_EQ(to_string(adamw({.beta2 = 0.95, .weight_decay = 0.1})), "adamw:beta2=0.95,decay=0.1");
  EXPECT_EQ(to_string(frozen_after(100, adam())), "adam:freeze=100");
  EXPECT_EQ(to_string(frozen_after(7, adam({.rate = 0.1}))), "adam:rate=0.1,freeze=7");
}

TEST(Optimizer, PrintedAndReadAgainItIsTheSame) {
  const double odd = 1.0 / 3;
  const OptimizerSpec specs[] = {
      sgd({.rate = odd, .momentum = odd, .dampening = odd, .weight_decay = odd}),
      sgd({.rate = 1e-300, .momentum = 0.1 + 0.2, .nesterov = true}),
      adagrad({.rate = odd, .rate_decay = odd, .weight_decay = odd, .initial_accumulator = odd}),
      adam({.rate = odd, .beta1 = odd, .beta2 = odd, .epsilon = odd, .weight_decay = odd}),
      adamw({.rate = odd, .weight_decay = 0}),
      frozen_after(1ULL << 53, adam({.rate = odd})),
      lamb({.rate = odd, .ratio_min = odd, .ratio_max = 1e300}),
      ftrl({.rate = odd, .beta = odd, .l1 = odd, .l2 = 0.1 + 0.2}),
      lars({.rate = odd, .momentum = odd, .trust = odd, .epsilon = 0})};
  for (const OptimizerSpec& spec : specs) {
    const auto again = parse_optimizer(to_string(spec));
    ASSERT_TRUE(again) << to_string(spec) << ": " << again.error().message;
    EXPECT_EQ(*again, spec) << to_string(spec);
  }
}

TEST(Optimizer, WhatIsWrongIsNamedWithTheNearestWord) {
  struct Case {
    std::string_view text, message;
  };
  constexpr Case kCases[] = {
      {"adma",
       "'adma' is no optimizer; nearest: adam (known: sgd, momentum, nesterov, adagrad, adam, "
       "adamw, lamb, lars, ftrl)"},
      {"sgd:rat=1",
       "'rat' is no setting of sgd; nearest: rate (known: rate, momentum, dampening, decay)"},
      {"adam:momentum=0.9",
       "'momentum' is no setting of adam; nearest: beta1 (known: rate, beta1, beta2, epsilon, "
       "decay, freeze)"},
      {"adam:freeze=1.5", "freeze: '1.5' is not a whole number from 0"},
      {"lamb:freeze=10",
       "'freeze' is no setting of lamb; nearest: rate (known: rate, beta1, beta2, epsilon, decay, "
       "ratio_min, ratio_max, adapt)"},
      {"lars:adapt=no", "adapt: 'no' is neither on nor off"},
      {"sgd:rate=fast", "rate: 'fast' is not a number"},
      {"sgd:rate=-1", "rate of sgd is -1, must be a finite number from 0"},
      {"momentum:momentum=1", "momentum of momentum is 1, must be from 0 to below 1"},
      {"sgd:dampening=1.5", "dampening of sgd is 1.5, must be from 0 to 1"},
      {"adam:beta2=1", "beta2 of adam is 1, must be from 0 to below 1"},
      {"ftrl:rate=0", "ftrl needs a rate above 0"},
      {"ftrl:decay=0.1",
       "'decay' is no setting of ftrl; nearest: beta (known: rate, beta, l1, l2)"},
      {"ftrl:l1=-1", "l1 of ftrl is -1, must be a finite number from 0"},
      {"nesterov:momentum=0", "nesterov needs a momentum above 0"},
      {"nesterov:dampening=0.5", "nesterov needs a dampening of 0"},
      {"lamb:ratio_min=11", "ratio_min of lamb is 11, above ratio_max, which is 10"},
      {"adam:", "'' is not of the form key=value"},
      {"", "'' does not begin with a name"},
  };
  for (const Case& c : kCases) {
    const auto spec = parse_optimizer(c.text);
    ASSERT_FALSE(spec) << c.text;
    EXPECT_EQ(spec.error().code, ErrorCode::kInvalid) << c.text;
    EXPECT_EQ(spec.error().message, c.message);
  }
}

TEST(Optimizer, CheckRefusesWhatWouldNotBeLookedAt) {
  OptimizerSpec spec = adam();
  EXPECT_TRUE(check(spec));
  spec.momentum = 0.9;
  ASSERT_FALSE(check(spec));
  EXPECT_EQ(check(spec).error().message, "adam has no momentum, but it is set to 0.9");
  spec = adam();
  spec.nesterov = true;
  ASSERT_FALSE(check(spec));
  EXPECT_EQ(check(spec).error().message, "adam has no nesterov, but it is set");
  EXPECT_EQ(check(frozen_after(3, sgd())).error().message, "sgd has no freeze, but it is set to 3");
  EXPECT_FALSE(check(frozen_after((1ULL << 53) + 1, adam())));
  EXPECT_EQ(check(without_ratio(adam())).error().message, "adam has no adapt, but it is off");
}

TEST(Optimizer, CheckRefusesWhatIsNotFinite) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(check(sgd({.rate = bad})));
    EXPECT_FALSE(check(adamw({.weight_decay = bad})));
    EXPECT_FALSE(check(lars({.momentum = bad})));
  }
  OptimizerSpec unknown;
  unknown.kind = static_cast<OptimizerKind>(99);
  EXPECT_FALSE(check(unknown));
}

}  // namespace
}  // namespace tally
