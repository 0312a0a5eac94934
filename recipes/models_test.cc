// Compares the models with known numbers, such as their parameter counts.
#include <gtest/gtest.h>

#include "recipes/gpt/model.h"
#include "recipes/lenet/model.h"
#include "recipes/linear/model.h"
#include "recipes/mlp/model.h"
#include "recipes/resnet/model.h"
#include "recipes/task.h"

namespace tally::recipes {
namespace {

std::int64_t parameters_of(const torch::nn::Module& model) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

TEST(LeNet, HasTheParametersOfLeNet5ForBothImageSizes) {
  for (const std::int64_t size : {28, 32}) {
    LeNet model({.channels = 1, .size = size, .classes = 10});
    EXPECT_EQ(parameters_of(model), 61706);
    EXPECT_EQ(model.forward(torch::zeros({3, 1, size, size})).sizes(), (at::IntArrayRef{3, 10}));
  }
}

TEST(Mlp, HasTheParametersOfItsLayers) {
  Mlp model({.inputs = 784, .width = 2048, .hidden_layers = 2, .outputs = 10});
  EXPECT_EQ(parameters_of(model), (784 + 1) * 2048 + (2048 + 1) * 2048 + (2048 + 1) * 10);
  EXPECT_EQ(model.forward(torch::zeros({2, 1, 28, 28})).sizes(), (at::IntArrayRef{2, 10}));
}

TEST(ResNet18, HasTheKnownParametersWithTheSmallStem) {
  ResNet model(resnet18({.channels = 3, .size = 32, .classes = 10}));
  EXPECT_EQ(parameters_of(model), 11173962);
  EXPECT_EQ(model.forward(torch::zeros({2, 3, 32, 32})).sizes(), (at::IntArrayRef{2, 10}));
}

TEST(ResNet50, HasTheKnownParametersWithTheLargeStem) {
  ResNet model(resnet50({.channels = 3, .size = 224, .classes = 1000}));
  EXPECT_EQ(parameters_of(model), 25557032);
  EXPECT_EQ(model.forward(torch::zeros({2, 3, 64, 64})).sizes(), (at::IntArrayRef{2, 1000}));
}

// ImageNet's size. The last convolutions have 7x7 pixels, and every parameter has a gradient.
TEST(ResNet50, ComputesGradientsOfAPictureOfThePublishedSize) {
  torch::manual_seed(6);
  ResNet model(resnet50({.channels = 3, .size = 224, .classes = 1000}));
  const at::Tensor scores = model.forward(torch::randn({1, 3, 224, 224}));
  mean_loss(Task::kClassification, scores, torch::tensor({7}, at::kLong)).backward();
  for (const auto& parameter : model.named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>()) << parameter.key();
  }
}

TEST(ResNet50, HasTheNamesThatTorchvisionGives) {
  const ResNet model(resnet50({.channels = 3, .size = 224, .classes = 1000}));
  const auto names = model.named_parameters().keys();
  for (const char* name : {"conv1.weight", "bn1.bias", "layer1.0.downsample.0.weight",
                           "layer3.5.conv3.weight", "layer4.2.bn3.weight", "fc.bias"})
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
}

TEST(Gpt, HasTheParametersOfTheFormula) {
  const GptShape shape{.symbols = 65, .context = 128, .layers = 4, .heads = 4, .width = 256};
  // The token and position tables, four blocks of attention (4w²+4w), feed-forward layers
  // (8w²+5w) and norms (4w), and the final norm.
  EXPECT_EQ(parameters_of(Gpt(shape)), (65 + 128) * 256 + 4 * (12 * 256 * 256 + 13 * 256) + 512);
  EXPECT_EQ(parameters_of(Gpt({.symbols = 7, .context = 5, .layers = 1, .heads = 2, .width = 6})),
            (7 + 5) * 6 + 12 * 36 + 13 * 6 + 2 * 6);
}

// The shape of nanoGPT's training on tiny Shakespeare. nanoGPT prints 10.65 million parameters: it
// counts those of the positions, 256 x 384, apart.
TEST(Gpt, HasTheParametersOfNanoGptWithoutBiases) {
  const Gpt model({.symbols = 65,
                   .context = 256,
                   .layers = 6,
                   .heads = 6,
                   .width = 384,
                   .dropout = 0.2,
                   .bias = false});
  EXPECT_EQ(parameters_of(model), 65 * 384 + 256 * 384 + 6 * (12 * 384 * 384 + 2 * 384) + 384);
  EXPECT_EQ(parameters_of(model) - 256 * 384, 10646784);
  for (const auto& parameter : model.named_parameters())
    EXPECT_EQ(parameter.key().find("bias"), std::string::npos) << parameter.key();
}

// The smallest of GPT-2: the symbols of its byte pairs, of which this recipe knows only characters.
TEST(Gpt, HasTheParametersOfGpt2) {
  const Gpt model(
      {.symbols = 50257, .context = 1024, .layers = 12, .heads = 12, .width = 768, .dropout = 0.1});
  EXPECT_EQ(parameters_of(model), 124439808);
}

// The weights of residual branches begin with the deviation 0.02 / sqrt(2 * layers).
TEST(Gpt, BeginsWithThePublishedDeviations) {
  torch::manual_seed(2);
  const Gpt model({.symbols = 65, .context = 64, .layers = 8, .heads = 4, .width = 128});
  for (const auto& parameter : model.named_parameters()) {
    if (parameter.value().dim() < 2) continue;
    const bool is_residual = parameter.key().find("c_proj") != std::string::npos;
    const double deviation = is_residual ? 0.005 : 0.02;
    EXPECT_NEAR(parameter.value().std().item<double>(), deviation, 0.03 * deviation)
        << parameter.key();
  }
}

// A window that is shorter than the context has the positions of its beginning.
TEST(Gpt, ScoresAPrefixAsThePartOfAWhole) {
  torch::manual_seed(8);
  const torch::NoGradGuard no_gradients;
  for (const bool bias : {true, false}) {
    Gpt model({.symbols = 11, .context = 8, .layers = 2, .heads = 2, .width = 16, .bias = bias});
    const at::Tensor symbols = torch::randint(11, {2, 8}, at::kLong);
    const at::Tensor scores = model.forward(symbols);
    EXPECT_TRUE(torch::allclose(model.forward(symbols.narrow(1, 0, 5)), scores.narrow(1, 0, 5),
                                1e-5, 1e-6));
  }
}

TEST(Gpt, LaterSymbolsChangeNoEarlierScore) {
  torch::manual_seed(3);
  const torch::NoGradGuard no_gradients;
  Gpt model({.symbols = 11, .context = 8, .layers = 2, .heads = 2, .width = 16});
  const at::Tensor symbols = torch::randint(11, {2, 8}, at::kLong);
  const at::Tensor scores = model.forward(symbols);
  for (std::int64_t place = 1; place < 8; ++place) {
    at::Tensor changed = symbols.clone();
    changed.select(1, place).add_(1).remainder_(11);
    const at::Tensor others = model.forward(changed);
    EXPECT_TRUE(torch::equal(scores.narrow(1, 0, place), others.narrow(1, 0, place))) << place;
    EXPECT_FALSE(torch::equal(scores.select(1, place), others.select(1, place))) << place;
  }
}

// One matrix serves as the token embedding and as the output layer. Its gradient has both parts.
TEST(Gpt, ReadsAndScoresWithOneMatrix) {
  torch::manual_seed(4);
  Gpt model({.symbols = 9, .context = 4, .layers = 1, .heads = 1, .width = 8});
  int tables = 0;
  for (const auto& parameter : model.named_parameters())
    if (parameter.value().size(0) == 9) ++tables;
  EXPECT_EQ(tables, 1);
  const at::Tensor table = model.named_parameters()["wte.weight"];
  const at::Tensor symbols = torch::zeros({1, 4}, at::kLong);
  model.forward(symbols).sum().backward();
  // Token 5 is not in the input, so the gradient of its row comes from the output layer.
  EXPECT_GT(table.grad()[5].abs().sum().item<double>(), 0);
  EXPECT_FALSE(torch::equal(table.grad()[0], table.grad()[5]));
  const at::Tensor before = model.forward(symbols).detach();
  const torch::NoGradGuard no_gradients;
  table[5].mul_(2);
  const at::Tensor after = model.forward(symbols);
  EXPECT_TRUE(torch::allclose(after.select(2, 5), 2 * before.select(2, 5)));
  EXPECT_TRUE(torch::equal(after.select(2, 4), before.select(2, 4)));
}

TEST(Gpt, DropsOnlyWhileItTrains) {
  torch::manual_seed(5);
  const torch::NoGradGuard no_gradients;
  Gpt model({.symbols = 9, .context = 4, .layers = 1, .heads = 1, .width = 8, .dropout = 0.5});
  const at::Tensor symbols = torch::ones({1, 4}, at::kLong);
  EXPECT_FALSE(torch::equal(model.forward(symbols), model.forward(symbols)));
  model.eval();
  EXPECT_TRUE(torch::equal(model.forward(symbols), model.forward(symbols)));
}

TEST(LinearModel, BeginsAtZeroAndTellsItsWeights) {
  const LinearModel model(3);
  EXPECT_EQ(parameters_of(model), 4);
  EXPECT_EQ(model.weights(), std::vector<double>(4, 0.0));
}

TEST(Task, LossesAndCountsAreThoseOfAPlainLoop) {
  const at::Tensor scores = torch::tensor({{2.0F, 0.0F}, {1.0F, 3.0F}, {0.5F, 0.0F}});
  const at::Tensor target = torch::tensor({0, 0, 1}, at::kLong);
  const double expected =
      std::log(1 + std::exp(-2.0)) + std::log(1 + std::exp(2.0)) + std::log(1 + std::exp(0.5));
  const Judgement judgement = judge(Task::kClassification, scores, target);
  EXPECT_NEAR(judgement.loss, expected, 1e-6);
  EXPECT_EQ(judgement.correct, 1);
  EXPECT_EQ(judgement.predictions, 3);
  EXPECT_NEAR(mean_loss(Task::kClassification, scores, target).item<double>(), expected / 3, 1e-6);

  const at::Tensor places = scores.reshape({1, 3, 2});
  EXPECT_NEAR(judge(Task::kLanguage, places, target.reshape({1, 3})).loss, expected, 1e-6);

  const Judgement distance =
      judge(Task::kRegression, torch::tensor({{1.0F}, {2.0F}}), torch::tensor({3.0F, 2.5F}));
  EXPECT_NEAR(distance.loss, 4.25, 1e-6);
  EXPECT_EQ(distance.correct, 0);
}

// 1.01 is no bfloat16: a target that is rounded to the type of the output would be 1.0078.
TEST(Task, ARegressionInHalfPrecisionKeepsItsTargets) {
  const at::Tensor output = torch::tensor({1.0F, 1.0F}).to(at::kBFloat16);
  const at::Tensor target = torch::tensor({1.01F, 0.99F});
  const at::Tensor loss = mean_loss(Task::kRegression, output, target);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_NEAR(loss.item<double>(), 1e-4, 1e-8);
}

}  // namespace
}  // namespace tally::recipes
