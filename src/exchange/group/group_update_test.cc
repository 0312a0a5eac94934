#include "exchange/group/group_update.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include "base/rng.h"
#include "collective/test_jobs.h"
#include "kernel/array/norm.h"
#include "kernel/array/weighted_sum.h"
#include "optimizer/update_rule.h"
#include "soon.h"

namespace tally::exchange {
namespace {

using collective::Network;
using collective::run_ranks;

constexpr int kSteps = 6;

// Parameters that are tiny, cross blocks, or fill buckets.
GroupUpdate::Options model(const OptimizerSpec& spec) {
  GroupUpdate::Options options{.bucket_bytes = 64 << 10};
  for (const std::int64_t count : {3, 5000, 1, 40000, 70001, 17})
    options.parameters.push_back(
        {.name = fmt::format("p{}", options.parameters.size()), .shape = {count}});
  // The second group has its own learning rate and weight decay.
  options.parameters[1].group = 1;
  options.parameters[5].group = 1;
  OptimizerSpec other = spec;
  other.rate *= 0.5;
  other.weight_decay = 0.02;
  options.optimizers = {spec, other};
  return options;
}

float gradient_value(std::size_t parameter, std::size_t i, int step, Rank rank) {
  Rng rng(parameter * 7919 + i * 31 + static_cast<std::size_t>(step) * 1000003 +
          static_cast<std::size_t>(rank) * 17);
  return static_cast<float>(rng.uniform() - 0.45);
}
std::uint64_t samples_of(Rank rank, int step) {
  return static_cast<std::uint64_t>(8 + 3 * rank + step % 2);
}

using GroupUpdateValues = std::vector<std::vector<float>>;

GroupUpdateValues first_values(const GroupUpdate::Options& options) {
  GroupUpdateValues values;
  for (std::size_t p = 0; p < options.parameters.size(); ++p) {
    values.emplace_back(options.parameters[p].count());
    for (std::size_t i = 0; i < values[p].size(); ++i) values[p][i] = gradient_value(p, i, -1, 99);
  }
  return values;
}

// The reference in one place: sums all gradients in the order of ranks and updates whole
// parameters.
class Unsharded {
 public:
  explicit Unsharded(const GroupUpdate::Options& options)
      : options_(options), values_(first_values(options)) {
    state_.resize(2, values_);
    for (auto& array : state_)
      for (std::size_t p = 0; p < array.size(); ++p)
        std::fill(array[p].begin(), array[p].end(),
                  static_cast<float>(optimizer::initial_state(spec(p))));
  }

  void step(int step, int ranks) {
    double total = 0;
    for (Rank rank = 0; rank < ranks; ++rank) total += static_cast<double>(samples_of(rank, step));
    GroupUpdateValues gradients = values_;
    for (std::size_t p = 0; p < values_.size(); ++p) sum(p, step, ranks, total, gradients[p]);
    if (options_.clip_value)
      for (auto& gradient : gradients)
        kernel::clamp(gradient.data(), gradient.size(), static_cast<float>(*options_.clip_value));
    if (options_.clip_norm) clip(gradients);
    ++steps_;
    for (std::size_t p = 0; p < values_.size(); ++p) update(p, gradients[p]);
  }

  const GroupUpdateValues& values() const { return values_; }

 private:
  const OptimizerSpec& spec(std::size_t p) const {
    return options_.optimizers[options_.parameters[p].group];
  }
  void sum(std::size_t p, int step, int ranks, double total, std::vector<float>& out) const {
    GroupUpdateValues all;
    std::vector<const void*> inputs;
    std::vector<float> weights;
    for (Rank rank = 0; rank < ranks; ++rank) {
      std::vector<float> gradient(out.size());
      for (std::size_t i = 0; i < out.size(); ++i) gradient[i] = gradient_value(p, i, step, rank);
      all.push_back(std::move(gradient));
      inputs.push_back(all.back().data());
      weights.push_back(static_cast<float>(static_cast<double>(samples_of(rank, step)) / total));
    }
    kernel::weighted_sum_reference(DataType::kFloat32, inputs, weights, out.data(), out.size());
  }
  void clip(GroupUpdateValues& gradients) const {
    double squares = 0;
    for (const auto& gradient : gradients)
      for (const float value : gradient) squares += static_cast<double>(value) * value;
    const double factor = std::min(1.0, *options_.clip_norm / (std::sqrt(squares) + 1e-6));
    for (auto& gradient : gradients)
      for (float& value : gradient) value *= static_cast<float>(factor);
  }
  static double norm(const std::vector<float>& values) {
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * value;
    return std::sqrt(squares);
  }
  void update(std::size_t p, std::vector<float>& gradient) {
    const optimizer::Segment<float> segment{
        .parameters = values_[p], .gradient = gradient, .state = {state_[0][p], state_[1][p]}};
    const optimizer::StepFacts facts{.step = steps_, .rate = spec(p).rate};
    if (!optimizer::is_layerwise(spec(p))) return optimizer::update(spec(p), facts, segment);
    prepare(spec(p), facts, segment);
    finish(spec(p), facts, optimizer::Norms{norm(values_[p]), norm(gradient)}, segment);
  }

