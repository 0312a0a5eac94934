#include "exchange/device/device_exchange.h"

#include <gtest/gtest.h>

#include <latch>
#include <limits>
#include <mutex>
#include <utility>

#include "base/errors.h"
#include "exchange/device/device_exchange_test_support.h"

// The exchange of devices over a device in ordinary memory, compared with the group's own updates.
namespace tally::exchange {
namespace {

using collective::Network;
using collective::run_ranks;

// Parameter 3 has no gradient in step 1 on any rank, and in step 2 on rank 0 only.
Course sparse_course() {
  Course course{.steps = 5};
  course.has = [](std::size_t p, Rank rank, int step) {
    return p != 3 || (step != 1 && (step != 2 || rank == 0));
  };
  return course;
}

class DeviceExchangeOf : public testing::TestWithParam<std::string> {};

TEST_P(DeviceExchangeOf, OneRankHasTheBitsOfTheGroup) {
  for (const bool clips : {false, true}) {
    auto options = encoded_model("none", *parse_optimizer(GetParam()));
    if (clips) options.clip_norm = 0.5;
    if (clips) options.clip_value = 0.02;
    options.discards_nonfinite = clips;
    const Values expected = train(Network::kInProcess, 1, options, sparse_course())[0];
    EXPECT_TRUE(train_on_devices(Network::kInProcess, 1, options, sparse_course())[0] == expected)
        << (clips ? "clipped" : "");
  }
}

// A group of hosts has one sum, too; it adds in another order.
TEST_P(DeviceExchangeOf, RanksEndWithOneModelThatIsTheGroups) {
  auto options = encoded_model("none", *parse_optimizer(GetParam()));
  options.clip_norm = 0.5;
  Course course = sparse_course();
  course.samples = [](Rank rank, int step) {
    return rank == 1 && step == 3 ? 0.0 : 8 + 3.0 * rank;
  };
  const Values expected = train(Network::kInProcess, 3, options, course)[0];
  const auto trained = train_on_devices(Network::kTwoHosts, 3, options, course);
  EXPECT_LT(largest_difference(trained[0], expected), 1e-4);
  EXPECT_TRUE(trained[1] == trained[0] && trained[2] == trained[0]);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceExchangeOf,
                         testing::Values("sgd:rate=0.1", "momentum:rate=0.1,decay=0.01",
                                         "nesterov:rate=0.1", "adagrad:initial=0.1",
                                         "adam:rate=0.01", "adamw:rate=0.01", "lamb:rate=0.01",
                                         "lars:rate=0.1", "ftrl:l1=0.001"),
                         [](const auto& each) {
                           return each.param.substr(0, each.param.find(':'));
                         });

TEST(DeviceExchange, GroupsOfOneModelMayHaveOtherLoops) {
  auto options = encoded_model("none", sgd({.rate = 0.1, .momentum = 0.9}));
  options.optimizers[1].momentum = 0;
  const Values expected = train(Network::kInProcess, 1, options, {})[0];
  EXPECT_TRUE(train_on_devices(Network::kInProcess, 1, options, {})[0] == expected);
}

TEST(DeviceExchange, AGradientThatIsNotFiniteIsDiscardedOnAllRanks) {
  auto options = encoded_model("none", sgd({.rate = 0.1, .momentum = 0.9}));
  options.discards_nonfinite = true;
  run_ranks(Network::kInProcess, 2, [&](Job& job) {
    const auto exchange = make_device_exchange(job, options);
    const Values before = device_values(*exchange, options);
    const StepContribution contribution{.samples = 1, .weight = 1, .rates = {0.1, 0.05}};
    Values gradients = initial_values(options);
    if (job.rank() == 1) gradients[2][7] = std::numeric_limits<float>::infinity();
    ASSERT_TRUE(exchange->announce(contribution).has_value());
    for (std::size_t p = 0; p < gradients.size(); ++p)
      ASSERT_TRUE(
          exchange->ready(p, reinterpret_cast<const std::byte*>(gradients[p].data())).has_value());
    const auto totals = exchange->complete(contribution);
    ASSERT_TRUE(totals.has_value());
    EXPECT_TRUE(totals->discarded && !totals->updated);
    EXPECT_EQ(exchange->steps(), 0U);
    EXPECT_TRUE(device_values(*exchange, options) == before);
    EXPECT_TRUE(job.world().barrier().has_value());
  });
}

// The backward pass of an announced step has thrown. Its samples, and the gradients that it had, do
// not count.
TEST(DeviceExchange, AnAbandonedStepLeavesNoTrace) {
  for (const char* const codec : {"none", "int8"}) {
    const auto options = encoded_model(codec, sgd({.rate = 0.1}));
    run_ranks(Network::kInProcess, 1, [&](Job& job) {
      Values expected;
      for (const bool abandons : {false, true}) {
        const auto exchange = make_device_exchange(job, options);
        const Values wrong(options.parameters.size(), std::vector<float>(270 * 500, 9.0F));
        const std::size_t last = options.parameters.size() - 1;
        if (abandons) {
          ASSERT_TRUE(exchange->announce({.samples = 64, .weight = 64}).has_value());
          for (const std::size_t p : {last, last - 1, last - 2})
            ASSERT_TRUE(exchange->ready(p, reinterpret_cast<const std::byte*>(wrong[p].data()))
                            .has_value());
        }
        const Values right = initial_values(options);
        for (std::size_t p = 0; p <= last; ++p)
          ASSERT_TRUE(
              exchange->ready(p, reinterpret_cast<const std::byte*>(right[p].data())).has_value());
        ASSERT_TRUE(
            exchange->complete({.samples = 32, .weight = 32, .rates = {0.1, 0.05}}).has_value());
        if (!abandons) expected = device_values(*exchange, options);
        EXPECT_TRUE(device_values(*exchange, options) == expected) << codec;
      }
    });
  }
}

// Rank 1 ends in the middle of a step. The others keep the version before it, and go on.
TEST(DeviceExchange, AnErrorInAStepLeavesThePresentVersionWhole) {
  const auto options = encoded_model("none", adam({.rate = 0.01}));
  const Course course{.steps = 4};
  for (const Network network : {Network::kInProcess, Network::kTcp}) {
    std::latch stepped(3);
    std::latch known(2);
    std::vector<Values> values(3);
    run_ranks(network, 3, [&](Job& job) {
      const auto rest = job.world().split(job.rank() == 1 ? -1 : 0, job.rank(), soon());
      const auto exchange = make_device_exchange(job, options);
      EXPECT_TRUE(take_device_steps(job.rank(), *exchange, options, course, 0, 2).has_value());
      const Values before = device_values(*exchange, options);
      stepped.arrive_and_wait();
      if (job.rank() == 1) return job.close();
      EXPECT_FALSE(take_device_steps(job.rank(), *exchange, options, course, 2, 3).has_value());
      EXPECT_TRUE(device_values(*exchange, options) == before);
      known.arrive_and_wait();
      const auto reformed = exchange->reform(**rest);
      ASSERT_TRUE(reformed.has_value()) << to_string(reformed.error());
      EXPECT_EQ(exchange->steps(), 2U);
      ASSERT_TRUE(take_device_steps(job.rank(), *exchange, options, course, 2, 4).has_value());
      values[static_cast<std::size_t>(job.rank())] = device_values(*exchange, options);
      EXPECT_TRUE((*rest)->barrier().has_value());
    });
    EXPECT_TRUE(values[0] == values[2]);
  }
}

// Ordinary memory as a GPU that fails, for good, after a number of gathered buckets or of reads.
struct Limits {
  int gathers = std::numeric_limits<int>::max();
  int reads = std::numeric_limits<int>::max();
};
class FailingDevice final : public TestDevice {
 public:
  explicit FailingDevice(Limits left) : left_(left) {}
  Result<void> read(std::span<std::byte> to, const std::byte* from) override {
    if (left_.reads-- <= 0) return make_error(ErrorCode::kSystem, kNoRank, "Xid 79");
    return TestDevice::read(to, from);
  }
  Result<void> gather(const DeviceBucket& bucket, const GradientChange& change) override {
    if (left_.gathers-- <= 0) return make_error(ErrorCode::kSystem, kNoRank, "Xid 79");
    return TestDevice::gather(bucket, change);
  }

