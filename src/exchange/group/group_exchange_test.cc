#include "exchange/group/group_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "exchange/group/encoded_update_test_support.h"

namespace tally::exchange {
namespace {

using collective::Network;
using collective::run_ranks;

// A rank's exchange with the initial values of its model.
std::unique_ptr<GroupExchange> make_exchange(Job& job, const GroupUpdate::Options& options,
                                             policy::Rules rules = {}) {
  rules.workers = job.size();
  const auto initial = [all = initial_values(options)](std::size_t p, std::span<std::byte> values) {
    std::memcpy(values.data(), all[p].data(), values.size());
  };
  auto made = GroupExchange::make(job.world(),
                                  {.update = options, .rules = rules, .initial = initial}, soon());
  EXPECT_TRUE(made.has_value()) << to_string(made.error());
  return made ? std::move(*made) : nullptr;
}

Values values_of(const GroupExchange& exchange, const GroupUpdate::Options& options) {
  Values values;
  for (std::size_t p = 0; p < options.parameters.size(); ++p) {
    values.emplace_back(options.parameters[p].count());
    std::memcpy(values[p].data(), exchange.values(p).data(), exchange.values(p).size());
  }
  return values;
}

// Takes part in the steps [from, to) of `course`.
Result<void> take_steps(Rank rank, GroupExchange& exchange, const GroupUpdate::Options& options,
                        const Course& course, int from, int to) {
  std::vector<double> rates;
  for (const OptimizerSpec& spec : options.optimizers) rates.push_back(spec.rate);
  for (int step = from; step < to; ++step) {
    const double samples = course.samples(rank, step);
    const StepContribution contribution{
        .samples = samples, .weight = samples, .loss_sum = samples, .rates = rates};
    TALLY_TRY(exchange.begin());
    if (samples > 0) TALLY_TRY(exchange.announce(contribution));
    for (std::size_t p = options.parameters.size(); samples > 0 && p-- > 0;) {
      auto* const gradient = reinterpret_cast<float*>(exchange.gradient(p).data());
      for (std::size_t i = 0; i < options.parameters[p].count(); ++i)
        gradient[i] = gradient_value(p, i, step, rank);
      TALLY_TRY(exchange.ready(p, nullptr));
    }
    TALLY_TRY(exchange.complete(contribution));
  }
  return {};
}

class GroupExchangeOf : public testing::TestWithParam<std::string> {};

// The last rank leaves after three steps. The others go on as if it had no more samples.
TEST_P(GroupExchangeOf, ReformedOnFewerRanksContinuesTheModel) {
  const auto options = encoded_model("none", *parse_optimizer(GetParam()));
  constexpr int kBefore = 3;
  constexpr int kSteps = 6;
  for (const std::pair<Network, int>& setting :
       {std::pair{Network::kInProcess, 3}, std::pair{Network::kTwoHosts, 4}}) {
    const Network network = setting.first;
    const int ranks = setting.second;
    const Rank last = ranks - 1;
    Course course{.steps = kSteps};
    course.samples = [last](Rank rank, int step) {
      return rank == last && step >= kBefore ? 0.0 : 8.0 + 3 * rank;
    };
    const std::vector<Values> expected = train(network, ranks, options, course);
    run_ranks(network, ranks, [&](Job& job) {
      const auto exchange = make_exchange(job, options);
      ASSERT_TRUE(take_steps(job.rank(), *exchange, options, course, 0, kBefore).has_value());
      const auto rest = job.world().split(job.rank() == last ? -1 : 0, job.rank(), soon());
      ASSERT_TRUE(rest.has_value());
      if (*rest) {
        const auto reformed = exchange->reform(**rest);
        ASSERT_TRUE(reformed.has_value()) << to_string(reformed.error());
        EXPECT_EQ(exchange->steps(), static_cast<std::uint64_t>(kBefore));
        ASSERT_TRUE(
            take_steps(job.rank(), *exchange, options, course, kBefore, kSteps).has_value());
        const Values values = values_of(*exchange, options);
        // Between hosts the sums have another order.
        if (network == Network::kInProcess)
          EXPECT_TRUE(values == expected[0]) << "rank " << job.rank();
        else
          EXPECT_LT(largest_difference(values, expected[0]), 1e-5) << "rank " << job.rank();
      }
      EXPECT_TRUE(job.world().barrier().has_value());
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, GroupExchangeOf,
                         testing::Values("sgd:rate=0.1,momentum=0.9", "adam:rate=0.01",
                                         "lamb:rate=0.01"),
                         [](const auto& each) { return each.param.substr(0, 3); });

TEST(GroupExchange, ReformedWithACodecEndsWithTheSameBitsOnAllRanks) {
  const auto options = encoded_model("int8", sgd({.rate = 0.1, .momentum = 0.9}));
  const Course course{.steps = 6};
  std::vector<Values> values(2);
  run_ranks(Network::kTcp, 3, [&](Job& job) {
    const auto exchange = make_exchange(job, options);
    ASSERT_TRUE(take_steps(job.rank(), *exchange, options, course, 0, 3).has_value());
    const auto rest = job.world().split(job.rank() == 1 ? -1 : 0, job.rank(), soon());
    ASSERT_TRUE(rest.has_value());
    if (*rest) {
      ASSERT_TRUE(exchange->reform(**rest).has_value());
      ASSERT_TRUE(take_steps(job.rank(), *exchange, options, course, 3, 6).has_value());
      values[static_cast<std::size_t>((*rest)->rank())] = values_of(*exchange, options);
    }
    EXPECT_TRUE(job.world().barrier().has_value());
  });
  EXPECT_TRUE(values[0] == values[1]);
}

// Rank 1 ends in the middle of a step. The other ranks keep the version before it, and continue
// from it among themselves.
TEST(GroupExchange, AnErrorInAStepLeavesThePresentVersionWhole) {
  auto options = encoded_model("none", sgd({.rate = 0.1, .momentum = 0.9}));
  const Course course{.steps = 4};
  for (const auto& [network, replicas] : {std::pair{Network::kInProcess, Replicas::kPerHost},
                                          std::pair{Network::kTcp, Replicas::kPerHost},
                                          std::pair{Network::kInProcess, Replicas::kPerRank},
                                          std::pair{Network::kTcp, Replicas::kPerRank}}) {
    options.replicas = replicas;
    const bool has_lost_state = network == Network::kTcp && replicas == Replicas::kPerHost;
    std::latch stepped(3);
    std::latch known(2);
    std::vector<Values> values(3);
    run_ranks(network, 3, [&](Job& job) {
      const auto rest = job.world().split(job.rank() == 1 ? -1 : 0, job.rank(), soon());
      const auto exchange = make_exchange(job, options);
      EXPECT_TRUE(take_steps(job.rank(), *exchange, options, course, 0, 2).has_value());
      const Values before = values_of(*exchange, options);
      stepped.arrive_and_wait();
      if (job.rank() == 1) return job.close();
      EXPECT_FALSE(take_steps(job.rank(), *exchange, options, course, 2, 3).has_value());
      EXPECT_TRUE(values_of(*exchange, options) == before);
      EXPECT_EQ(exchange->steps(), 2U);
      known.arrive_and_wait();
      const auto reformed = exchange->reform(**rest);
      // A lost rank was a host of its own, with the only copy of its part of the state.
      if (has_lost_state) {
        ASSERT_FALSE(reformed.has_value());
        EXPECT_EQ(reformed.error().code, ErrorCode::kPeerLost);
        return;
      }
      ASSERT_TRUE(reformed.has_value()) << to_string(reformed.error());
      EXPECT_TRUE(values_of(*exchange, options) == before);
      ASSERT_TRUE(take_steps(job.rank(), *exchange, options, course, 2, 4).has_value());
      values[static_cast<std::size_t>(job.rank())] = values_of(*exchange, options);
      EXPECT_TRUE((*rest)->barrier().has_value());
    });
    EXPECT_TRUE(values[0] == values[2]);
  }
}

// The bits of an update do not depend on where its result is written.
TEST(GroupExchange, InPlaceHasTheSameBits) {
  for (const std::string codec : {"none", "int8"}) {
    auto options = encoded_model(codec, adam({.rate = 0.01}));
    const auto beside = train(Network::kTwoHosts, 4, options, {});
    options.beside = false;
    EXPECT_TRUE(train(Network::kTwoHosts, 4, options, {}) == beside) << codec;
  }
}

// Sums have another order than those of ranks that share a replica.
TEST(GroupExchange, AReplicaPerRankIsTrainedLikeOnePerHost) {
  for (const char* optimizer :
       {"sgd:rate=0.1,momentum=0.9", "adam:rate=0.01", "lamb:rate=0.01", "lars:rate=0.1"}) {
    auto options = encoded_model("none", *parse_optimizer(optimizer));
    options.clip_norm = 0.5;
    const std::vector<Values> shared = train(Network::kInProcess, 3, options, {});
    options.replicas = Replicas::kPerRank;
    for (const Network network : {Network::kInProcess, Network::kTwoHosts}) {
      const std::vector<Values> own = train(network, 3, options, {});
      EXPECT_LT(largest_difference(own[0], shared[0]), 1e-4) << optimizer;
      EXPECT_TRUE(own[1] == own[0] && own[2] == own[0]) << optimizer;
    }
  }
}

// A rank that is alone on its host may leave gradients where the backward pass put them.
TEST(GroupExchange, ReadsGradientsElsewhere) {
  const auto options = encoded_model("none", sgd({.rate = 0.1, .momentum = 0.9}));
  const Course course{.steps = 3};
  for (const auto& [network, ranks] :
       {std::pair{Network::kInProcess, 1}, std::pair{Network::kTcp, 2}}) {
    const std::vector<Values> expected = train(network, ranks, options, course);
    run_ranks(network, ranks, [&](Job& job) {
      const auto exchange = make_exchange(job, options);
      ASSERT_TRUE(exchange->reads_elsewhere());
      for (int step = 0; step < course.steps; ++step) {
        const double samples = course.samples(job.rank(), step);
        const StepContribution contribution{
            .samples = samples, .weight = samples, .rates = {0.1, 0.05}};
        ASSERT_TRUE(exchange->announce(contribution).has_value());
        Values gradients;
        for (std::size_t p = options.parameters.size(); p-- > 0;) {
          gradients.emplace_back(options.parameters[p].count());
          for (std::size_t i = 0; i < gradients.back().size(); ++i)
            gradients.back()[i] = gradient_value(p, i, step, job.rank());
          const auto* const bytes = reinterpret_cast<const std::byte*>(gradients.back().data());
          ASSERT_TRUE(exchange->ready(p, bytes).has_value());
        }
        ASSERT_TRUE(exchange->complete(contribution).has_value());
      }
      EXPECT_TRUE(values_of(*exchange, options) == expected[0]);
      EXPECT_TRUE(job.world().barrier().has_value());
    });
  }
}

// The memory of `ranks` ranks on one host, in copies of the model.
double copies_of_model(const GroupUpdate::Options& options, int ranks) {
  std::atomic<std::size_t> bytes{0};
  run_ranks(Network::kInProcess, ranks, [&](Job& job) {
    const auto exchange = make_exchange(job, options);
    ASSERT_TRUE(take_steps(job.rank(), *exchange, options, {}, 0, 2).has_value());
    bytes += exchange->statistics().memory_bytes;
    EXPECT_TRUE(job.world().barrier().has_value());
  });
  std::size_t elements = 0;
  for (const ParameterInfo& info : options.parameters) elements += info.count();
  return static_cast<double>(bytes) / static_cast<double>(elements * sizeof(float));
}

TEST(GroupExchange, UsesTheMemoryThatItPromises) {
  auto options = encoded_model("none", sgd({.rate = 0.1, .momentum = 0.9}));
  constexpr double kPadding = 0.1;  // parameters and slices begin at cache lines
  // Two generations of values and state per host, and gradients per rank.
  EXPECT_NEAR(copies_of_model(options, 4), 2 + 2 + 4, kPadding);
  // One generation for a rank that has a replica of its own; together with others it has averages.
  EXPECT_NEAR(copies_of_model(options, 1), 1 + 1 + 1, kPadding);
  options.replicas = Replicas::kPerRank;
  EXPECT_NEAR(copies_of_model(options, 4), 4 * (1 + 1 + 1 + 1), kPadding);
}

}  // namespace
}  // namespace tally::exchange