  const GroupUpdate::Options options_;
  GroupUpdateValues values_;
  std::vector<GroupUpdateValues> state_;
  std::uint64_t steps_ = 0;
};

void copy_in(const GroupUpdate& update, std::size_t p, const std::vector<float>& values) {
  std::memcpy(update.values(p).data(), values.data(), values.size() * sizeof(float));
}

// Takes part in `kSteps` steps as one rank. With `overlap`, parameters become ready one by one,
// last to first.
void train_rank(Job& job, const GroupUpdate::Options& options, bool overlap,
                GroupUpdateValues& result) {
  auto made = GroupUpdate::make(job.world(), options, soon());
  ASSERT_TRUE(made.has_value()) << to_string(made.error());
  GroupUpdate& update = **made;
  const GroupUpdateValues initial = first_values(options);
  if (update.writes_values() && job.rank() == 0)
    for (std::size_t p = 0; p < initial.size(); ++p) copy_in(update, p, initial[p]);
  ASSERT_TRUE(update.spread_values(soon()).has_value());
  for (int step = 0; step < kSteps; ++step) {
    const auto samples = static_cast<double>(samples_of(job.rank(), step));
    const StepContribution contribution{.samples = samples, .weight = samples};
    if (overlap) {
      ASSERT_TRUE(update.begin(contribution).has_value());
    }
    for (std::size_t p = initial.size(); p-- > 0;) {
      auto* const gradient = reinterpret_cast<float*>(update.gradient(p).data());
      for (std::size_t i = 0; i < initial[p].size(); ++i)
        gradient[i] = gradient_value(p, i, step, job.rank());
      ASSERT_TRUE(update.ready(p).has_value());
    }
    const double loss = job.rank() + 1;
    const auto totals = update.complete(contribution, std::span(&loss, 1));
    ASSERT_TRUE(totals.has_value()) << to_string(totals.error());
    EXPECT_EQ(totals->sums[0], job.size() * (job.size() + 1) / 2);
  }
  GroupUpdateValues values = initial;
  for (std::size_t p = 0; p < values.size(); ++p)
    std::memcpy(values[p].data(), update.values(p).data(), update.values(p).size());
  if (job.rank() == job.size() - 1) result = values;
}

struct GroupUpdateCase {
  std::string name;
  OptimizerSpec spec;
};
const std::vector<GroupUpdateCase>& update_cases() {
  static const std::vector<GroupUpdateCase> all = {
      {"sgd", sgd({.rate = 0.1})},
      {"momentum", sgd({.rate = 0.1, .momentum = 0.9, .weight_decay = 0.01})},
      {"nesterov", sgd({.rate = 0.1, .momentum = 0.9, .nesterov = true})},
      {"adagrad", adagrad({.rate = 0.05})},
      {"adam", adam({.rate = 0.01, .weight_decay = 0.01})},
      {"adamw", adamw({.rate = 0.01})},
      {"lamb", lamb({.rate = 0.01})},
      {"lars", lars({.rate = 1, .weight_decay = 0.01})},
  };
  return all;
}

class GroupUpdateOf : public testing::TestWithParam<GroupUpdateCase> {};

TEST_P(GroupUpdateOf, OnOneHostHasTheBitsOfTheUnshardedUpdate) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const bool overlap : {false, true}) {
      const auto options = model(GetParam().spec);
      Unsharded expected(options);
      for (int step = 0; step < kSteps; ++step) expected.step(step, ranks);
      GroupUpdateValues values;
      run_ranks(Network::kInProcess, ranks,
                [&](Job& job) { train_rank(job, options, overlap, values); });
      const bool exact = !optimizer::is_layerwise(GetParam().spec);
      for (std::size_t p = 0; p < values.size(); ++p) {
        for (std::size_t i = 0; i < values[p].size(); ++i) {
          if (exact) {
            ASSERT_EQ(values[p][i], expected.values()[p][i]) << ranks << " " << p << " " << i;
          } else {  // norms are summed in another order
            ASSERT_NEAR(values[p][i], expected.values()[p][i], 1e-6);
          }
        }
      }
    }
  }
}

