// `tally train --record-gradients`: the file has the gradients that moved the parameters.
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "checkpoint/tensor_file.h"
#include "process/torch/training.h"
#include "tally/checkpoint.h"

namespace tally::process {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<float>;

constexpr double kRate = 0.25;
constexpr std::uint64_t kMaxBytes = 1 << 20;

class TrainGradients : public testing::Test {
 protected:
  // Plain descent at a constant rate, so that the gradient follows from two checkpoints.
  Child start(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"mlp",
                                      "--data",
                                      table_,
                                      "--batch",
                                      "10",
                                      "--width",
                                      "4",
                                      "--layers",
                                      "1",
                                      "--steps",
                                      "8",
                                      "--optimizer",
                                      "sgd",
                                      "--rate",
                                      fmt::format("{}", kRate),
                                      "--schedule",
                                      "constant",
                                      "--eval-every",
                                      "never",
                                      "--keep",
                                      "9",
                                      "--checkpoint-every",
                                      "1",
                                      "--checkpoint",
                                      folder_.file("saved")};
    words.insert(words.end(), more.begin(), more.end());
    return folder_.train(words);
  }

  std::map<std::string, Values> recorded() const {
    const auto tensors = checkpoint::read_float_tensors(folder_.file("gradients"), kMaxBytes);
    EXPECT_TRUE(tensors.has_value()) << (tensors ? "" : to_string(tensors.error()));
    std::map<std::string, Values> found;
    if (tensors)
      for (const auto& tensor : *tensors) found[tensor.name] = tensor.values;
    return found;
  }

  std::map<std::string, Values> parameters(std::uint64_t step) const {
    const auto reader = checkpoint::Reader::open(checkpoint::path_of(folder_.file("saved"), step));
    EXPECT_TRUE(reader.has_value());
    std::map<std::string, Values> found;
    if (!reader) return found;
    for (const auto& tensor : (*reader)->tensors()) {
      std::size_t count = 1;
      for (const std::int64_t size : tensor.shape) count *= static_cast<std::size_t>(size);
      Values values(count);
      EXPECT_TRUE(
          (*reader)->read(tensor.name, 0, std::as_writable_bytes(std::span(values))).has_value());
      found[tensor.name] = values;
    }
    return found;
  }

  // The largest difference between the recorded gradient of a step and that of the update, and the
  // size of the gradient.
  struct Distance {
    double apart = 0;
    double size = 0;
    std::size_t tensors = 0;
  };
  Distance distance(std::uint64_t step) const {
    const auto gradients = recorded();
    const auto before = parameters(step - 1);
    const auto after = parameters(step);
    Distance result;
    for (const auto& [name, old] : before) {
      const auto found = gradients.find(fmt::format("step.{}/{}", step, name));
      if (found == gradients.end() || found->second.size() != old.size()) continue;
      ++result.tensors;
      for (std::size_t i = 0; i < old.size(); ++i) {
        const double moved = (double{old[i]} - double{after.at(name)[i]}) / kRate;
        result.apart = std::max(result.apart, std::abs(moved - double{found->second[i]}));
        result.size = std::max(result.size, std::abs(moved));
      }
    }
    EXPECT_EQ(result.tensors, before.size());
    return result;
  }

  const TrainingFolder folder_;
  const std::string table_ = folder_.table(200);
};

TEST_F(TrainGradients, OfOneWorkerAreWhatMovedItsParameters) {
  Child tally = start(
      {"--workers", "1", "--record-gradients", folder_.file("gradients") + ",every=3,steps=2"});
  ASSERT_TRUE(tally.exits(0, kTrainingTime)) << tally.transcript();
  EXPECT_THAT(tally.output(), HasSubstr("gradients of steps 3, 6 in "));
  const auto gradients = recorded();
  EXPECT_EQ(gradients.size(), 2 * parameters(3).size());
  for (const std::uint64_t step : {3, 6}) {
    const Distance found = distance(step);
    EXPECT_GT(found.size, 1e-3);
    EXPECT_LT(found.apart, 1e-6) << step;  // the rounding of parameters around 1
  }
  for (const auto& [name, values] : parameters(3))
    EXPECT_NE(gradients.at("step.3/" + name), gradients.at("step.6/" + name)) << name;
  EXPECT_TRUE(folder_.left_nothing_behind());
}

// Gradients before the exchange: rank 0 has seen half of the samples.
TEST_F(TrainGradients, OfTwoWorkersAreThoseOfTheFirst) {
  Child tally =
      start({"--workers", "2", "--record-gradients", folder_.file("gradients") + ",steps=1"});
  ASSERT_TRUE(tally.exits(0, kTrainingTime)) << tally.transcript();
  EXPECT_THAT(tally.output(), HasSubstr("gradients of step 8 in "));
  const Distance found = distance(8);
  EXPECT_GT(found.apart, 1e-4);
  EXPECT_LT(found.apart, 10 * found.size);
  for (const auto& [name, values] : recorded())
    for (const float value : values) EXPECT_TRUE(std::isfinite(value)) << name;
}

TEST_F(TrainGradients, WhatDoesNotGoTogetherIsRefused) {
  const std::string file = folder_.file("gradients");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--record-gradients", file + ",evry=3"}, "--record-gradients: 'evry=3'"},
      {{"--record-gradients", file + ",every=9"}, "only 8 steps"},
      {{"--record-gradients", file, "--accumulate", "2"}, "--accumulate 2"},
      {{"--record-gradients", folder_.file("none/gradients")}, "there is no folder"},
      {{"--record-gradients", file, "--width", "9000", "--layers", "2"}, "would fit"},
  };
  for (const auto& [words, says] : cases) {
    Child tally = start(words);
    EXPECT_TRUE(tally.exits(2)) << tally.transcript();
    EXPECT_THAT(tally.errors(), HasSubstr(says));
  }
}

}  // namespace
}  // namespace tally::process
