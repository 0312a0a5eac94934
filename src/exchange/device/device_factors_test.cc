#include "exchange/device/device_factors.h"

#include <gtest/gtest.h>

#include <cctype>

#include "exchange/device/device_exchange_test_support.h"

// powersgd of a DeviceExchange, compared with updates in plain loops and with a group in which each
// rank is a sender. The sums add in another order.
namespace tally::exchange {
namespace {

using collective::Network;

constexpr double kTolerance = 2e-5;

class DeviceFactorsOf : public testing::TestWithParam<std::string> {
 protected:
  GroupUpdate::Options options() const {
    return encoded_model(GetParam(), sgd({.rate = 0.1, .momentum = 0.9}));
  }
  // Trains with the same course on devices and in a group.
  void expect_the_model_of_a_group(const GroupUpdate::Options& options, const Course& course) {
    const Values expected = train(Network::kInProcess, 3, options, course)[0];
    for (const bool shards : {false, true}) {
      const auto trained =
          train_on_devices(Network::kInProcess, 3, options, course, {.shards_state = shards});
      EXPECT_LT(largest_difference(trained[0], expected), kTolerance)
          << (shards ? "sharded" : "replicated");
      EXPECT_TRUE(trained[1] == trained[0] && trained[2] == trained[0]);
    }
  }
};

TEST_P(DeviceFactorsOf, HasTheModelOfTheSlowRecipe) {
  for (const int ranks : {1, 2, 3}) {
    SlowRecipe expected(options(), single(ranks));
    expected.run({});
    const auto trained = train_on_devices(Network::kInProcess, ranks, options(), {});
    EXPECT_LT(largest_difference(trained[0], expected.values()), kTolerance) << ranks << " ranks";
    for (const Values& values : trained) EXPECT_TRUE(values == trained[0]);
  }
}

TEST_P(DeviceFactorsOf, HasTheModelOfAGroupThatClipsByValue) {
  auto clipped = options();
  clipped.clip_value = 0.02;
  expect_the_model_of_a_group(clipped, {.steps = 5});
}

// In each step another rank has no samples, one parameter is used by one rank only, and another by
// no rank.
TEST_P(DeviceFactorsOf, TakesGradientsThatAreMissing) {
  Course course;
  course.samples = [](Rank rank, int step) { return rank == step % 3 ? 0.0 : 4.0 + rank; };
  course.has = [](std::size_t p, Rank rank, int step) {
    if (p == 5) return step == 1;
    return p != 2 || rank != 1 || step == 2;
  };
  expect_the_model_of_a_group(options(), course);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceFactorsOf,
                         testing::Values("powersgd:2", "powersgd:4,warmup=2", "powersgd:2,all"),
                         [](const auto& each) {
                           std::string name = each.param;
                           for (char& letter : name)
                             if (std::isalnum(static_cast<unsigned char>(letter)) == 0)
                               letter = '_';
                           return name;
                         });

}  // namespace
}  // namespace tally::exchange