 private:
  Limits left_;
};

// The GPU of rank 1 fails when it gathers, or in finish() of the sums. Its own error names nobody;
// to the others it is a lost rank.
TEST(DeviceExchange, AFailedDeviceIsALostRankForTheOthers) {
  for (const auto& [codec, limits] : {std::pair("none", Limits{.gathers = 3}),
                                      {"int8", Limits{.gathers = 3}},
                                      {"none", Limits{.reads = 3}},
                                      {"int8", Limits{.reads = 3}}}) {
    const auto options = encoded_model(codec, adam({.rate = 0.01}));
    run_ranks(Network::kInProcess, 3, [&, left = limits](Job& job) {
      OnDevices on;
      if (job.rank() == 1) on.device = [left] { return std::make_unique<FailingDevice>(left); };
      const auto exchange = make_device_exchange(job, options, on);
      const auto outcome = take_device_steps(job.rank(), *exchange, options, {}, 0, 100);
      ASSERT_FALSE(outcome.has_value());
      if (job.rank() == 1) {
        EXPECT_EQ(outcome.error().code, ErrorCode::kSystem);
        EXPECT_EQ(outcome.error().message, "Xid 79");
      } else {
        EXPECT_EQ(outcome.error().code, ErrorCode::kPeerLost) << to_string(outcome.error());
        EXPECT_EQ(outcome.error().peer, 1);
        EXPECT_EQ(outcome.error().message, "rank 1: Xid 79");
      }
    });
  }
}

// Fails on this rank in operations that `fails` selects, when they are complete on all ranks.
class FailingCommunicator final : public Communicator {
 public:
  FailingCommunicator(Communicator& inner, std::function<bool(const Request&)> fails)
      : inner_(inner), fails_(std::move(fails)) {}

