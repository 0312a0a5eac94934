#include "exchange/device/device_encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>

#include "exchange/device/device_exchange_test_support.h"

// The codecs of a DeviceExchange, compared with updates in plain loops and with a group in which
// each rank is a sender.
namespace tally::exchange {
namespace {

using collective::Network;

struct DeviceCodecCase {
  std::string codec;
  OptimizerSpec optimizer;
};

const std::vector<DeviceCodecCase>& device_codecs() {
  const OptimizerSpec momentum = sgd({.rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  const OptimizerSpec nesterov = sgd({.rate = 0.1, .momentum = 0.9, .nesterov = true});
  static const std::vector<DeviceCodecCase> all = {
      {"fp16", momentum},
      {"bf16", adam({.rate = 0.01})},
      {"bf16:warmup=2,all", momentum},
      {"fp16:feedback=on", momentum},
      {"int8", momentum},
      {"int8:64,all,feedback=on", sgd({.rate = 0.1})},
      {"int8:100,warmup=2", momentum},
      {"int8:momentum=early", nesterov},
      {"fp8:e4m3", momentum},
      {"fp8:e5m2,back=bf16,feedback=off", momentum},
      {"onebit", momentum},
      {"onebit:column", momentum},
      {"onebit:column,back=same", sgd({.rate = 0.1})},
      {"sign", adam({.rate = 0.01})},
      {"sign:64,momentum=early", nesterov},
      {"sign:back=bf16,warmup=2", momentum},
      {"topk:0.05", momentum},
      {"topk:0.05,exact,all", nesterov},
      {"topk:0.05,warmup=2,momentum=late", momentum},
      {"threshold:0.05", momentum},
  };
  return all;
}

class DeviceEncodingOf : public testing::TestWithParam<DeviceCodecCase> {};

TEST_P(DeviceEncodingOf, HasTheBitsOfTheSlowRecipeOnEveryRank) {
  const auto options = encoded_model(GetParam().codec, GetParam().optimizer);
  for (const int ranks : {1, 2, 3}) {
    const Course course;
    SlowRecipe expected(options, single(ranks));
    expected.run(course);
    for (const Values& values : train_on_devices(Network::kInProcess, ranks, options, course))
      for (std::size_t p = 0; p < values.size(); ++p)
        ASSERT_EQ(values[p], expected.values()[p]) << ranks << " ranks, parameter " << p;
  }
}

// In each step another rank has no samples, one parameter is used by one rank only, and another by
// no rank.
TEST_P(DeviceEncodingOf, TakesGradientsThatAreMissing) {
  const auto options = encoded_model(GetParam().codec, GetParam().optimizer);
  Course course;
  course.samples = [](Rank rank, int step) { return rank == step % 3 ? 0.0 : 4.0 + rank; };
  course.has = [](std::size_t p, Rank rank, int step) {
    if (p == 5) return step == 1;
    return p != 2 || rank != 1 || step == 2;
  };
  SlowRecipe expected(options, single(3));
  expected.run(course);
  for (const Values& values : train_on_devices(Network::kInProcess, 3, options, course))
    for (std::size_t p = 0; p < values.size(); ++p)
      ASSERT_EQ(values[p], expected.values()[p]) << "parameter " << p;
}

TEST_P(DeviceEncodingOf, HasTheBitsOfAGroupThatClipsByValue) {
  auto options = encoded_model(GetParam().codec, GetParam().optimizer);
  options.clip_value = 0.02;
  const Values expected = train(Network::kInProcess, 3, options, {})[0];
  for (const bool shards : {false, true})
    for (const Values& values :
         train_on_devices(Network::kInProcess, 3, options, {}, {.shards_state = shards}))
      EXPECT_EQ(values, expected) << (shards ? "sharded" : "replicated");
}

INSTANTIATE_TEST_SUITE_P(All, DeviceEncodingOf, testing::ValuesIn(device_codecs()),
                         [](const auto& each) {
                           std::string name = each.param.codec;
                           for (char& letter : name)
                             if (std::isalnum(static_cast<unsigned char>(letter)) == 0)
                               letter = '_';
                           return name;
                         });

// Norms add the cells of buckets, which are larger on devices unless they are set.
TEST(DeviceEncoding, ClipsAndNormsTheAverageAsAGroup) {
  for (const OptimizerSpec& optimizer : {lamb({.rate = 0.01}), lars({.rate = 0.1})}) {
    auto options = encoded_model("int8", optimizer);
    options.clip_norm = 0.5;
    options.clip_value = 0.02;
    const Values expected = train(Network::kInProcess, 3, options, {})[0];
    const auto trained = train_on_devices(Network::kInProcess, 3, options, {});
    EXPECT_LT(largest_difference(trained[0], expected), 1e-6) << to_string(optimizer);
    EXPECT_TRUE(trained[1] == trained[0] && trained[2] == trained[0]);
  }
}

// Loss scaling has a weight per sample below one, and gradients that overflow.
TEST(DeviceEncoding, ForgetsAGradientThatIsNotFinite) {
  auto options = encoded_model("int8", sgd({.rate = 0.1}));
  options.discards_nonfinite = true;
  collective::run_ranks(Network::kInProcess, 2, [&](Job& job) {
    const auto exchange = make_device_exchange(job, options);
    const Values before = device_values(*exchange, options);
    for (const bool overflows : {true, false}) {
      const StepContribution contribution{.samples = 4, .weight = 4.0 / 1024, .rates = {0.1, 0.05}};
      Values gradients = initial_values(options);
      if (overflows && job.rank() == 1) gradients[2][7] = std::numeric_limits<float>::infinity();
      ASSERT_TRUE(exchange->announce(contribution).has_value());
      for (std::size_t p = gradients.size(); p-- > 0;)
        ASSERT_TRUE(exchange->ready(p, reinterpret_cast<const std::byte*>(gradients[p].data()))
                        .has_value());
      const auto totals = exchange->complete(contribution);
      ASSERT_TRUE(totals.has_value());
      EXPECT_EQ(totals->updated, !overflows);
      EXPECT_EQ(device_values(*exchange, options) == before, overflows);
    }
    for (const auto& parameter : device_values(*exchange, options))
      EXPECT_THAT(parameter,
                  testing::Each(testing::Truly([](float x) { return std::isfinite(x); })));
    EXPECT_TRUE(job.world().barrier().has_value());
  });
}

// float64 is summed without a codec.
TEST(DeviceEncoding, LeavesFloat64AsItIs) {
  for (const int ranks : {1, 3}) {
    collective::run_ranks(Network::kInProcess, ranks, [&](Job& job) {
      const GroupUpdate::Options options{
          .parameters = {{.name = "w", .type = DataType::kFloat64, .shape = {40, 50}},
                         {.name = "v", .shape = {40, 50}}},
          .optimizers = {sgd({.rate = 1})},
          .codec = spec_of("sign")};
      auto made = DeviceExchange::make(job.world(),
                                       {.update = options,
                                        .device = host_device(),
                                        .make_sum = host_sum_maker(),
                                        .initial = [](std::size_t, std::span<std::byte>) {}},
                                       soon());
      ASSERT_TRUE(made.has_value());
      std::vector<double> gradient(2000);
      for (int i = 0; i < 2000; ++i)
        gradient[static_cast<std::size_t>(i)] = 1 + 1e-12 * i * (job.rank() + 1);
      const std::vector<float> zeros(2000);
      const StepContribution contribution{.samples = 2, .weight = 2, .rates = {1}};
      ASSERT_TRUE((*made)->announce(contribution).has_value());
      ASSERT_TRUE((*made)->ready(1, reinterpret_cast<const std::byte*>(zeros.data())).has_value());
      ASSERT_TRUE(
          (*made)->ready(0, reinterpret_cast<const std::byte*>(gradient.data())).has_value());
      ASSERT_TRUE((*made)->complete(contribution).has_value());
      const auto* const values = reinterpret_cast<const double*>((*made)->values(0).data());
      const double mean = (ranks + 1) / 2.0;
      for (int i = 0; i < 2000; ++i) ASSERT_NEAR(values[i], -(1 + mean * 1e-12 * i), 1e-15);
      ASSERT_TRUE(job.world().barrier().has_value());
    });
  }
}

// A device that damages what it hands over.
enum class Damage { kTooShort, kWrongBytes };
class DamagingGather final : public DeviceGather {
 public:
  DamagingGather(std::unique_ptr<DeviceGather> inner, Damage damage)
      : inner_(std::move(inner)), damage_(damage) {}
  std::byte* own(std::size_t index) const override { return inner_->own(index); }
  Result<void> start(std::size_t index, std::size_t bytes) override {
    if (damage_ == Damage::kTooShort) return inner_->start(index, bytes / 2);
    std::fill_n(own(index), bytes, std::byte{0xBF});  // negative scales, and no form of topk
    return inner_->start(index, bytes);
  }
  Result<void> finish(Deadline by) override { return inner_->finish(by); }
  std::span<const std::byte> of(Rank rank, std::size_t index) const override {
    return inner_->of(rank, index);
  }
  void abort(const Error& why) override { inner_->abort(why); }
  std::size_t bytes() const override { return inner_->bytes(); }

 private:
  const std::unique_ptr<DeviceGather> inner_;
  const Damage damage_;
};

void expect_refused(const std::string& codec, Damage damage, const std::string& message) {
  SCOPED_TRACE(codec);
  const auto options = encoded_model(codec, sgd({.rate = 0.1}));
  collective::run_ranks(Network::kInProcess, 2, [&](Job& job) {
    const bool damages = job.rank() == 1;
    const MakeDeviceGather make_gather = [damages, damage](
                                             Communicator& world, Device& device,
                                             const std::vector<std::size_t>& capacities,
                                             Deadline by) -> Result<std::unique_ptr<DeviceGather>> {
      TALLY_TRY(auto inner, host_gather_maker()(world, device, capacities, by));
      if (!damages) return inner;
      return std::unique_ptr<DeviceGather>(
          std::make_unique<DamagingGather>(std::move(inner), damage));
    };
    auto made = DeviceExchange::make(job.world(),
                                     {.update = options,
                                      .device = host_device(),
                                      .make_sum = host_sum_maker(),
                                      .make_gather = make_gather,
                                      .initial = [](std::size_t, std::span<std::byte>) {}},
                                     soon());
    ASSERT_TRUE(made.has_value());
    const auto taken = take_device_steps(job.rank(), **made, options, {}, 0, 1);
    ASSERT_FALSE(taken.has_value());
    EXPECT_EQ(taken.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(taken.error().message, testing::HasSubstr(message));
  });
}

TEST(DeviceEncoding, RefusesMessagesThatAreTooShort) {
  for (const char* const codec : {"int8", "topk:0.05"})
    expect_refused(codec, Damage::kTooShort, "bytes at");
}

// Of all codecs and ways back; onebit:column has a codec for each length of a row.
TEST(DeviceEncoding, RefusesBytesThatNoEncoderWrites) {
  for (const char* const codec : {"int8", "sign", "onebit:column", "topk:0.05"})
    expect_refused(codec, Damage::kWrongBytes, "no encoder writes");
}

}  // namespace
}  // namespace tally::exchange
