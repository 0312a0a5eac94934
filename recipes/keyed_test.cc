// Compares the layers of the models for keyed tables with a plain computation of their definitions.
#include "recipes/keyed.h"

#include <cmath>

#include <gtest/gtest.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "data/permutation.h"
#include "recipes/deepfm/model.h"
#include "recipes/logistic/model.h"
#include "recipes/task.h"
#include "recipes/widedeep/model.h"

namespace tally::recipes {
namespace {

using Numbers = std::vector<double>;

// Builds samples from these keys and values; both are [samples, slots] in row-major order.
at::Tensor samples(std::int64_t slots, const std::vector<std::int64_t>& keys,
                   const Numbers& values) {
  const at::Tensor key = at::tensor(keys, at::kLong).view({-1, slots});
  const at::Tensor value = at::tensor(values, at::kDouble).view(at::kLong).view({-1, slots});
  return at::stack({key, value}, 1);
}

TEST(Binary, LossIsTheLogLossAndZeroIsTheBorder) {
  const Numbers logits = {2, -1, 0.5, -3};
  const std::vector<std::int64_t> labels = {1, 0, 0, 1};
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double yes = 1 / (1 + std::exp(-logits[i]));
    sum -= std::log(labels[i] == 1 ? yes : 1 - yes);
  }
  const at::Tensor output = at::tensor(logits, at::kDouble);
  const at::Tensor target = at::tensor(labels, at::kLong);
  EXPECT_NEAR(mean_loss(Task::kBinary, output, target).item<double>(), sum / 4, 1e-12);
  const Judgement judgement = judge(Task::kBinary, output, target);
  EXPECT_NEAR(judgement.loss, sum, 1e-6);
  EXPECT_EQ(judgement.correct, 2);
  EXPECT_EQ(judgement.predictions, 4);
}

TEST(Logistic, IsTheSumOfWeightsTimesValues) {
  Logistic model({.rows = 16});
  {
    const at::NoGradGuard no_grad;
    model.named_parameters()["linear.weight"].copy_(at::arange(16).view({16, 1}));
    model.named_parameters()["bias"].fill_(0.5);
  }
  const at::Tensor logits =
      model.forward(samples(3, {2, 5, -1, 7, -1, -1}, {1, -2, 0, 0.25, 0, 0}));
  EXPECT_NEAR(logits[0].item<double>(), 2 - 10 + 0.5, 1e-6);
  EXPECT_NEAR(logits[1].item<double>(), 7 * 0.25 + 0.5, 1e-6);
}

TEST(DeepFm, PairProductsAreThoseOfAllPairs) {
  const at::Tensor vectors = at::arange(2 * 5 * 3, at::kDouble).mul(0.37).sin().view({2, 5, 3});
  at::Tensor expected = at::zeros({2}, at::kDouble);
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t j = i + 1; j < 5; ++j)
      expected += (vectors.select(1, i) * vectors.select(1, j)).sum(1);
  EXPECT_TRUE(at::allclose(pair_products(vectors), expected));
}

TEST(Shrinking, GradientIsThatOfAPenaltyOnTheRowsUsed) {
  constexpr double kL2 = 0.3;
  const at::Tensor rows = at::arange(8, at::kDouble).mul(0.9).cos().view({4, 2}).requires_grad_();
  const at::Tensor weights = at::arange(8, at::kDouble).view({4, 2});
  (shrinking(rows, kL2) * weights).mean().backward();
  const at::Tensor plain = rows.detach().clone().requires_grad_();
  ((plain * weights).mean() + kL2 / 2 * plain.square().sum(1).mean()).backward();
  EXPECT_TRUE(at::allclose(rows.grad(), plain.grad()));
  EXPECT_TRUE(at::equal(shrinking(rows, kL2), rows));
}

TEST(Crosses, AreThoseOfTheFieldsThatThereAre) {
  EXPECT_EQ(crosses_for({"sex", "x", "marital-status", "education"}), (std::vector<Cross>{{0, 2}}));
  EXPECT_EQ(crosses_for({"user", "movie", "Drama", "War"}), (std::vector<Cross>{{0, 2}, {0, 3}}));
  EXPECT_EQ(crosses_for({"user", "user value", "movie", "price", "price value"}),
            (std::vector<Cross>{{0, 3}}));
  EXPECT_TRUE(crosses_for({"user", "something"}).empty());
  EXPECT_TRUE(crosses_for({}).empty());
}

