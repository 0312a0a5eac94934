#include "bench/train/model_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace tally::bench::train {
namespace {

// Batch norms amplify rounding: changing the last bit of the initial weights changes the loss of
// step 20 by a relative 4e-4 with a learning rate of 0.01, and by 1e-5 with this one. Two correct
// trainers must agree to 1e-4.
constexpr double kCnnRate = 0.001;

// A third of what trains gpt10m best, for the same reason: the first steps of AdamW have its full
// size whatever the gradient is.
constexpr double kAdamWRate = 3e-4;

constexpr const char* kFamilyNames[] = {"mlp", "cnn", "gpt", "resnet"};
constexpr const char* kUpdateNames[] = {"sgd", "adamw"};

std::vector<ModelFacts> all_models() {
  return {
      {.name = "mlp",
       .family = Family::kMlp,
       .input = {784},
       .batch = 64,
       .widths = {784, 2048, 2048, 10}},
      {.name = "cnn",
       .family = Family::kCnn,
       .input = {3, 32, 32},
       .batch = 32,
       .stages = {{64, 64}, {128, 128}, {256, 256, 256}},
       .rate = kCnnRate},
      {.name = "gpt",
       .family = Family::kGpt,
       .input = {128},
       .target = {128},
       .classes = 65,
       .batch = 8,
       .layers = 4,
       .width = 256,
       .heads = 4},
      {.name = "resnet18",
       .family = Family::kResnet,
       .input = {3, 32, 32},
       .batch = 128,
       .blocks = {2, 2, 2, 2},
       .rate = kCnnRate,
       .weight_decay = 5e-4},
      {.name = "gpt10m",
       .family = Family::kGpt,
       .input = {256},
       .target = {256},
       .classes = 65,
       .batch = 64,
       .layers = 6,
       .width = 384,
       .heads = 6,
       .update = Update::kAdamW,
       .rate = kAdamWRate,
       .beta2 = 0.99,
       .weight_decay = 0.1},
      {.name = "tiny-mlp",
       .family = Family::kMlp,
       .input = {12},
       .batch = 8,
       .widths = {12, 16, 16, 10}},
      {.name = "tiny-cnn",
       .family = Family::kCnn,
       .input = {3, 8, 8},
       .batch = 4,
       .stages = {{4, 4}, {8}}},
      {.name = "tiny-gpt",
       .family = Family::kGpt,
       .input = {16},
       .target = {16},
       .classes = 11,
       .batch = 2,
       .layers = 2,
       .width = 16,
       .heads = 2},
      {.name = "tiny-resnet",
       .family = Family::kResnet,
       .input = {3, 8, 8},
       .batch = 4,
       .blocks = {1, 1, 1, 1},
       .rate = kCnnRate,
       .weight_decay = 5e-4},
      {.name = "tiny-adamw",
       .family = Family::kGpt,
       .input = {16},
       .target = {16},
       .classes = 11,
       .batch = 2,
       .layers = 2,
       .width = 16,
       .heads = 2,
       .update = Update::kAdamW,
       .rate = kAdamWRate,
       .beta2 = 0.99,
       .weight_decay = 0.1},
  };
}

}  // namespace

Result<ModelFacts> find_model(std::string_view name) {
  std::vector<std::string> names;
  for (ModelFacts& facts : all_models()) {
    if (facts.name == name) return std::move(facts);
    names.push_back(facts.name);
  }
  return invalid(fmt::format("no model {}: there are {}", name, fmt::join(names, ", ")));
}

nlohmann::ordered_json to_json(const ModelFacts& facts) {
  nlohmann::ordered_json json{{"family", kFamilyNames[static_cast<std::size_t>(facts.family)]},
                              {"input", facts.input},
                              {"target", facts.target},
                              {"classes", facts.classes},
                              {"batch", facts.batch},
                              {"optimizer", kUpdateNames[static_cast<std::size_t>(facts.update)]},
                              {"rate", facts.rate},
                              {"momentum", facts.momentum},
                              {"beta2", facts.beta2},
                              {"weight_decay", facts.weight_decay}};
  switch (facts.family) {
    case Family::kMlp:
      json["widths"] = facts.widths;
      break;
    case Family::kCnn:
      json["stages"] = facts.stages;
      break;
    case Family::kGpt:
      json["layers"] = facts.layers;
      json["width"] = facts.width;
      json["heads"] = facts.heads;
      json["context"] = facts.input.front();
      break;
    case Family::kResnet:
      json["blocks"] = facts.blocks;
      break;
  }
  return json;
}

}  // namespace tally::bench::train
