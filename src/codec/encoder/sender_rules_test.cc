#include "codec/encoder/sender_rules.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tally::codec {
namespace {

std::string behind(std::string_view codec, std::string_view optimizer) {
  const auto found =
      optimizer_behind(plan::parse_codec(codec).value(), parse_optimizer(optimizer).value());
  return found ? to_string(*found) : found.error().message;
}

TEST(SenderRules, WhatSendersDoIsTakenFromTheOptimizer) {
  struct Case {
    std::string_view codec, optimizer, behind;
  };
  constexpr Case kCases[] = {
      {"none", "momentum", "momentum"},
      {"topk:0.01", "adam:rate=0.01", "adam:rate=0.01"},
      {"powersgd", "nesterov", "nesterov"},
      {"sign", "lamb", "lamb"},
      {"dgc", "sgd:rate=0.5", "sgd:rate=0.5"},
      {"dgc", "momentum:rate=0.05,momentum=0.75,decay=0.5", "sgd:rate=0.05,decay=2"},
      {"sign", "momentum:rate=0.05,momentum=0.75,decay=0.5", "sgd:rate=0.05,decay=2"},
      {"sign:momentum=late", "momentum", "momentum"},
      {"topk:momentum=early", "nesterov", "sgd"},
      {"onebit", "adam", "adam"},
      {"onebit", "momentum:dampening=0.1", "momentum:dampening=0.1"},
      {"dgc", "nesterov:rate=0.05", "sgd:rate=0.05"},
      {"onebit-adam", "adam", "adam:freeze=100"},
      {"onebit-adam:250", "adamw:decay=0.1", "adamw:decay=0.1,freeze=250"},
      {"onebit-adam:250", "adam:freeze=250", "adam:freeze=250"},
  };
  for (const Case& c : kCases) EXPECT_EQ(behind(c.codec, c.optimizer), c.behind) << c.codec;
}

TEST(SenderRules, OptimizersThatDoNotGoWithTheCodecAreRefused) {
  struct Case {
    std::string_view codec, optimizer, message;
  };
  constexpr Case kCases[] = {
      {"dgc", "adam",
       "codec=dgc needs sgd, momentum or nesterov, not adam: senders have the momentum themselves; "
       "nearest: codec=topk:0.001"},
      {"dgc:0.01,warmup=0", "lars",
       "codec=dgc:0.01,warmup=0 needs sgd, momentum or nesterov, not lars: senders have the "
       "momentum themselves; nearest: codec=topk:0.01"},
      {"dgc", "momentum:dampening=0.1",
       "codec=dgc has no dampening, but it is 0.1; nearest: dampening=0"},
      {"onebit-adam", "sgd",
       "codec=onebit-adam needs adam or adamw, not sgd: it sends their first moment; nearest: "
       "codec=sign"},
      {"onebit-adam", "lamb",
       "codec=onebit-adam needs adam or adamw, not lamb: it sends their first moment; nearest: "
       "codec=sign"},
      {"onebit-adam:50", "adam:freeze=60",
       "codec=onebit-adam:50 freezes after 50 updates, adam:freeze=60 after 60; leave out freeze"},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(behind(c.codec, c.optimizer), c.message);
    EXPECT_EQ(
        optimizer_behind(plan::parse_codec(c.codec).value(), parse_optimizer(c.optimizer).value())
            .error()
            .code,
        ErrorCode::kInvalid);
  }
}

TEST(SenderRules, SendersKnowOfMomentumAndBeta) {
  const auto facts_of = [](std::string_view codec, std::string_view optimizer) {
    return sender_facts(plan::parse_codec(codec).value(), parse_optimizer(optimizer).value(), 4);
  };
  const SenderFacts nesterov = facts_of("dgc", "nesterov:momentum=0.8");
  EXPECT_EQ(nesterov.momentum, 0.8);
  EXPECT_TRUE(nesterov.nesterov);
  EXPECT_EQ(nesterov.ranks, 4);
  EXPECT_EQ(facts_of("sign", "momentum").momentum, 0.9);
  EXPECT_EQ(facts_of("topk:momentum=late", "momentum").momentum, 0);
  const SenderFacts adam = facts_of("onebit-adam", "adam:beta1=0.7");
  EXPECT_EQ(adam.momentum, 0);
  EXPECT_EQ(adam.beta1, 0.7);
  EXPECT_EQ(facts_of("sign", "lars").momentum, 0);
}

}  // namespace
}  // namespace tally::codec
