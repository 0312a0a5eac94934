#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/group/encoded_update_test_support.h"

// schedule=priority: updates that end after complete().
namespace tally::exchange {
namespace {

using collective::Network;

GroupUpdate::Options model(const std::string& codec, bool by_priority) {
  GroupUpdate::Options options = encoded_model(codec, sgd({.rate = 0.1, .momentum = 0.9}));
  options.by_priority = by_priority;
  options.bytes_in_flight = 100 << 10;
  return options;
}

// Makes one step with gradients for all parameters, last to first.
Result<UpdateTotals> take_step(Job& job, GroupUpdate& update, int step) {
  update.begin({.samples = 2, .weight = 2});
  for (std::size_t p = update.parameters().size(); p-- > 0;) {
    auto* const gradient = reinterpret_cast<float*>(update.gradient(p).data());
    for (std::size_t i = 0; i < update.parameters()[p].count(); ++i)
      gradient[i] = gradient_value(p, i, step, job.rank());
    TALLY_TRY(update.ready(p));
  }
  return update.complete({.samples = 2, .weight = 2}, {});
}

std::vector<Values> train_and_settle(Network network, int ranks,
                                     const GroupUpdate::Options& options, const Course& course) {
  std::vector<Values> results(static_cast<std::size_t>(ranks));
  collective::run_ranks(network, ranks, [&](Job& job) {
    const auto update = make_update(job, options);
    take_steps(job, *update, course);
    EXPECT_TRUE(update->settle().has_value());
    EXPECT_FALSE(update->is_late());
    results[static_cast<std::size_t>(job.rank())] = values_in(*update);
    EXPECT_TRUE(job.world().barrier().has_value());
  });
  return results;
}

class PriorityUpdateOf : public testing::TestWithParam<std::string> {};

TEST_P(PriorityUpdateOf, HasTheBitsOfTheOneInOrder) {
  Course course{.steps = 5};
  course.has = [](std::size_t p, Rank rank, int step) {
    return (p + static_cast<std::size_t>(rank + step)) % 5 != 0;
  };
  EXPECT_TRUE(train_and_settle(Network::kTwoHosts, 2, model(GetParam(), true), course) ==
              train(Network::kTwoHosts, 2, model(GetParam(), false), course));
  // Three hosts with one rank each.
  EXPECT_TRUE(train_and_settle(Network::kUnevenHosts, 3, model(GetParam(), true), {}) ==
              train(Network::kUnevenHosts, 3, model(GetParam(), false), {}));
}

INSTANTIATE_TEST_SUITE_P(All, PriorityUpdateOf,
                         testing::Values("none", "int8", "topk:0.01", "powersgd"),
                         [](const auto& each) { return each.param.substr(0, 4); });

// The second moment freezes by the updates of the model, which late updates must count as well.
TEST(PriorityUpdate, FreezesTheVarianceLikeTheOneInOrder) {
  OptimizerSpec spec = adam({.rate = 0.01});
  spec.freeze_after = 3;
  GroupUpdate::Options options = encoded_model("none", spec);
  const Course course{.steps = 6};
  const auto in_order = train(Network::kTwoHosts, 2, options, course);
  options.by_priority = true;
  EXPECT_TRUE(train_and_settle(Network::kTwoHosts, 2, options, course) == in_order);
}

TEST(PriorityUpdate, WithAutoHasTheBitsOfNoCodecOverAFastWire) {
  GroupUpdate::Options options = model("auto", true);
  options.wire = codec::WireCost{};
  const Course course{.steps = 8};
  EXPECT_TRUE(train_and_settle(Network::kTwoHosts, 2, options, course) ==
              train(Network::kTwoHosts, 2, model("none", false), course));
}

TEST(PriorityUpdate, GivesAParameterWhenItIsAwaited) {
  collective::run_ranks(Network::kTwoHosts, 2, [&](Job& job) {
    const auto early = make_update(job, model("none", true));
    const auto in_order = make_update(job, model("none", false));
    for (int step = 0; step < 4; ++step) {
      ASSERT_TRUE(take_step(job, *in_order, step).has_value());
      ASSERT_TRUE(take_step(job, *early, step).has_value());
      EXPECT_TRUE(early->is_late());
      const Values expected = values_in(*in_order);
      for (std::size_t p = 0; p < expected.size(); ++p) {
        ASSERT_TRUE(early->await(p).has_value());
        EXPECT_FALSE(early->is_late(p));
        EXPECT_EQ(
            0, std::memcmp(early->values(p).data(), expected[p].data(), early->values(p).size()));
      }
      EXPECT_FALSE(early->is_late());
    }
    EXPECT_TRUE(job.world().barrier().has_value());
  });
}

// Saved state includes the last update, although no caller has waited for it.
TEST(PriorityUpdate, IsOverBeforeItsStateIsRead) {
  collective::run_ranks(Network::kTwoHosts, 2, [&](Job& job) {
    const auto update = make_update(job, model("int8", true));
    ASSERT_TRUE(take_step(job, *update, 0).has_value());
    EXPECT_FALSE(update->saved_states()->empty());
    EXPECT_FALSE(update->is_late());
    ASSERT_TRUE(take_step(job, *update, 1).has_value());
    EXPECT_FALSE(update->codec_states()->empty());
    EXPECT_FALSE(update->is_late());
    EXPECT_TRUE(job.world().barrier().has_value());
  });
}

// The other rank is lost after its complete(), in which it only takes part in the all-reduce.
TEST(PriorityUpdate, TellsInTheNextStepWhatWentWrongBetween) {
  collective::run_ranks(Network::kTwoHosts, 2, [&](Job& job) {
    auto update = make_update(job, model("none", true));
    ASSERT_TRUE(update->make_state().has_value());
    const Values before = values_in(*update);
    if (job.rank() == 1) {
      std::vector<double> words(1 + update->parameters().size(), 1.0);
      EXPECT_TRUE(job.world().allreduce(std::span(words)).has_value());
      return;
    }
    ASSERT_TRUE(take_step(job, *update, 0).has_value());
    EXPECT_TRUE(update->is_late());
    const auto awaited = update->await(0);
    ASSERT_FALSE(awaited.has_value());
    EXPECT_FALSE(update->settle().has_value());
    // The version before the lost update is whole.
    EXPECT_TRUE(values_in(*update) == before);
    const auto next = take_step(job, *update, 1);
    ASSERT_FALSE(next.has_value());
    EXPECT_EQ(next.error().code, awaited.error().code);
    const auto last = update->complete({.samples = 2, .weight = 2}, {});
    ASSERT_FALSE(last.has_value());
    EXPECT_EQ(last.error().code, awaited.error().code);
  });
}

TEST(PriorityUpdate, IsInOrderWhereItCannotBeLateAndSaysSo) {
  struct Case {
    Network network;
    int ranks;
    bool clips;
    OptimizerSpec optimizer;
    std::string reason;
  };
  const std::vector<Case> cases = {
      {Network::kTwoHosts, 4, false, sgd(), "ranks share a host"},
      {Network::kShm, 2, false, sgd(), "ranks share a host"},
      {Network::kInProcess, 1, false, sgd(), "there is one host"},
      {Network::kTwoHosts, 2, true, sgd(), "clip_norm needs all gradients at once"},
      {Network::kTwoHosts, 2, false, lars(), "the optimizer needs all of a parameter at once"}};
  for (const Case& each : cases) {
    GroupUpdate::Options options = encoded_model("none", each.optimizer);
    if (each.clips) options.clip_norm = 1.0;
    options.by_priority = true;
    std::vector<std::vector<std::string>> events(static_cast<std::size_t>(each.ranks));
    collective::run_ranks(each.network, each.ranks, [&](Job& job) {
      GroupUpdate::Options own = options;
      own.on_event = [&](const std::string& event) {
        events[static_cast<std::size_t>(job.rank())].push_back(event);
      };
      const auto update = make_update(job, own);
      ASSERT_TRUE(take_step(job, *update, 0).has_value());
      EXPECT_FALSE(update->is_late());
      EXPECT_TRUE(job.world().barrier().has_value());
    });
    for (const auto& own : events)
      EXPECT_THAT(own, testing::ElementsAre("schedule=priority: it is fifo, for " + each.reason));
  }
}

}  // namespace
}  // namespace tally::exchange
