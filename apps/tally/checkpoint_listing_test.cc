#include "apps/tally/checkpoint_listing.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tally::app {
namespace {

CheckpointFacts whole() {
  return {
      .path = "runs/step-0000000120",
      .readable = true,
      .step = 120,
      .ranks = 2,
      .tensors = {{"fc.weight", DataType::kFloat32, {30, 64}}, {"steps\x1B", DataType::kInt64, {}}},
      .state_tensors = {{"fc.weight/momentum", DataType::kFloat32, {30, 64}}},
      .state = R"({"plan":"home=group","position":{"epoch":2,"samples":640}})"};
}

TEST(CheckpointListing, SaysStepRanksStateAndTensors) {
  EXPECT_EQ(listing(whole()), R"(runs/step-0000000120: whole
step 120, written by 2 ranks
plan: home=group
position.epoch: 2
position.samples: 640

model: 2 tensors, 7.508KiB
  name       type      shape  size
  fc.weight  float32   30x64  7.5KiB
  steps?     int64     -      8B

optimizer: 1 tensor, 7.5KiB
  name                type      shape  size
  fc.weight/momentum  float32   30x64  7.5KiB
)");
}

TEST(CheckpointListing, DamageComesFirstAndMayBeAll) {
  CheckpointFacts facts{.path = "a", .damage = "a/manifest.json: is missing"};
  EXPECT_EQ(listing(facts), "a: DAMAGED\na/manifest.json: is missing\n");
  EXPECT_EQ(to_json(facts).dump(),
            R"({"damage":"a/manifest.json: is missing","path":"a","whole":false})");
}

TEST(CheckpointListing, JsonHasTheSame) {
  const nlohmann::json json = to_json(whole());
  EXPECT_EQ(json["whole"], true);
  EXPECT_EQ(json["step"], 120);
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["state"]["position"]["epoch"], 2);
  EXPECT_EQ(json["tensors"][0].dump(),
            R"({"bytes":7680,"name":"fc.weight","shape":[30,64],"type":"float32"})");
  EXPECT_EQ(json["state_tensors"].size(), 1U);
}

TEST(CheckpointListing, LongValuesOfTheStateAreCut) {
  CheckpointFacts facts = whole();
  facts.state = R"({"random":")" + std::string(1000, 'x') + "\"}";
  EXPECT_NE(listing(facts).find("random: " + std::string(100, 'x') + "...\n"), std::string::npos);
}

}  // namespace
}  // namespace tally::app
