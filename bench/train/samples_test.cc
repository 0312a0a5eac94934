#include "bench/train/samples.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tally::bench::train {
namespace {

using ::testing::Each;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

TEST(ModelFacts, AreThoseOfTheQuestion) {
  const auto mlp = find_model("mlp");
  EXPECT_EQ(mlp->widths, (std::vector<std::int64_t>{784, 2048, 2048, 10}));
  EXPECT_EQ(mlp->units(), 64);
  const auto cnn = find_model("cnn");
  std::size_t convolutions = 0;
  for (const auto& stage : cnn->stages) convolutions += stage.size();
  EXPECT_EQ(convolutions, 7U);
  EXPECT_EQ(cnn->units(), 32);
  const auto gpt = find_model("gpt");
  EXPECT_EQ(gpt->units(), 8 * 128);
  EXPECT_STREQ(gpt->unit(), "tokens");
  EXPECT_EQ(to_json(*gpt)["context"], 128);
  EXPECT_THAT(find_model("resnet").error().message,
              HasSubstr("no model resnet: there are mlp, cnn, gpt"));
}

TEST(Samples, HaveTheShapeOfTheModel) {
  for (const char* const name : {"tiny-mlp", "tiny-cnn", "tiny-gpt"}) {
    const ModelFacts facts = *find_model(name);
    const Samples samples = make_samples(facts, 3, 1);
    const std::int64_t count = kBatches * 3 * facts.batch;
    const std::int64_t values = std::accumulate(facts.input.begin(), facts.input.end(),
                                                std::int64_t{1}, std::multiplies<>());
    const bool text = facts.family == Family::kGpt;
    EXPECT_EQ(samples.inputs.size(), static_cast<std::size_t>(text ? 0 : count * values));
    EXPECT_EQ(samples.symbols.size(), static_cast<std::size_t>(text ? count * values : 0));
    EXPECT_EQ(samples.targets.size(), static_cast<std::size_t>(text ? count * values : count));
    EXPECT_THAT(samples.targets, Each(testing::AllOf(Ge(0), Lt(facts.classes))));
    EXPECT_THAT(samples.symbols, Each(testing::AllOf(Ge(0), Lt(facts.classes))));
  }
}

TEST(Samples, AreTheSameForTheSameSeedAndDifferByRank) {
  const ModelFacts facts = *find_model("tiny-mlp");
  const Samples samples = make_samples(facts, 2, 5);
  EXPECT_EQ(samples.inputs, make_samples(facts, 2, 5).inputs);
  EXPECT_NE(samples.inputs, make_samples(facts, 2, 6).inputs);
  const auto part = samples.inputs.begin() + facts.batch * facts.input.front();
  EXPECT_FALSE(std::equal(samples.inputs.begin(), part, part));
}

TEST(Samples, TargetsOfATextAreItsNextSymbols) {
  const ModelFacts facts = *find_model("tiny-gpt");
  const Samples samples = make_samples(facts, 1, 1);
  const auto context = static_cast<std::size_t>(facts.input.front());
  for (std::size_t i = 0; i + 1 < samples.symbols.size(); ++i)
    if ((i + 1) % context != 0) {
      EXPECT_EQ(samples.targets[i], samples.symbols[i + 1]);
    }
}

}  // namespace
}  // namespace tally::bench::train
