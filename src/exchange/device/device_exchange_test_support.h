#pragma once
// Support for tests of DeviceExchange over devices in ordinary memory.
#include <functional>
#include <memory>
#include <vector>

#include "exchange/device/device_exchange.h"
#include "exchange/device/host_device.h"
#include "exchange/group/encoded_update_test_support.h"

namespace tally::exchange {

// Ordinary memory, for tests that change a part of it.
class TestDevice : public Device {
 public:
  std::string name() const override { return "test"; }
  std::string id() const override { return "test"; }
  void use_stream(void* /*stream*/) override {}
  Result<DeviceMemory> allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  Result<void> write(std::byte* to, std::span<const std::byte> from) override {
    return inner_->write(to, from);
  }
  Result<void> post(std::byte* to, std::span<const std::byte> from) override {
    return inner_->post(to, from);
  }
  Result<void> read(std::span<std::byte> to, const std::byte* from) override {
    return inner_->read(to, from);
  }
  Result<void> copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    return inner_->copy(to, from, bytes);
  }
  Result<void> wait(Deadline by) override { return inner_->wait(by); }
  Result<void> gather(const DeviceBucket& bucket, const GradientChange& change) override {
    return inner_->gather(bucket, change);
  }
  Result<void> squares(const DeviceBucket& bucket, const GradientChange& change,
                       Squares* squares) override {
    return inner_->squares(bucket, change, squares);
  }
  Result<void> update(const DeviceBucket& bucket, UpdateLoop loop,
                      const GradientChange& change) override {
    return inner_->update(bucket, loop, change);
  }
  Result<void> sum(DataType type, std::span<const std::byte* const> from, std::byte* to,
                   std::size_t count) override {
    return inner_->sum(type, from, to, count);
  }
  Result<void> widen(const DeviceBucket& bucket) override { return inner_->widen(bucket); }
  Result<std::unique_ptr<DeviceCodec>> make_codec(const plan::CodecSpec& spec, std::size_t most,
                                                  const codec::Shape& shape,
                                                  std::uint32_t* damaged) override {
    return inner_->make_codec(spec, most, shape, damaged);
  }
  Result<std::unique_ptr<DeviceLowRank>> make_low_rank(const codec::PowerSgd::Options& options,
                                                       bool feedback) override {
    return inner_->make_low_rank(options, feedback);
  }

 private:
  const std::unique_ptr<Device> inner_ = host_device();
};

// How an exchange is made over devices.
struct OnDevices {
  std::function<std::unique_ptr<Device>()> device = host_device;
  MakeDeviceSum make_sum = host_sum_maker();
  MakeDeviceGather make_gather = host_gather_maker();
  bool shards_state = false;
};

inline Result<std::unique_ptr<DeviceExchange>> try_device_exchange(
    Communicator& world, const GroupUpdate::Options& options, const OnDevices& on = {}) {
  const auto initial = [all = initial_values(options)](std::size_t p, std::span<std::byte> values) {
    std::memcpy(values.data(), all[p].data(), values.size());
  };
  return DeviceExchange::make(world,
                              {.update = options,
                               .device = on.device(),
                               .make_sum = on.make_sum,
                               .make_gather = on.make_gather,
                               .shards_state = on.shards_state,
                               .initial = initial},
                              soon());
}

inline std::unique_ptr<DeviceExchange> make_device_exchange(Job& job,
                                                            const GroupUpdate::Options& options,
                                                            const OnDevices& on = {}) {
  auto made = try_device_exchange(job.world(), options, on);
  EXPECT_TRUE(made.has_value()) << to_string(made.error());
  return made ? std::move(*made) : nullptr;
}

inline Values device_values(const DeviceExchange& exchange, const GroupUpdate::Options& options) {
  Values values;
  for (std::size_t p = 0; p < options.parameters.size(); ++p) {
    values.emplace_back(options.parameters[p].count());
    std::memcpy(values[p].data(), exchange.values(p).data(), exchange.values(p).size());
  }
  return values;
}

// Takes part in the steps [from, to) of `course`; in steps with odd numbers without announce().
inline Result<void> take_device_steps(Rank rank, DeviceExchange& exchange,
                                      const GroupUpdate::Options& options, const Course& course,
                                      int from, int to) {
  std::vector<double> rates;
  for (const OptimizerSpec& spec : options.optimizers) rates.push_back(spec.rate);
  for (int step = from; step < to; ++step) {
    const double samples = course.samples(rank, step);
    const StepContribution contribution{
        .samples = samples, .weight = samples, .loss_sum = 2 * samples, .rates = rates};
    TALLY_TRY(exchange.begin());
    if (samples > 0 && step % 2 == 0) TALLY_TRY(exchange.announce(contribution));
    Values gradients(options.parameters.size());
    for (std::size_t p = options.parameters.size(); samples > 0 && p-- > 0;) {
      if (!course.has(p, rank, step)) continue;
      for (std::size_t i = 0; i < options.parameters[p].count(); ++i)
        gradients[p].push_back(gradient_value(p, i, step, rank));
      TALLY_TRY(exchange.ready(p, reinterpret_cast<const std::byte*>(gradients[p].data())));
    }
    TALLY_TRY(const StepTotals totals, exchange.complete(contribution));
    EXPECT_EQ(totals.loss_sum, 2 * totals.samples);
  }
  return {};
}

inline std::vector<Values> train_on_devices(collective::Network network, int ranks,
                                            const GroupUpdate::Options& options,
                                            const Course& course, const OnDevices& on = {}) {
  std::vector<Values> results(static_cast<std::size_t>(ranks));
  collective::run_ranks(network, ranks, [&](Job& job) {
    const auto exchange = make_device_exchange(job, options, on);
    ASSERT_TRUE(
        take_device_steps(job.rank(), *exchange, options, course, 0, course.steps).has_value());
    results[static_cast<std::size_t>(job.rank())] = device_values(*exchange, options);
    EXPECT_TRUE(job.world().barrier().has_value());
  });
  return results;
}

}  // namespace tally::exchange
