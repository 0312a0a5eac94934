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

constexpr const char* kFamilyNames[] = {"mlp", "cnn", "gpt"};

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
                              {"rate", facts.rate},
                              {"momentum", facts.momentum}};
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
  }
  return json;
}

}  // namespace tally::bench::train
