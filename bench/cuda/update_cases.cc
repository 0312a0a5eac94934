#include "bench/cuda/update_cases.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "adapters/cuda/cuda_device.h"
#include "base/errors.h"
#include "base/rng.h"
#include "bench/cuda/measure.h"
#include "exchange/device/device_model.h"
#include "exchange/device/device_step.h"
#include "exchange/device/host_device.h"
#include "tally/optimizer.h"

namespace tally::bench {
namespace {

using exchange::Device;
using exchange::DeviceMemory;

constexpr std::size_t kMeasured = std::size_t{64} << 20;
constexpr std::size_t kChecked = (std::size_t{1} << 18) + 5;

struct UpdateCase {
  const char* name;
  OptimizerSpec optimizer;
  int arrays;  // of values that a step must read or write
  bool has_goal = false;
};

const std::vector<UpdateCase>& update_cases() {
  static const std::vector<UpdateCase> all = {
      {"sgd", sgd({.rate = 1e-3}), 3, true},
      {"sgd with momentum", sgd({.rate = 1e-3, .momentum = 0.9}), 5, true},
      {"adamw", adamw({.rate = 1e-3, .weight_decay = 0.1}), 7, true},
      {"adagrad", adagrad({.rate = 1e-3}), 5},
      {"ftrl", ftrl({.rate = 1e-3}), 7},
  };
  return all;
}

std::vector<std::byte> random_floats(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::byte> bytes(count * sizeof(float));
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(rng.uniform() - rng.uniform());
    std::memcpy(&bytes[i * sizeof(float)], &value, sizeof(float));
  }
  return bytes;
}

// A model of one parameter, and its gradient.
class Model {
 public:
  Model(Device& device, const OptimizerSpec& optimizer, std::size_t count)
      : device_(device),
        optimizers_{optimizer},
        parameters_{{.name = "p", .shape = {static_cast<std::int64_t>(count)}}} {}

  // `repeated`: values and gradient are this many numbers, again and again.
  Result<void> prepare(std::size_t repeated) {
    TALLY_TRY(model_, exchange::DeviceModel::make(device_, {.parameters = parameters_,
                                                            .optimizers = optimizers_,
                                                            .order = order_,
                                                            .bucket_bytes = 4 * kMeasured}));
    TALLY_TRY(gradient_, device_.allocate(bytes()));
    TALLY_TRY(table_, device_.allocate(sizeof(exchange::DevicePiece)));
    const std::vector<std::byte> values = random_floats(repeated, 1);
    const std::vector<std::byte> gradient = random_floats(repeated, 2);
    for (std::size_t at = 0; at < bytes(); at += values.size()) {
      const std::size_t size = std::min(values.size(), bytes() - at);
      TALLY_TRY(device_.write(model_->values(0).data() + at, std::span(values).first(size)));
      TALLY_TRY(device_.write(gradient_.data + at, std::span(gradient).first(size)));
    }
    exchange::DevicePiece piece{.count = parameters_[0].count(), .gradient = gradient_.data};
    exchange::set_factors(
        {.spec = optimizers_[0], .facts = {.step = 1, .rate = optimizers_[0].rate}}, piece);
    TALLY_TRY(device_.write(table_.data, std::as_bytes(std::span(&piece, 1))));
    bucket_ = model_->bucket(0);
    bucket_.pieces = reinterpret_cast<const exchange::DevicePiece*>(table_.data);
    return {};
  }

  Result<void> update() {
    return device_.update(bucket_, exchange::loop_of(optimizers_[0]), {.factor = 0.5});
  }
  Result<std::vector<std::byte>> values() {
    std::vector<std::byte> read(bytes());
    TALLY_TRY(device_.read(read, model_->values(0).data()));
    return read;
  }

 private:
  std::size_t bytes() const { return parameters_[0].count() * sizeof(float); }