TEST(Crosses, HaveAKeyOfTheirOwnWhereAllSlotsAreFilled) {
  const at::Tensor keys = at::tensor({1, 2, 3, 1, 2, 4, 1, -1, 3}, at::kLong).view({3, 3});
  const at::Tensor crossed = crossed_keys(keys, {{0, 1}, {1, 2}, {0, 1}});
  EXPECT_TRUE(crossed[0][0].equal(crossed[1][0]));
  EXPECT_FALSE(crossed[0][1].equal(crossed[1][1]));
  EXPECT_FALSE(crossed[0][0].equal(crossed[0][2]));  // the same slots in another cross
  EXPECT_TRUE(crossed[2].equal(at::full({3}, -1, at::kLong)));
  EXPECT_TRUE(crossed.slice(0, 0, 2).ge(0).all().item<bool>());
  EXPECT_EQ(crossed_keys(keys, {}).sizes(), (at::IntArrayRef{3, 0}));
}

TEST(Crosses, HaveTheMixOfTheirNumberAndTheirKeys) {
  const std::vector<std::int64_t> keys = {5, std::int64_t{1} << 62, 77};
  const std::vector<Cross> crosses = {{0, 1}, {2, 1, 0}};
  const at::Tensor crossed = crossed_keys(at::tensor(keys, at::kLong).view({1, 3}), crosses);
  for (std::size_t i = 0; i < crosses.size(); ++i) {
    std::uint64_t key = i;
    for (const std::int64_t slot : crosses[i])
      key = data::mix(key, static_cast<std::uint64_t>(keys[static_cast<std::size_t>(slot)]));
    EXPECT_EQ(crossed[0][static_cast<std::int64_t>(i)].item<std::int64_t>(),
              static_cast<std::int64_t>(key >> 1));
  }
}

// The number of samples and the keys differ from those of the example.
TEST(KeyedModels, RecordedGraphComputesWithOtherKeys) {
  const KeyedShape shape{.slots = 3, .rows = 100, .embedding = 4, .hidden = 8, .l2 = 0.1};
  const std::vector<std::shared_ptr<KeyedModel>> models = {
      std::make_shared<Logistic>(shape), std::make_shared<DeepFm>(shape),
      std::make_shared<WideDeep>(shape, std::vector<Cross>{{0, 1}, {0, 1, 2}}),
      std::make_shared<WideDeep>(shape, std::vector<Cross>{})};
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kLarge = std::int64_t{1} << 62;
  const KeyedBatch example = keyed_batch(samples(3, {1, kLarge, -1, 2, 3, 4}, {1, 1, 0, 2, 2, 2}));
  const KeyedBatch other = keyed_batch(samples(
      3, {kLarge - 1, 9, 99, -1, 100, 101, 5, kLarge + 7, -1}, {1, 2, 3, 0, 4, 5, 6, 7, 0}));
  for (const auto& model : models) {
    model->eval();
    for (at::Tensor& parameter : model->parameters()) parameter.normal_().set_requires_grad(false);
    const auto compute = [&model](torch::jit::Stack inputs) -> torch::jit::Stack {
      return {model->forward_batch({inputs.at(0).toTensor(), inputs.at(1).toTensor()})};
    };
    const auto traced = torch::jit::tracer::trace({example.keys, example.values}, compute,
                                                  [](const at::Tensor&) { return std::string(); });
    torch::jit::Stack stack = {other.keys, other.values};
    torch::jit::GraphFunction("recorded", traced.first->graph, nullptr).run(stack);
    EXPECT_TRUE(at::allclose(stack.at(0).toTensor(), model->forward_batch(other)));
  }
}

TEST(WideDeep, ForgetsNothingOfTheWidePart) {
  WideDeep model({.slots = 2, .rows = 1000, .dropout = 0}, std::vector<Cross>{{0, 1}});
  const at::Tensor input = samples(2, {3, 4, 3, -1}, {1, 1, 1, 0});
  const at::Tensor before = model.forward(input).detach();
  {
    const at::NoGradGuard no_grad;
    model.named_parameters()["wide.weight"].add_(1);
  }
  // The first sample has two keys and their cross, the second has one key.
  const at::Tensor more = model.forward(input).detach() - before;
  EXPECT_NEAR(more[0].item<double>(), 3, 1e-5);
  EXPECT_NEAR(more[1].item<double>(), 1, 1e-5);
}

TEST(KeyedModels, InputsOfAnotherShapeAreRefused) {
  Logistic model({.rows = 16});
  EXPECT_THROW(model.forward(at::zeros({4, 3}, at::kLong)), c10::Error);
  EXPECT_THROW(model.forward(at::zeros({4, 2, 3})), c10::Error);
}

}  // namespace
}  // namespace tally::recipes