// Norms and clipping have the same bits for any number of ranks, if the gradients do.
TEST_P(GroupUpdateOf, HasTheSameBitsForEveryNumberOfEqualRanks) {
  auto options = model(GetParam().spec);
  options.clip_norm = 10;
  GroupUpdateValues first;
  for (const int ranks : {1, 2, 4}) {
    GroupUpdateValues values;
    run_ranks(Network::kInProcess, ranks, [&](Job& job) {
      auto update = std::move(*GroupUpdate::make(job.world(), options, soon()));
      const GroupUpdateValues initial = first_values(options);
      if (update->writes_values())
        for (std::size_t p = 0; p < initial.size(); ++p) copy_in(*update, p, initial[p]);
      ASSERT_TRUE(update->spread_values(soon()).has_value());
      for (int step = 0; step < kSteps; ++step) {
        for (std::size_t p = 0; p < initial.size(); ++p) {
          auto* const gradient = reinterpret_cast<float*>(update->gradient(p).data());
          for (std::size_t i = 0; i < initial[p].size(); ++i)
            gradient[i] = gradient_value(p, i, step, 0);
          ASSERT_TRUE(update->ready(p).has_value());
        }
        ASSERT_TRUE(update->complete({.samples = 8, .weight = 8}, {}).has_value());
      }
      if (job.rank() != 0) return;
      values = initial;
      for (std::size_t p = 0; p < values.size(); ++p)
        std::memcpy(values[p].data(), update->values(p).data(), update->values(p).size());
    });
    if (first.empty()) first = values;
    EXPECT_EQ(first, values) << ranks << " ranks";
  }
}