  Device& device_;
  const std::vector<OptimizerSpec> optimizers_;
  const std::vector<exchange::ParameterInfo> parameters_;
  const std::vector<std::size_t> order_ = {0};
  std::unique_ptr<exchange::DeviceModel> model_;
  DeviceMemory gradient_, table_;
  exchange::DeviceBucket bucket_;
};

Result<void> check(cuda::CudaDevice& gpu, const OptimizerSpec& optimizer) {
  const auto cpu = exchange::host_device();
  std::vector<std::vector<std::byte>> results;
  for (Device* const device : {static_cast<Device*>(&gpu), cpu.get()}) {
    Model model(*device, optimizer, kChecked);
    TALLY_TRY(model.prepare(kChecked));
    TALLY_TRY(model.update());
    TALLY_TRY(auto values, model.values());
    results.push_back(std::move(values));
  }
  if (results[0] == results[1]) return {};
  return corrupt("other values than the CPU's");
}

Result<void> run_update(cuda::CudaDevice& gpu, const UpdateCase& each, double copy) {
  TALLY_TRY(check(gpu, each.optimizer));
  Model model(gpu, each.optimizer, kMeasured);
  TALLY_TRY(model.prepare(std::size_t{1} << 20));
  TALLY_TRY(const double seconds, seconds_of([&] { return model.update(); }));
  print_line({.name = each.name,
              .bytes = 4.0 * each.arrays * kMeasured,
              .seconds = seconds,
              .copy = copy,
              .has_goal = each.has_goal});
  return {};
}

Result<void> run_sum(cuda::CudaDevice& gpu, std::size_t sources, double copy) {
  std::vector<DeviceMemory> memory;
  std::vector<const std::byte*> from;
  std::vector<float> expected(kChecked);
  for (std::size_t s = 0; s < sources; ++s) {
    TALLY_TRY(DeviceMemory source, gpu.allocate(kMeasured * sizeof(float)));
    const std::vector<std::byte> values = random_floats(kChecked, s);
    TALLY_TRY(gpu.write(source.data, values));
    for (std::size_t i = 0; i < kChecked; ++i) {
      float value = 0;
      std::memcpy(&value, &values[i * sizeof(float)], sizeof(float));
      expected[i] = s == 0 ? value : expected[i] + value;
    }
    from.push_back(source.data);
    memory.push_back(std::move(source));
  }
  TALLY_TRY(const DeviceMemory to, gpu.allocate(kMeasured * sizeof(float)));
  const auto sum = [&] { return gpu.sum(DataType::kFloat32, from, to.data, kMeasured); };
  TALLY_TRY(sum());
  std::vector<float> found(kChecked);
  TALLY_TRY(gpu.read(std::as_writable_bytes(std::span(found)), to.data));
  if (found != expected) return corrupt("another sum than the CPU's");
  TALLY_TRY(const double seconds, seconds_of(sum));
  print_line({.name = fmt::format("sum of {} arrays", sources),
              .bytes = 4.0 * static_cast<double>(sources + 1) * kMeasured,
              .seconds = seconds,
              .copy = copy});
  return {};
}

bool was_right(const std::string& name, const Result<void>& done) {
  if (!done) fmt::print("failed: {}: {}\n", name, done.error().message);
  return done.has_value();
}

}  // namespace

bool run_update_cases(double copy_bytes_per_second) {
  auto gpu = cuda::CudaDevice::open(0);
  if (!gpu) return was_right("updates", gpu.error());
  bool is_right = true;
  for (const UpdateCase& each : update_cases())
    is_right = was_right(each.name, run_update(**gpu, each, copy_bytes_per_second)) && is_right;
  for (const std::size_t sources : {2U, 4U, 8U})
    is_right = was_right(fmt::format("sum of {} arrays", sources),
                         run_sum(**gpu, sources, copy_bytes_per_second)) &&
               is_right;
  return is_right;
}

}  // namespace tally::bench
