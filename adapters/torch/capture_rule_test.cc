#include "adapters/torch/capture_rule.h"

#include <string>

#include <gtest/gtest.h>

namespace tally::adapter {
namespace {

using Tensors = std::shared_ptr<const BatchTensors>;

Tensors some_tensors() { return std::make_shared<const BatchTensors>(); }

// One letter for each of `steps` steps: plain, capture or replay.
std::string ways(CaptureRule& rule, int steps, std::uint64_t samples,
                 const std::vector<Tensors>& loaded = {}) {
  std::string letters;
  for (int step = 0; step < steps; ++step) {
    for (const Tensors& tensors : loaded) rule.loaded(tensors);
    letters += "PCR"[static_cast<int>(rule.next(samples))];
  }
  return letters;
}

TEST(CaptureRule, CapturesTheFourthStepAndReplaysIt) {
  CaptureRule rule;
  EXPECT_EQ(ways(rule, 8, 24), "PPPCRRRR");
}

TEST(CaptureRule, SmallerBatchesArePlainAndLeaveTheGraph) {
  CaptureRule rule;
  EXPECT_EQ(ways(rule, 5, 24), "PPPCR");
  EXPECT_EQ(ways(rule, 1, 7), "P");
  EXPECT_EQ(ways(rule, 2, 24), "RR");
}

TEST(CaptureRule, ALargerBatchThanTheFirstBeginsAnew) {
  CaptureRule rule;
  EXPECT_EQ(ways(rule, 1, 7), "P");
  EXPECT_EQ(ways(rule, 5, 24), "PPPCR");
  EXPECT_EQ(ways(rule, 5, 32), "PPPCR");
}

TEST(CaptureRule, BatchesOfAnotherShardAreNotReplayed) {
  CaptureRule rule;
  const Tensors first = some_tensors();
  const Tensors second = some_tensors();
  EXPECT_EQ(ways(rule, 5, 24, {first}), "PPPCR");
  EXPECT_EQ(ways(rule, 5, 24, {second}), "PPPCR");
  EXPECT_EQ(ways(rule, 5, 24, {first}), "PPPCR");
  // Also if they are smaller than those of the first one.
  EXPECT_EQ(ways(rule, 5, 16, {second}), "PPPCR");
}

TEST(CaptureRule, TwoShardsInEachStepAreOneKindOfStep) {
  CaptureRule rule;
  const Tensors first = some_tensors();
  const Tensors second = some_tensors();
  EXPECT_EQ(ways(rule, 3, 24, {first, second}), "PPP");
  EXPECT_EQ(ways(rule, 3, 24, {second, first}), "CRR");
  EXPECT_EQ(ways(rule, 5, 24, {first}), "PPPCR");
}

// Batches of both are loaded, then there is a step for each: only the first ones are alike.
TEST(CaptureRule, AStepWithTheOtherOfTwoLoadedBatchesIsPlain) {
  CaptureRule rule;
  const Tensors first = some_tensors();
  const Tensors second = some_tensors();
  std::string letters;
  for (int turn = 0; turn < 5; ++turn)
    letters += ways(rule, 1, 24, {first, second}) + ways(rule, 1, 24);
  EXPECT_EQ(letters, "PPPPPPCPRP");
}

TEST(CaptureRule, ABatchIsReplayedAgain) {
  CaptureRule rule;
  const Tensors tensors = some_tensors();
  EXPECT_EQ(ways(rule, 1, 24, {tensors}), "P");
  EXPECT_EQ(ways(rule, 5, 24), "PPCRR");
  EXPECT_EQ(ways(rule, 1, 24, {tensors}), "R");
}

TEST(CaptureRule, KeepsTheTensorsOfTheGraph) {
  CaptureRule rule;
  Tensors tensors = some_tensors();
  const std::weak_ptr<const BatchTensors> weak = tensors;
  EXPECT_EQ(ways(rule, 4, 24, {tensors}), "PPPC");
  tensors.reset();
  EXPECT_FALSE(weak.expired());
  EXPECT_EQ(ways(rule, 1, 24, {some_tensors()}), "P");
  EXPECT_TRUE(weak.expired());
}

TEST(CaptureRule, CapturesAgainAfterTheModelHasMoved) {
  CaptureRule rule;
  EXPECT_EQ(ways(rule, 5, 24), "PPPCR");
  rule.forget_graph();
  EXPECT_EQ(ways(rule, 5, 24), "PPPCR");
}

TEST(CaptureRule, AfterGivingUpAllStepsArePlain) {
  CaptureRule rule;
  EXPECT_EQ(ways(rule, 4, 24), "PPPC");
  rule.give_up();
  EXPECT_FALSE(rule.wants_batches());
  EXPECT_EQ(ways(rule, 5, 32), "PPPPP");
}

}  // namespace
}  // namespace tally::adapter
