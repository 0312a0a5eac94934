#include "exchange/plan_advice.h"

#include <gmock/gmock.h>

namespace tally::exchange {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(PlanAdvice, AutoChoosesFromCodecsThatKeepTheAccuracyOfTheOptimizer) {
  const auto list = [](const OptimizerSpec& optimizer, const char* plan) {
    return codec_in_use({plan::parse_plan(plan).value(), {sgd(), optimizer}, {}, 4}).candidates;
  };
  EXPECT_THAT(list(sgd({.momentum = 0.9}), "codec=auto"), IsEmpty());  // the default list
  for (const OptimizerSpec& squares : {adam(), adamw(), adagrad(), ftrl(), lamb()})
    EXPECT_THAT(list(squares, "codec=auto"), ElementsAre("none", "bf16", "int8", "qsgd"));
  EXPECT_THAT(list(adam(), "codec=auto:from=int8/sign"), ElementsAre("int8", "sign"));
  EXPECT_THAT(list(adam(), "codec=int8"), IsEmpty());
}

TEST(PlanAdvice, WarnsOfAListWithBiasedCodecsForAdam) {
  const auto told = [](const OptimizerSpec& optimizer, const char* plan) {
    return warnings({plan::parse_plan(plan).value(), {optimizer}, {}, 4});
  };
  EXPECT_THAT(told(adam(), "codec=auto:from=int8/sign/topk"),
              ElementsAre(HasSubstr("leave sign, topk out of the list")));
  EXPECT_THAT(told(adam(), "codec=auto:from=int8/qsgd"), IsEmpty());
  EXPECT_THAT(told(adam(), "codec=auto"), IsEmpty());
  EXPECT_THAT(told(sgd(), "codec=auto:from=int8/sign"), IsEmpty());
}

}  // namespace
}  // namespace tally::exchange
