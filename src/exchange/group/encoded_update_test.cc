#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/group/encoded_update_test_support.h"

namespace tally::exchange {
namespace {

using collective::Network;

struct Case {
  std::string codec;
  OptimizerSpec optimizer;
};
const std::vector<Case>& cases() {
  const OptimizerSpec momentum = sgd({.rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  static const std::vector<Case> all = {
      {"fp16", momentum},
      {"bf16", adam({.rate = 0.01})},
      {"int8", momentum},
      {"int8:64,all,feedback=on", sgd({.rate = 0.1})},
      {"fp8:e4m3", momentum},
      {"natural", momentum},
      {"qsgd:4", momentum},
      {"ternary", momentum},
      {"onebit:column", momentum},
      {"sign", adam({.rate = 0.01})},
      {"sign:64,vote", momentum},
      {"onebit-adam:2", adam({.rate = 0.01})},
      {"topk:0.05", momentum},
      {"topk:0.05,exact,all", momentum},
      {"randk:0.1", momentum},
      {"threshold:0.05", momentum},
      {"dgc:0.05,warmup=2", momentum},
      {"dgc:0.05,warmup=2,clip=1", sgd({.rate = 0.1, .momentum = 0.9, .nesterov = true})},
      {"int8+rans", momentum},
      {"topk:0.05+zstd", momentum},
  };
  return all;
}

class EncodedUpdateOf : public testing::TestWithParam<Case> {};

TEST_P(EncodedUpdateOf, HasTheBitsOfTheSlowRecipeOnEveryRank) {
  const auto options = encoded_model(GetParam().codec, GetParam().optimizer);
  for (const int ranks : {1, 2, 3, 5}) {
    const Course course;
    SlowRecipe expected(options, single(ranks));
    expected.run(course);
    for (const Values& values : train(Network::kInProcess, ranks, options, course))
      for (std::size_t p = 0; p < values.size(); ++p)
        ASSERT_EQ(values[p], expected.values()[p]) << ranks << " ranks, parameter " << p;
  }
}

// In each step another rank has no samples, one parameter is used by one rank only, and another by
// no rank.
TEST_P(EncodedUpdateOf, TakesGradientsThatAreMissing) {
  const auto options = encoded_model(GetParam().codec, GetParam().optimizer);
  Course course;
  course.samples = [](Rank rank, int step) { return rank == step % 3 ? 0.0 : 4.0 + rank; };
  course.has = [](std::size_t p, Rank rank, int step) {
    if (p == 5) return step == 1;
    return p != 2 || rank != 1 || step == 2;
  };
  SlowRecipe expected(options, single(3));
  expected.run(course);
  for (const Values& values : train(Network::kInProcess, 3, options, course))
    for (std::size_t p = 0; p < values.size(); ++p)
      ASSERT_EQ(values[p], expected.values()[p]) << "parameter " << p;
}

// The ranks of a host send one mean. Runs may be cut between them, but all ranks end with the same
// values.
TEST_P(EncodedUpdateOf, IsTheSameOnAllRanksOfSeveralHosts) {
  auto options = encoded_model(GetParam().codec, GetParam().optimizer);
  options.clip_norm = 5;
  for (const auto& [network, ranks] : std::vector<std::pair<Network, int>>{
           {Network::kTwoHosts, 4}, {Network::kTcp, 3}, {Network::kUnevenHosts, 3}}) {
    const auto results = train(network, ranks, options, {});
    for (const Values& values : results) EXPECT_EQ(values, results[0]) << name_of(network);
    EXPECT_NE(results[0], initial_values(options));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EncodedUpdateOf, testing::ValuesIn(cases()), [](const auto& each) {
  std::string name = each.param.codec;
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return name;
});

// A codec that treats each value separately does not depend on the cuts between runs.
TEST(EncodedUpdate, OfSeveralRanksAHostHasTheBitsOfTheirHostsMeans) {
  const auto options = encoded_model("fp16", sgd({.rate = 0.1, .momentum = 0.9}));
  SlowRecipe expected(options, {{0, 2}, {1, 3}});
  expected.run({});
  for (const Values& values : train(Network::kTwoHosts, 4, options, {}))
    EXPECT_EQ(values, expected.values());
}

TEST(EncodedUpdate, ThatLeavesNothingOutIsTheOneWithoutACodec) {
  const OptimizerSpec momentum = sgd({.rate = 0.1, .momentum = 0.9});
  const auto plain = encoded_model("none", momentum);
  // Senders with constant weights: a residual is weighed by the samples of later steps.
  Course course;
  course.samples = [](Rank rank, int) { return 8.0 + 3 * rank; };
  for (const std::string codec : {"topk:1", "topk:1,exact", "randk:1", "threshold:1e-30",
                                  "dgc:1,warmup=0,mask=off", "powersgd:64,all"}) {
    // Factors of rank 64 represent p1, p3, p5 and p6 exactly.
    auto options = encoded_model(codec, momentum);
    auto expected_of = plain;
    if (codec.starts_with("powersgd")) {
      options.parameters[2].shape = {270 * 500};
      expected_of.parameters[2].shape = {270 * 500};
    }
    for (const int ranks : {1, 3, 4}) {
      const auto expected = train(Network::kInProcess, ranks, expected_of, course);
      const auto values = train(Network::kInProcess, ranks, options, course);
      EXPECT_LT(largest_difference(values[0], expected[0]), 2e-6) << codec << " " << ranks;
    }
  }
}

TEST(EncodedUpdate, OfPowersgdFollowsTheSlowRecipe) {
  const auto options = encoded_model("powersgd:2", sgd({.rate = 0.1, .momentum = 0.9}));
  for (const int ranks : {1, 2, 3, 5}) {
    SlowRecipe expected(options, single(ranks));
    expected.run({});
    const auto results = train(Network::kInProcess, ranks, options, {});
    for (const Values& values : results) EXPECT_EQ(values, results[0]);
    EXPECT_LT(largest_difference(results[0], expected.values()), 1e-6) << ranks;
  }
  SlowRecipe expected(options, {{0, 2}, {1, 3}});
  expected.run({});
  const auto results = train(Network::kTwoHosts, 4, options, {});
  for (const Values& values : results) EXPECT_EQ(values, results[0]);
  EXPECT_LT(largest_difference(results[0], expected.values()), 1e-6);
}

// A sender without samples keeps its residual and follows the other senders.
TEST(EncodedUpdate, OfPowersgdTakesGradientsThatAreMissing) {
  const auto options = encoded_model("powersgd:2", sgd({.rate = 0.1}));
  Course course;
  course.samples = [](Rank rank, int step) { return rank == step % 3 ? 0.0 : 4.0 + rank; };
  course.has = [](std::size_t p, Rank, int step) { return p != 1 || step == 1; };
  const auto results = train(Network::kInProcess, 3, options, course);
  for (const Values& values : results) EXPECT_EQ(values, results[0]);
  for (const auto& parameter : results[0])
    EXPECT_THAT(parameter, testing::Each(testing::Truly([](float x) { return std::isfinite(x); })));
}

TEST(EncodedUpdate, ClipsAndNormsTheAverageAsWithoutACodec) {
  for (const OptimizerSpec& optimizer : {lamb({.rate = 0.01}), sgd({.rate = 0.1})}) {
    auto options = encoded_model("topk:1,exact", optimizer);
    options.clip_norm = 1;
    options.clip_value = 0.01;
    auto plain = encoded_model("none", optimizer);
    plain.clip_norm = 1;
    plain.clip_value = 0.01;
    for (const auto& [network, ranks] :
         std::vector<std::pair<Network, int>>{{Network::kInProcess, 3}, {Network::kTwoHosts, 4}}) {
      const auto expected = train(network, ranks, plain, {});
      const auto results = train(network, ranks, options, {});
      for (const Values& values : results) EXPECT_EQ(values, results[0]);
      EXPECT_LT(largest_difference(results[0], expected[0]), 1e-6) << name_of(network);
    }
  }
}

// Senders switch to momentum after a number of updates of the model. From then on no rank may take
// it for a gradient.
TEST(EncodedUpdate, OfAParameterThatIsSeldomUsedFreezesWithTheOthers) {
  const auto options = encoded_model("onebit-adam:2", adam({.rate = 0.01}));
  Course course;
  course.steps = 2;
  course.has = [](std::size_t p, Rank, int step) { return p != 2 || step != 1; };
  collective::run_ranks(Network::kInProcess, 2, [&](Job& job) {
    const auto update = make_update(job, options);
    const auto second_moments = [&] {
      std::vector<std::vector<std::byte>> moments;
      const auto states = update->states();
      for (const SliceState& state : *states)
        if (state.parameter == 2)
          moments.emplace_back(state.state[1].begin(), state.state[1].end());
      return moments;
    };
    take_steps(job, *update, course);
    const auto frozen = second_moments();
    EXPECT_FALSE(frozen.empty());
    Course rest = course;
    rest.steps = 5;
    take_steps(job, *update, rest, 2);
    EXPECT_EQ(second_moments(), frozen);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

// A gradient that is not finite corrupts the values, as without a codec, but no codec state.
TEST(EncodedUpdate, RemembersNothingThatIsNotFinite) {
  for (const char* const codec : {"sign:64", "int8:64,all,feedback=on", "topk:0.05"}) {
    const auto options = encoded_model(codec, sgd({.rate = 0.1}));
    collective::run_ranks(Network::kInProcess, 2, [&](Job& job) {
      const auto update = make_update(job, options);
      for (std::size_t p = 0; p < options.parameters.size(); ++p) {
        auto* const gradient = reinterpret_cast<float*>(update->gradient(p).data());
        std::fill_n(gradient, options.parameters[p].count(), 0.5F);
        if (job.rank() == 1) gradient[3] = std::numeric_limits<float>::quiet_NaN();
        ASSERT_TRUE(update->ready(p).has_value());
      }
      ASSERT_TRUE(update->complete({.samples = 2, .weight = 2}, {}).has_value());
      const auto states = *update->codec_states();
      EXPECT_FALSE(states.empty());
      for (const CodecState& state : states)
        EXPECT_THAT(state.values,
                    testing::Each(testing::Truly([](float value) { return std::isfinite(value); })))
            << codec << " " << state.name;
      ASSERT_TRUE(job.world().barrier().has_value());
    });
  }
}

// float64 is not compressed and loses no precision.
TEST(EncodedUpdate, LeavesFloat64AsItIs) {
  collective::run_ranks(Network::kInProcess, 3, [](Job& job) {
    const GroupUpdate::Options options{
        .parameters = {{.name = "w", .type = DataType::kFloat64, .shape = {40, 50}},
                       {.name = "v", .shape = {40, 50}}},
        .optimizers = {sgd({.rate = 1})},
        .codec = spec_of("sign")};
    const auto update = std::move(*GroupUpdate::make(job.world(), options, soon()));
    ASSERT_TRUE(update->spread_values(soon()).has_value());
    auto* const gradient = reinterpret_cast<double*>(update->gradient(0).data());
    for (int i = 0; i < 2000; ++i) gradient[i] = 1 + 1e-12 * i * (job.rank() + 1);
    std::memset(update->gradient(1).data(), 0, update->gradient(1).size());
    for (const std::size_t p : {0, 1}) ASSERT_TRUE(update->ready(p).has_value());
    ASSERT_TRUE(update->complete({.samples = 2, .weight = 2}, {}).has_value());
    const auto* const values = reinterpret_cast<const double*>(update->values(0).data());
    for (int i = 0; i < 2000; ++i) ASSERT_NEAR(values[i], -(1 + 2e-12 * i), 1e-15);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

// Half types are encoded and updated in float32.
TEST(EncodedUpdate, OfBFloat16IsMadeInFloat32) {
  collective::run_ranks(Network::kInProcess, 2, [](Job& job) {
    const GroupUpdate::Options options{
        .parameters = {{.name = "w", .type = DataType::kBFloat16, .shape = {100, 100}}},
        .optimizers = {sgd({.rate = 1})},
        .codec = spec_of("fp16")};
    const auto update = std::move(*GroupUpdate::make(job.world(), options, soon()));
    std::vector<float> values(10000, 1.0F);
    kernel::kernels().narrow(DataType::kBFloat16, values.data(), update->values(0).data(),
                             values.size());
    ASSERT_TRUE(update->spread_values(soon()).has_value());
    // One step is too small for eight bits; the sum of the steps is not.
    std::fill(values.begin(), values.end(), 0x1.0p-10F);
    kernel::kernels().narrow(DataType::kBFloat16, values.data(), update->gradient(0).data(),
                             values.size());
    for (int step = 0; step < 64; ++step) {
      ASSERT_TRUE(update->ready(0).has_value());
      ASSERT_TRUE(update->complete({.samples = 1, .weight = 1}, {}).has_value());
    }
    kernel::kernels().widen(DataType::kBFloat16, update->values(0).data(), values.data(),
                            values.size());
    EXPECT_THAT(values, testing::Each(1.0F - 64 * 0x1.0p-10F));
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

TEST(EncodedUpdate, WithAnotherCodecIsRefusedOnAllRanks) {
  collective::run_ranks(Network::kInProcess, 2, [](Job& job) {
    auto options = encoded_model(job.rank() == 0 ? "int8" : "fp16", sgd());
    const auto made = GroupUpdate::make(job.world(), options, soon());
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().message,
              "the trainers differ: setting 5 of rank 1 is codec fp16, of rank 0 codec int8");
  });
}

}  // namespace
}  // namespace tally::exchange