  Rank rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Result<void> run(const Request& request) override {
    TALLY_TRY(inner_.run(request));
    if (!fails_(request)) return {};
    return make_error(ErrorCode::kPeerLost, 0, "the link to rank 0 is cut");
  }
  Handle start(const Request& request) override { return inner_.start(request); }
  Result<SharedBuffer> allocate(std::size_t bytes) override { return inner_.allocate(bytes); }
  Result<std::vector<std::span<std::byte>>> share(const SharedBuffer& buffer,
                                                  Deadline by) override {
    return inner_.share(buffer, by);
  }
  Result<std::unique_ptr<Communicator>> split(int colour, int key, Deadline by) override {
    return inner_.split(colour, key, by);
  }
  void close() override { inner_.close(); }
  void abort(const Error& why) override { inner_.abort(why); }
  Traffic traffic() const override { return inner_.traffic(); }
  std::string recent_operations() const override { return inner_.recent_operations(); }

 private:
  Communicator& inner_;
  const std::function<bool(const Request&)> fails_;
};

// Rank 1 fails in the operation that commits step 2, which the others make. After the reform it has
// made the step, too, and its gradient counts once: all bits are those of a training without
// failure.
TEST(DeviceExchange, ARankThatMissesTheCommitCatchesUp) {
  for (const char* const codec :
       {"none", "int8:feedback=on", "sign", "topk:0.05", "powersgd:2", "powersgd:2,warmup=3"}) {
    SCOPED_TRACE(codec);
    const auto options = encoded_model(codec, sgd({.rate = 0.1, .momentum = 0.9}));
    const Operation commit =
        options.codec.kind == plan::Codec::kNone ? Operation::kAllreduce : Operation::kBarrier;
    const Course course{.steps = 5};
    const std::vector<Values> expected = train_on_devices(Network::kInProcess, 3, options, course);
    std::latch others(2);
    run_ranks(Network::kInProcess, 3, [&](Job& job) {
      const auto rest = job.world().split(0, job.rank(), soon());
      ASSERT_TRUE(rest.has_value());
      bool is_due = false;
      FailingCommunicator world(job.world(), [&](const Request& request) {
        // Gradients are float32.
        if (!is_due || request.operation != commit || request.type == DataType::kFloat32)
          return false;
        others.wait();
        return true;
      });
      auto made = try_device_exchange(world, options);
      ASSERT_TRUE(made.has_value()) << to_string(made.error());
      DeviceExchange& exchange = **made;
      ASSERT_TRUE(take_device_steps(job.rank(), exchange, options, course, 0, 2).has_value());
      is_due = job.rank() == 1;
      const auto taken = take_device_steps(job.rank(), exchange, options, course, 2, 3);
      EXPECT_EQ(taken.has_value(), job.rank() != 1);
      EXPECT_EQ(exchange.steps(), job.rank() == 1 ? 2U : 3U);
      if (job.rank() != 1) others.count_down();
      const auto reformed = exchange.reform(**rest);
      ASSERT_TRUE(reformed.has_value()) << to_string(reformed.error());
      EXPECT_EQ(exchange.steps(), 3U);
      ASSERT_TRUE(take_device_steps(job.rank(), exchange, options, course, 3, 5).has_value());
      EXPECT_TRUE(device_values(exchange, options) == expected[0]) << "rank " << job.rank();
      EXPECT_TRUE((*rest)->barrier().has_value());
    });
  }
}

// Counts abort().
class CountingSum final : public DeviceSum {
 public:
  CountingSum(std::unique_ptr<DeviceSum> inner, int& aborts)
      : inner_(std::move(inner)), aborts_(aborts) {}
  std::byte* own(std::size_t index) const override { return inner_->own(index); }
  std::byte* total(std::size_t index) const override { return inner_->total(index); }
  Result<void> start(std::size_t index) override { return inner_->start(index); }
  Result<void> finish(Deadline by) override { return inner_->finish(by); }
  void abort(const Error& why) override {
    ++aborts_;
    inner_->abort(why);
  }
  std::size_t bytes() const override { return inner_->bytes(); }