TEST_P(GroupUpdateOf, AcrossHostsAndProcessesAgreesWithTheUnshardedUpdate) {
  const std::vector<std::pair<Network, int>> settings = {
      {Network::kShm, 2}, {Network::kTcp, 3}, {Network::kTwoHosts, 4}, {Network::kUnevenHosts, 3}};
  for (const auto& [network, ranks] : settings) {
    auto options = model(GetParam().spec);
    options.clip_norm = 50;
    options.clip_value = 0.3;
    Unsharded expected(options);
    for (int step = 0; step < kSteps; ++step) expected.step(step, ranks);
    GroupUpdateValues values;
    run_ranks(network, ranks, [&](Job& job) { train_rank(job, options, true, values); });
    ASSERT_EQ(values.size(), expected.values().size());
    for (std::size_t p = 0; p < values.size(); ++p)
      for (std::size_t i = 0; i < values[p].size(); ++i)
        ASSERT_NEAR(values[p][i], expected.values()[p][i], 2e-5)
            << name_of(network) << " " << p << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GroupUpdateOf, testing::ValuesIn(update_cases()),
                         [](const auto& each) { return each.param.name; });

// Two ranks; one parameter is used by one rank, one by none, and one by both.
TEST(GroupUpdate, WhatNobodyUsesStaysAndWhatOneUsesCountsAsZeroForTheOthers) {
  run_ranks(Network::kInProcess, 2, [](Job& job) {
    const GroupUpdate::Options options{
        .parameters = {{.name = "both", .shape = {2}},
                       {.name = "one", .shape = {2}},
                       {.name = "none", .shape = {2}}},
        .optimizers = {sgd({.rate = 1, .momentum = 0.9, .weight_decay = 0.1})}};
    auto update = std::move(*GroupUpdate::make(job.world(), options, soon()));
    if (update->writes_values())
      for (std::size_t p = 0; p < 3; ++p) copy_in(*update, p, {1, 1});
    ASSERT_TRUE(update->spread_values(soon()).has_value());
    const auto ready = [&](std::size_t p, float value) {
      auto* const gradient = reinterpret_cast<float*>(update->gradient(p).data());
      gradient[0] = gradient[1] = value;
      ASSERT_TRUE(update->ready(p).has_value());
    };
    for (int step = 0; step < 2; ++step) {
      ASSERT_TRUE(update->begin({.samples = 4, .weight = 4}).has_value());
      ready(0, 0.5F);
      if (job.rank() == 1) ready(1, 0.5F);
      ASSERT_TRUE(update->complete({.samples = 4, .weight = 4}, {}).has_value());
    }
    const auto value = [&](std::size_t p) {
      return *reinterpret_cast<const float*>(update->values(p).data());
    };
    // v = g + 0.1 w; w -= v; v' = 0.9 v + g + 0.1 w'; w' -= v'.
    const auto two_steps = [](float g) {
      const float v = g + 0.1F;
      const float w = 1 - v;
      return w - (0.9F * v + g + 0.1F * w);
    };
    EXPECT_FLOAT_EQ(value(0), two_steps(0.5F));
    EXPECT_FLOAT_EQ(value(1), two_steps(0.25F));
    EXPECT_EQ(value(2), 1.0F);
    EXPECT_THAT(update->steps(), testing::ElementsAre(2, 2, 0));
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

// The gradients of a rank without samples are not read. Without any samples there is no update.
TEST(GroupUpdate, RanksWithoutSamplesTakePartWithNothing) {
  run_ranks(Network::kInProcess, 3, [](Job& job) {
    const GroupUpdate::Options options{.parameters = {{.name = "w", .shape = {1}}},
                                       .optimizers = {sgd({.rate = 1})}};
    auto update = std::move(*GroupUpdate::make(job.world(), options, soon()));
    *reinterpret_cast<float*>(update->gradient(0).data()) =
        job.rank() == 2 ? std::nanf("") : static_cast<float>(job.rank() + 1);
    const double samples = job.rank() == 2 ? 0 : 3 - 2 * job.rank();  // 3, 1, 0
    if (samples > 0) {
      ASSERT_TRUE(update->ready(0).has_value());
    }
    const auto totals = update->complete({.samples = samples, .weight = samples}, {});
    ASSERT_TRUE(totals.has_value());
    EXPECT_EQ(totals->samples, 4);
    EXPECT_FLOAT_EQ(*reinterpret_cast<const float*>(update->values(0).data()), -1.25F);
    const auto none = update->complete({}, {});
    ASSERT_TRUE(none.has_value());
    EXPECT_EQ(none->samples, 0);
    EXPECT_FLOAT_EQ(*reinterpret_cast<const float*>(update->values(0).data()), -1.25F);
    EXPECT_EQ(update->steps()[0], 1U);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

TEST(GroupUpdate, BFloat16IsUpdatedInFloat32) {
  run_ranks(Network::kInProcess, 2, [](Job& job) {
    constexpr std::size_t kCount = 10000;
    const GroupUpdate::Options options{
        .parameters = {{.name = "w", .type = DataType::kBFloat16, .shape = {kCount}}},
        .optimizers = {sgd({.rate = 1})}};
    auto update = std::move(*GroupUpdate::make(job.world(), options, soon()));
    const std::vector<float> ones(kCount, 1.0F);
    if (update->writes_values())
      kernel::kernels().narrow(DataType::kBFloat16, ones.data(), update->values(0).data(), kCount);
    ASSERT_TRUE(update->spread_values(soon()).has_value());
    const std::vector<float> small(kCount, 0x1.0p-10F);
    kernel::kernels().narrow(DataType::kBFloat16, small.data(), update->gradient(0).data(), kCount);
    // One step is too small for bfloat16's eight bits; the sum of the steps is not.
    for (int step = 0; step < 64; ++step) {
      ASSERT_TRUE(update->ready(0).has_value());
      ASSERT_TRUE(update->complete({.samples = 1, .weight = 1}, {}).has_value());
    }
    std::vector<float> values(kCount);
    kernel::kernels().widen(DataType::kBFloat16, update->values(0).data(), values.data(), kCount);
    EXPECT_THAT(values, testing::Each(1.0F - 64 * 0x1.0p-10F));
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

TEST(GroupUpdate, ReorderingMovesValuesAndGradientsAlong) {
  run_ranks(Network::kInProcess, 3, [](Job& job) {
    const auto options = model(sgd({.rate = 1}));
    auto update = std::move(*GroupUpdate::make(job.world(), options, soon()));
    const GroupUpdateValues initial = first_values(options);
    if (update->writes_values())
      for (std::size_t p = 0; p < initial.size(); ++p) copy_in(*update, p, initial[p]);
    ASSERT_TRUE(update->spread_values(soon()).has_value());
    const auto* const mark = "gradient";
    std::memcpy(update->gradient(3).data(), mark, 8);
    const std::vector<std::size_t> firsts = {0, 5, 1, 4, 2, 3};
    std::vector<std::size_t> order = firsts;
    if (job.rank() != 0) std::reverse(order.begin(), order.end());
    // reorder() accepts an update that already has state.
    ASSERT_TRUE(update->make_state().has_value());
    auto moved = update->reorder(order, soon());
    EXPECT_EQ(order, firsts) << "rank 0's order counts";
    ASSERT_TRUE(moved.has_value() && *moved);
    EXPECT_EQ(std::memcmp(update->gradient(3).data(), mark, 8), 0);
    for (std::size_t p = 0; p < initial.size(); ++p)
      EXPECT_EQ(std::memcmp(update->values(p).data(), initial[p].data(), update->values(p).size()),
                0);
    moved = update->reorder(order, soon());
    EXPECT_TRUE(moved.has_value() && !*moved);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

TEST(GroupUpdate, ModelsThatDifferAreRefusedOnAllRanksWithTheFirstDifference) {
  run_ranks(Network::kInProcess, 3, [](Job& job) {
    auto options = model(sgd());
    if (job.rank() == 2) options.parameters[3].shape = {200, 200};
    if (job.rank() == 1) options.parameters.pop_back();
    const auto made = GroupUpdate::make(job.world(), options, soon());
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, ErrorCode::kMismatch);
    EXPECT_EQ(made.error().peer, 1);
    EXPECT_EQ(
        made.error().message,
        "the models differ: parameter 5 of rank 1 is no further parameter, of rank 0 p5 float32 "
        "[17] (group 1)");
  });
}

TEST(GroupUpdate, SettingsThatDifferAreRefusedOnAllRanks) {
  run_ranks(Network::kInProcess, 2, [](Job& job) {
    auto options = model(sgd());
    if (job.rank() == 1) options.clip_norm = 1;
    const auto made = GroupUpdate::make(job.world(), options, soon());
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().message,
              "the trainers differ: setting 2 of rank 1 is clip_norm 1, of rank 0 clip_norm none");
  });
}

// More buckets than the limit of concurrent operations.
TEST(GroupUpdate, ManyBucketsTravelBetweenHosts) {
  run_ranks(Network::kTcp, 2, [](Job& job) {
    GroupUpdate::Options options{.optimizers = {sgd({.rate = 1})}, .bucket_bytes = 1};
    for (int p = 0; p < 1100; ++p)
      options.parameters.push_back({.name = fmt::format("p{}", p), .shape = {2}});
    auto update = std::move(*GroupUpdate::make(job.world(), options, soon()));
    ASSERT_EQ(update->buckets(), 1100U);
    for (int step = 0; step < 2; ++step) {
      ASSERT_TRUE(update->begin({.samples = 1, .weight = 1}).has_value());
      for (std::size_t p = 1100; p-- > 0;) {
        *reinterpret_cast<float*>(update->gradient(p).data()) =
            static_cast<float>(p) + static_cast<float>(job.rank());
        ASSERT_TRUE(update->ready(p).has_value());
      }
      ASSERT_TRUE(update->complete({.samples = 1, .weight = 1}, {}).has_value());
    }
    for (std::size_t p = 0; p < 1100; ++p)
      ASSERT_EQ(*reinterpret_cast<const float*>(update->values(p).data()),
                -2 * (static_cast<float>(p) + 0.5F));
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

// A NaN gradient makes all clipped gradients NaN; its norm does not pass as small.
TEST(GroupUpdate, ANormThatIsNoNumberSpoilsTheUpdate) {
  run_ranks(Network::kInProcess, 1, [](Job& job) {
    const GroupUpdate::Options options{
        .parameters = {{.name = "a", .shape = {1}}, {.name = "b", .shape = {1}}},
        .optimizers = {sgd()},
        .clip_norm = 1};
    auto update = std::move(*GroupUpdate::make(job.world(), options, soon()));
    *reinterpret_cast<float*>(update->gradient(0).data()) = std::nanf("");
    *reinterpret_cast<float*>(update->gradient(1).data()) = 5;
    ASSERT_TRUE(update->ready(0).has_value());
    ASSERT_TRUE(update->ready(1).has_value());
    ASSERT_TRUE(update->complete({.samples = 1, .weight = 1}, {}).has_value());
    EXPECT_TRUE(std::isnan(*reinterpret_cast<const float*>(update->values(1).data())));
  });
}

}  // namespace
}  // namespace tally::exchange