 private:
  const std::unique_ptr<DeviceSum> inner_;
  int& aborts_;
};

// The former communicator may be gone when a reform fails.
TEST(DeviceExchange, AReformThatFailsLeavesTheFormerSumsAlone) {
  for (const char* const codec : {"none", "powersgd:2"}) {
    const auto options = encoded_model(codec, sgd({.rate = 0.1}));
    run_ranks(Network::kInProcess, 2, [&](Job& job) {
      int aborts = 0;
      const MakeDeviceSum make_sum = [&aborts](Communicator& world, Device& device,
                                               const std::vector<DeviceSum::Array>& arrays,
                                               Deadline by) -> Result<std::unique_ptr<DeviceSum>> {
        TALLY_TRY(auto inner, host_sum_maker()(world, device, arrays, by));
        return std::unique_ptr<DeviceSum>(std::make_unique<CountingSum>(std::move(inner), aborts));
      };
      auto first = job.world().split(0, job.rank(), soon());
      const auto second = job.world().split(0, job.rank(), soon());
      const auto third = job.world().split(0, job.rank(), soon());
      ASSERT_TRUE(first.has_value() && second.has_value() && third.has_value());
      auto made = try_device_exchange(**first, options, {.make_sum = make_sum});
      ASSERT_TRUE(made.has_value());
      DeviceExchange& exchange = **made;
      FailingCommunicator failing(**second, [](const Request&) { return true; });
      EXPECT_FALSE(exchange.reform(failing).has_value());
      EXPECT_EQ(aborts, 0);
      first->reset();
      ASSERT_TRUE(exchange.reform(**third).has_value());
      EXPECT_TRUE(take_device_steps(job.rank(), exchange, options, {}, 0, 2).has_value());
      EXPECT_TRUE((*third)->barrier().has_value());
    });
  }
}

// Ranks 0 and 1 have made an update that rank 2 has not: they were three, and rank 2 trains alone.
class DeviceReformOf : public testing::TestWithParam<std::string> {};

TEST_P(DeviceReformOf, GivesAllRanksTheNewestModel) {
  const auto options = encoded_model(GetParam(), sgd({.rate = 0.1, .momentum = 0.9}));
  std::vector<Values> values(3);
  std::vector<Values> factors(3);  // of powersgd
  run_ranks(Network::kInProcess, 3, [&](Job& job) {
    const auto pair = job.world().split(job.rank() == 2 ? 1 : 0, job.rank(), soon());
    ASSERT_TRUE(pair.has_value());
    const auto exchange = make_device_exchange(job, options);
    ASSERT_TRUE(take_device_steps(job.rank(), *exchange, options, {}, 0, 2).has_value());
    ASSERT_TRUE(exchange->reform(**pair).has_value());
    if (job.rank() != 2) {
      ASSERT_TRUE(take_device_steps(job.rank(), *exchange, options, {}, 2, 3).has_value());
    }
    ASSERT_TRUE(exchange->reform(job.world()).has_value());
    EXPECT_EQ(exchange->steps(), 3U);
    const auto states = static_cast<Exchange&>(*exchange).checkpoint().codec_states();
    ASSERT_TRUE(states.has_value());
    for (const CodecState& state : *states)
      if (state.name == "q")
        factors[static_cast<std::size_t>(job.rank())].emplace_back(state.values.begin(),
                                                                   state.values.end());
    ASSERT_TRUE(take_device_steps(job.rank(), *exchange, options, {}, 3, 5).has_value());
    values[static_cast<std::size_t>(job.rank())] = device_values(*exchange, options);
    EXPECT_TRUE(job.world().barrier().has_value());
  });
  EXPECT_TRUE(factors[0] == factors[1] && factors[0] == factors[2]);
  EXPECT_TRUE(values[0] == values[1] && values[0] == values[2]);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceReformOf, testing::Values("none", "int8", "sign", "powersgd:2"),
                         [](const auto& each) {
                           return each.param.substr(0, each.param.find(':'));
                         });

TEST(DeviceExchange, StatesOfAllRanksAreTheModelOnce) {
  const auto options = encoded_model("none", adam({.rate = 0.01}));
  std::vector<std::vector<int>> counts;
  for (const ParameterInfo& info : options.parameters) counts.emplace_back(info.count());
  std::mutex mutex;
  run_ranks(Network::kInProcess, 3, [&](Job& job) {
    const auto exchange = make_device_exchange(job, options);
    ASSERT_TRUE(take_device_steps(job.rank(), *exchange, options, {}, 0, 2).has_value());
    const auto states = static_cast<Exchange&>(*exchange).checkpoint().states();
    ASSERT_TRUE(states.has_value());
    const Values values = device_values(*exchange, options);
    const std::lock_guard lock(mutex);
    for (const SliceState& slice : *states) {
      EXPECT_EQ(slice.state.size(), 2U);
      for (std::size_t i = 0; i < slice.values.size() / sizeof(float); ++i)
        ++counts[slice.parameter][slice.first + i];
      EXPECT_EQ(std::memcmp(slice.values.data(), &values[slice.parameter][slice.first],
                            slice.values.size()),
                0);
    }
  });
  for (const auto& of_parameter : counts)
    for (const int count : of_parameter) ASSERT_EQ(count, 1);
}

TEST(DeviceExchange, DrainEndsWhenAllRanksHaveCalledIt) {
  const auto options = encoded_model("none", sgd({.rate = 0.1}));
  run_ranks(Network::kInProcess, 3, [&](Job& job) {
    const auto exchange = make_device_exchange(job, options);
    ASSERT_TRUE(
        take_device_steps(job.rank(), *exchange, options, {}, 0, job.rank() + 1).has_value());
    ASSERT_TRUE(exchange->drain({.rates = {0.1, 0.05}}).has_value());
    EXPECT_EQ(exchange->steps(), 3U);
    EXPECT_TRUE(job.world().barrier().has_value());
  });
}

}  // namespace
}  // namespace tally::exchange
