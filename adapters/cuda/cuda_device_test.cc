#include "adapters/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <latch>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/rng.h"
#include "exchange/device/device_model.h"
#include "exchange/device/device_step.h"
#include "exchange/device/host_device.h"
#include "kernel/reduce/reduce.h"
#include "soon.h"

// The kernels of a GPU beside the loops of the CPU, bit for bit.
namespace tally::cuda {
namespace {

using exchange::Device;
using exchange::DeviceBucket;
using exchange::DeviceMemory;
using exchange::DevicePiece;
using exchange::GradientChange;
using exchange::Squares;
using Bytes = std::vector<std::byte>;

std::unique_ptr<CudaDevice> open_gpu() {
  auto opened = CudaDevice::open(0);
  EXPECT_TRUE(opened.has_value()) << to_string(opened.error());
  return opened ? std::move(*opened) : nullptr;
}

template <typename T>
T taken(Result<T> result) {
  EXPECT_TRUE(result.has_value()) << to_string(result.error());
  return result.has_value() ? std::move(*result) : T();
}
void expect_done(const Result<void>& result) {
  EXPECT_TRUE(result.has_value()) << to_string(result.error());
}

Bytes read_all(Device& device, const std::byte* from, std::size_t bytes) {
  Bytes read(bytes);
  expect_done(device.read(read, from));
  return read;
}

// Any NaN equals any other.
template <typename T>
void canonicalise(Bytes& bytes) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, &bytes[at], sizeof(T));
    if (!std::isnan(value)) continue;
    value = std::numeric_limits<T>::quiet_NaN();
    std::memcpy(&bytes[at], &value, sizeof(T));
  }
}
Bytes canonical(DataType type, Bytes bytes) {
  if (type == DataType::kFloat32) canonicalise<float>(bytes);
  if (type == DataType::kFloat64) canonicalise<double>(bytes);
  // All exponent bits, and a fraction.
  const unsigned infinity = type == DataType::kFloat16 ? 0x7C00 : 0x7F80;
  for (std::size_t at = 0; size_of(type) == 2 && at < bytes.size(); at += 2) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, &bytes[at], 2);
    if ((bits & 0x7FFFU) <= infinity) continue;
    bits = 0x7FFF;
    std::memcpy(&bytes[at], &bits, 2);
  }
  return bytes;
}

void expect_same(DataType type, const Bytes& gpu, const Bytes& cpu, const std::string& what) {
  const Bytes a = canonical(type, gpu);
  const Bytes b = canonical(type, cpu);
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(a[i], b[i]) << what << ", element " << i / size_of(type);
}

// Random elements of a type, as bytes. `odd`: some are NaN, infinite, denormal or zero.
Bytes random_elements(DataType type, std::size_t count, std::uint64_t seed, bool odd) {
  Rng rng(seed);
  const auto draw = [&] {
    const double value = rng.uniform() - rng.uniform();
    if (!odd || rng.below(50) != 0) return value;
    using Limits = std::numeric_limits<double>;
    constexpr double kOdd[] = {0.0,
                               -0.0,
                               1e-40,
                               -1e-310,
                               1e30,
                               Limits::infinity(),
                               -Limits::infinity(),
                               Limits::quiet_NaN()};
    return kOdd[rng.below(std::size(kOdd))];
  };
  Bytes bytes(count * size_of(type));
  std::vector<float> floats(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = draw();
    floats[i] = static_cast<float>(value);
    if (type == DataType::kFloat64) std::memcpy(&bytes[i * sizeof(double)], &value, sizeof(double));
  }
  if (type == DataType::kFloat32) std::memcpy(bytes.data(), floats.data(), bytes.size());
  if (size_of(type) == 2) kernel::kernels().narrow(type, floats.data(), bytes.data(), count);
  return bytes;
}

// How the update of a bucket is tried.
struct Trial {
  DataType type = DataType::kFloat32;
  OptimizerSpec optimizer;
  GradientChange change = {};
  bool in_sums = false;     // the gradients are gathered first, as with several ranks
  std::size_t skipped = 0;  // elements between an aligned address and a gradient
  bool odd = false;         // some gradients are NaN, infinite, denormal or zero
  bool is_lamb_direction = false;
};

// The arrays that a device has changed, by name.
using Outcome = std::vector<std::pair<std::string, Bytes>>;

// A model of four parameters in one bucket, one of which is not used, and some steps.
class Bucket {
 public:
  Bucket(Device& device, const Trial& trial)
      : device_(device),
        trial_(trial),
        computed_(trial.type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32),
        optimizers_{trial.optimizer} {
    for (const std::int64_t count : {1000, 7, 3, 2 * 16384 + 13})
      parameters_.push_back(
          {.name = fmt::format("p{}", parameters_.size()), .type = trial.type, .shape = {count}});
    model_ = taken(exchange::DeviceModel::make(device, {.parameters = parameters_,
                                                        .optimizers = optimizers_,
                                                        .order = order_,
                                                        .bucket_bytes = std::size_t{1} << 30}));
    EXPECT_EQ(model_->layout().buckets.size(), 1U);
    for (std::size_t p = 0; p < parameters_.size(); ++p)
      expect_done(model_->write_values(
          p, random_elements(trial.type, parameters_[p].count(), 10 + p, false)));
    const std::size_t count = model_->layout().buckets[0].count;
    sums_ = taken(device.allocate(count * size_of(computed_)));
    squares_ = taken(device.allocate(model_->cells() * sizeof(Squares)));
    table_ = taken(device.allocate(parameters_.size() * sizeof(DevicePiece)));
    for (const exchange::ParameterInfo& info : parameters_)
      gradients_.push_back(
          taken(device.allocate((info.count() + trial.skipped) * size_of(trial.type))));
  }

  Outcome run(int steps) {
    Outcome outcome;
    for (int step = 0; step < steps; ++step) {
      write_gradients(step);
      DeviceBucket bucket = model_->bucket(0);
      bucket.sums = sums_.data;
      bucket.pieces = reinterpret_cast<const DevicePiece*>(table_.data);
      post_pieces(step, /*in_sums=*/false);
      GradientChange change = trial_.change;
      if (trial_.in_sums) {
        expect_done(device_.gather(bucket, change));
        keep(outcome, "gathered", computed_, sums_);
        post_pieces(step, /*in_sums=*/true);
        change = {.factor = 0.25};
      }
      expect_done(device_.squares(bucket, change, reinterpret_cast<Squares*>(squares_.data)));
      keep(outcome, "squares", DataType::kFloat64, squares_);
      const exchange::UpdateLoop loop = trial_.is_lamb_direction
                                            ? exchange::UpdateLoop::kLambDirection
                                            : exchange::loop_of(trial_.optimizer);
      expect_done(device_.update(bucket, loop, change));
      if (trial_.is_lamb_direction) keep(outcome, "direction", computed_, sums_);
    }
    const std::size_t count = model_->layout().buckets[0].count;
    const DeviceBucket& bucket = model_->bucket(0);
    const auto keep_array = [&](const char* name, DataType type, const std::byte* data) {
      if (data == nullptr) return;
      outcome.emplace_back(name, canonical(type, read_all(device_, data, count * size_of(type))));
    };
    keep_array("values", trial_.type, bucket.values);
    keep_array("master", computed_, bucket.master);
    keep_array("first state", computed_, bucket.state[0]);
    keep_array("second state", computed_, bucket.state[1]);
    return outcome;
  }

 private:
  static constexpr std::size_t kUnused = 2;  // the parameter without a gradient

  void keep(Outcome& outcome, const char* name, DataType type, const DeviceMemory& memory) {
    outcome.emplace_back(name, canonical(type, read_all(device_, memory.data, memory.bytes)));
  }

  std::byte* gradient(std::size_t p) const {
    return gradients_[p].data + trial_.skipped * size_of(trial_.type);
  }
  void write_gradients(int step) {
    for (std::size_t p = 0; p < parameters_.size(); ++p)
      expect_done(device_.write(
          gradient(p), random_elements(trial_.type, parameters_[p].count(),
                                       100 * static_cast<std::uint64_t>(step) + p, trial_.odd)));
  }

  void post_pieces(int step, bool in_sums) {
    std::vector<DevicePiece> pieces;
    for (const exchange::BucketLayout::Entry& entry : model_->layout().buckets[0].entries) {
      DevicePiece& piece = pieces.emplace_back();
      piece.first = entry.range.begin;
      piece.count = entry.range.count();
      piece.gradient = in_sums ? nullptr : gradient(entry.parameter);
      piece.used = entry.parameter == kUnused ? 0 : 1;
      const exchange::StepScalars scalars{
          .spec = trial_.optimizer,
          .facts = {.step = static_cast<std::uint64_t>(step) + 1, .rate = trial_.optimizer.rate},
          .norms = {.parameters = 3, .gradient = 2},
          .type = trial_.type};
      if (trial_.is_lamb_direction)
        exchange::set_direction_factors(scalars, piece);
      else
        exchange::set_factors(scalars, piece);
    }
    expect_done(device_.post(table_.data, std::as_bytes(std::span(pieces))));
  }

  Device& device_;
  const Trial trial_;
  const DataType computed_;
  const std::vector<OptimizerSpec> optimizers_;
  const std::vector<std::size_t> order_ = {0, 1, 2, 3};
  std::vector<exchange::ParameterInfo> parameters_;
  std::unique_ptr<exchange::DeviceModel> model_;
  DeviceMemory sums_, squares_, table_;
  std::vector<DeviceMemory> gradients_;
};

void expect_same_on_both(Device& gpu, const Trial& trial) {
  const auto cpu = exchange::host_device();
  const Outcome found = Bucket(gpu, trial).run(3);
  const Outcome expected = Bucket(*cpu, trial).run(3);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_TRUE(found[i] == expected[i])
        << found[i].first << ", item " << i << ", type " << to_string(trial.type);
}

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16,
                               DataType::kBFloat16};

std::vector<OptimizerSpec> all_optimizers() {
  return {sgd({.rate = 0.1}),
          sgd({.rate = 0.1, .weight_decay = 0.01}),
          sgd({.rate = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01}),
          sgd({.rate = 0.1, .momentum = 0.9, .nesterov = true}),
          adagrad({.rate = 0.05, .weight_decay = 0.01, .initial_accumulator = 0.1}),
          adam({.rate = 0.01}),
          adamw({.rate = 0.01, .weight_decay = 0.1}),
          lamb({.rate = 0.01}),
          lars({.rate = 0.1, .momentum = 0.9, .weight_decay = 1e-4}),
          ftrl({.rate = 0.1, .l1 = 0.001, .l2 = 0.01})};
}

TEST(CudaDevice, UpdatesHaveTheBitsOfTheCpu) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  for (const DataType type : kTypes)
    for (const OptimizerSpec& optimizer : all_optimizers())
      for (const bool in_sums : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{} {}, in sums: {}", to_string(type), to_string(optimizer), in_sums));
        expect_same_on_both(*gpu, {.type = type,
                                   .optimizer = optimizer,
                                   .change = {.factor = 0.125},
                                   .in_sums = in_sums});
        if (testing::Test::HasFatalFailure()) return;
      }
}

TEST(CudaDevice, LambDirectionsHaveTheBitsOfTheCpu) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  for (const DataType type : kTypes)
    for (const bool in_sums : {false, true})
      expect_same_on_both(*gpu, {.type = type,
                                 .optimizer = lamb({.rate = 0.01, .weight_decay = 0.02}),
                                 .in_sums = in_sums,
                                 .is_lamb_direction = true});
}

TEST(CudaDevice, ClipsAndScalesLikeTheCpu) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  for (const DataType type : kTypes)
    for (const GradientChange& change :
         {GradientChange{.factor = 1.0 / 3, .limit = 0.05, .scale = 0.7},
          GradientChange{.limit = 0.3}, GradientChange{.factor = 1e-3, .scale = 1.5}})
      expect_same_on_both(*gpu,
                          {.type = type, .optimizer = adamw({.rate = 0.01}), .change = change});
}

// Elements are loaded one by one where an address is not that of a vector.
TEST(CudaDevice, GradientsLieAtAnyAddressOfAnElement) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  for (const DataType type : kTypes)
    for (const std::size_t skipped : {1U, 2U, 3U})
      expect_same_on_both(
          *gpu,
          {.type = type, .optimizer = sgd({.rate = 0.1, .momentum = 0.9}), .skipped = skipped});
}

TEST(CudaDevice, OddGradientsGiveTheBitsOfTheCpu) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  for (const DataType type : kTypes)
    for (const OptimizerSpec& optimizer : all_optimizers())
      expect_same_on_both(*gpu, {.type = type, .optimizer = optimizer, .odd = true});
}

// A NaN stays one, and an infinite gradient becomes the limit.
TEST(CudaDevice, ClipsOddGradientsLikeTheCpu) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  for (const DataType type : kTypes)
    for (const GradientChange& change :
         {GradientChange{.factor = 1.0 / 3, .limit = 0.05, .scale = 0.7},
          GradientChange{.limit = 0.3}, GradientChange{.factor = 1e-3, .scale = 1.5}})
      for (const bool in_sums : {false, true})
        expect_same_on_both(*gpu, {.type = type,
                                   .optimizer = adamw({.rate = 0.01}),
                                   .change = change,
                                   .in_sums = in_sums,
                                   .odd = true});
}

TEST(CudaDevice, SumsHaveTheOrderOfTheSources) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  const auto cpu = exchange::host_device();
  constexpr std::size_t kCount = 5003;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64})
    for (const std::size_t sources : {1U, 2U, 3U, 4U, 5U, 16U, 17U, 40U})
      for (const std::size_t skipped : {0U, 1U}) {
        const std::size_t bytes = (kCount + skipped) * size_of(type);
        std::vector<Bytes> results;
        for (Device* const device : {static_cast<Device*>(gpu.get()), cpu.get()}) {
          std::vector<DeviceMemory> memory;
          std::vector<const std::byte*> from;
          for (std::size_t s = 0; s < sources; ++s) {
            memory.push_back(taken(device->allocate(bytes)));
            expect_done(device->write(memory.back().data,
                                      random_elements(type, kCount + skipped, s, false)));
            from.push_back(memory.back().data + skipped * size_of(type));
          }
          const DeviceMemory to = taken(device->allocate(bytes));
          expect_done(device->sum(type, from, to.data + skipped * size_of(type), kCount));
          results.push_back(read_all(*device, to.data, bytes));
        }
        expect_same(type, results[0], results[1], fmt::format("{} sources", sources));
      }
}

TEST(CudaDevice, CopiesAnyNumberOfBytesInOrder) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  const auto cpu = exchange::host_device();
  const Bytes content = random_elements(DataType::kFloat32, 100, 1, false);
  for (Device* const device : {static_cast<Device*>(gpu.get()), cpu.get()}) {
    const DeviceMemory from = taken(device->allocate(content.size()));
    const DeviceMemory to = taken(device->allocate(content.size()));
    expect_done(device->copy(to.data, from.data, 0));
    expect_done(device->post(from.data, content));
    expect_done(device->copy(to.data + 2, from.data + 6, 13));
    expect_done(device->post(from.data, Bytes(content.size())));
    Bytes expected(content.size());
    std::copy_n(content.begin() + 6, 13, expected.begin() + 2);
    EXPECT_TRUE(read_all(*device, to.data, content.size()) == expected) << device->name();
  }
}

// post() copies through a ring of pinned memory, which is smaller than the array here.
TEST(CudaDevice, PostedAndWrittenBytesArriveInOrder) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  constexpr std::size_t kBytes = (std::size_t{5} << 20) + 77;
  const DeviceMemory memory = taken(gpu->allocate(kBytes));
  EXPECT_EQ(read_all(*gpu, memory.data, kBytes), Bytes(kBytes));
  Bytes all(kBytes);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < kBytes; ++i)
      all[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(round));
    Bytes posted = all;
    expect_done(gpu->post(memory.data, posted));
    std::fill(posted.begin(), posted.end(), std::byte{0});  // it may be used again at once
    EXPECT_EQ(read_all(*gpu, memory.data, kBytes), all);
  }
  expect_done(gpu->write(memory.data, Bytes(kBytes, std::byte{7})));
  EXPECT_EQ(read_all(*gpu, memory.data, kBytes), Bytes(kBytes, std::byte{7}));
}

TEST(CudaDevice, ReadsSeveralArraysIntoPinnedAndOrdinaryMemory) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  constexpr std::size_t kBytes = 1000;
  const DeviceMemory memory = taken(gpu->allocate(kBytes));
  const Bytes written = random_elements(DataType::kFloat32, kBytes / sizeof(float), 1, false);
  expect_done(gpu->write(memory.data, written));
  const DeviceMemory pinned = gpu->allocate_on_host(700);
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pinned.data), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  Bytes rest(kBytes - 700);
  const Device::Read reads[] = {
      {.to = {pinned.data, 700}, .from = memory.data}, {}, {.to = rest, .from = memory.data + 700}};
  expect_done(gpu->read_all(reads));
  Bytes found(pinned.data, pinned.data + 700);
  found.insert(found.end(), rest.begin(), rest.end());
  EXPECT_EQ(found, written);
}

TEST(CudaDevice, WorkFollowsThatOfTheFormerStream) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  constexpr std::size_t kCount = std::size_t{1} << 16;
  const DeviceMemory memory = taken(gpu->allocate(kCount * sizeof(float)));
  cudaStream_t streams[2] = {};
  for (cudaStream_t& stream : streams)
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  const std::vector<float> ones(kCount, 1);
  expect_done(gpu->write(memory.data, std::as_bytes(std::span(ones))));
  // Each sum doubles the array that the sum before has written on the other stream.
  for (int step = 0; step < 10; ++step) {
    gpu->use_stream(streams[step % 2]);
    const std::byte* const from[] = {memory.data, memory.data};
    expect_done(gpu->sum(DataType::kFloat32, from, memory.data, kCount));
  }
  std::vector<float> sums(kCount);
  expect_done(gpu->read(std::as_writable_bytes(std::span(sums)), memory.data));
  EXPECT_EQ(sums, std::vector<float>(kCount, 1024));
  gpu->use_stream(nullptr);
  expect_done(gpu->wait(soon()));
  for (const cudaStream_t stream : streams) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

// A stream whose work does not end before open().
class HangingStream final {
 public:
  HangingStream() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    const auto wait = [](void* opened) { static_cast<std::latch*>(opened)->wait(); };
    EXPECT_EQ(cudaLaunchHostFunc(stream_, wait, &opened_), cudaSuccess);
  }
  ~HangingStream() {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  HangingStream(const HangingStream&) = delete;
  HangingStream& operator=(const HangingStream&) = delete;
  cudaStream_t stream() const { return stream_; }
  void open() { opened_.count_down(); }

 private:
  cudaStream_t stream_ = nullptr;
  std::latch opened_{1};
};

TEST(CudaDevice, BegunReadsHaveTheBytesBeforeTheWorkThatFollowsThem) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  const Bytes first(std::size_t{1} << 20, std::byte{1});
  const Bytes second(first.size(), std::byte{2});
  const DeviceMemory memory = taken(gpu->allocate(first.size()));
  const DeviceMemory other = taken(gpu->allocate(first.size()));
  expect_done(gpu->write(memory.data, first));
  expect_done(gpu->write(other.data, second));
  DeviceMemory host = gpu->allocate_on_host(first.size());
  const std::span<const std::byte> copy{host.data, host.bytes};
  HangingStream hanging;
  gpu->use_stream(hanging.stream());
  const Device::Read reads[] = {{.to = {host.data, host.bytes}, .from = memory.data}};
  // None of the calls waits for the stream.
  const auto pending = taken(gpu->begin_reads(reads, std::exchange(host.owner, nullptr)));
  ASSERT_NE(pending, nullptr);
  expect_done(gpu->finish_reads());
  expect_done(gpu->copy(memory.data, other.data, first.size()));
  // A short deadline of the caller is no failure of the GPU.
  const Result<void> early = pending->wait(Deadline::after(std::chrono::milliseconds(5)));
  EXPECT_EQ(early.has_value() ? ErrorCode::kInvalid : early.error().code, ErrorCode::kTimeout);
  hanging.open();
  expect_done(pending->wait(soon()));
  EXPECT_TRUE(std::equal(copy.begin(), copy.end(), first.begin(), first.end()));
  Bytes now(first.size());
  expect_done(gpu->read(now, memory.data));
  EXPECT_TRUE(now == second);
  gpu->use_stream(nullptr);
}

// Each call that waits for the GPU ends after the limit, and the device and its memory without any.
TEST(CudaDevice, AGpuThatHangsFailsForGood) {
  constexpr auto kLimit = std::chrono::milliseconds(20);
  Bytes bytes(std::size_t{2} << 20);  // more than post() holds
  DeviceMemory pinned;
  using Call = std::function<Result<void>(CudaDevice&, std::byte*)>;
  const std::pair<const char*, Call> calls[] = {
      {"wait", [&](CudaDevice& gpu, std::byte*) { return gpu.wait(Deadline::after(kLimit)); }},
      {"read", [&](CudaDevice& gpu, std::byte* data) { return gpu.read(bytes, data); }},
      {"read all",
       [&](CudaDevice& gpu, std::byte* data) {
         const Device::Read reads[] = {{.to = {pinned.data, 16}, .from = data},
                                       {.to = bytes, .from = data}};
         return gpu.read_all(reads);
       }},
      {"write", [&](CudaDevice& gpu, std::byte* data) { return gpu.write(data, bytes); }},
      {"post", [&](CudaDevice& gpu, std::byte* data) { return gpu.post(data, bytes); }},
  };
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    auto gpu = taken(CudaDevice::open(0, kLimit));
    ASSERT_NE(gpu, nullptr);
    DeviceMemory memory = taken(gpu->allocate(bytes.size()));
    pinned = gpu->allocate_on_host(16);
    expect_done(gpu->wait(soon()));
    HangingStream hanging;
    gpu->use_stream(hanging.stream());
    const Result<void> failed = call(*gpu, memory.data);
    EXPECT_FALSE(failed.has_value());
    if (!failed.has_value()) {
      EXPECT_EQ(failed.error().code, ErrorCode::kSystem);
      EXPECT_THAT(failed.error().message,
                  testing::AllOf(testing::HasSubstr(", GPU 0, failed while "),
                                 testing::HasSubstr("(cudaErrorNotReady: its work was not done"),
                                 testing::HasSubstr("restart this worker")));
      const Result<void> later = gpu->wait(soon());
      EXPECT_FALSE(later.has_value());
      EXPECT_EQ(later.has_value() ? "" : later.error().message, failed.error().message);
    }
    // The memory is not freed: that would wait for the GPU.
    const std::byte* const data = memory.data;
    memory = {};
    gpu.reset();
    cudaPointerAttributes attributes{};
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, data), cudaSuccess);
    EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
    hanging.open();
  }
}

TEST(CudaDevice, HasANameAndAnId) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  EXPECT_THAT(gpu->name(), testing::HasSubstr(", GPU 0"));
  EXPECT_THAT(gpu->id(), testing::StartsWith("GPU-"));
  EXPECT_EQ(gpu->id().size(), 40U);
}

TEST(CudaDevice, AGpuThatDoesNotExistIsRefusedWithTheNumberOfGpus) {
  for (const int index : {-1, 1000}) {
    const auto opened = CudaDevice::open(index);
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(opened.error().message,
                testing::HasSubstr(fmt::format("GPU {}: this process sees", index)));
  }
}

TEST(CudaDevice, TooMuchMemoryIsRefusedWithWhatIsFree) {
  const auto gpu = open_gpu();
  ASSERT_NE(gpu, nullptr);
  const auto memory = gpu->allocate(std::size_t{1} << 50);
  ASSERT_FALSE(memory.has_value());
  EXPECT_EQ(memory.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(memory.error().message, testing::HasSubstr("of memory were wanted"));
  // The device goes on.
  EXPECT_TRUE(gpu->allocate(1000).has_value());
}

}  // namespace
}  // namespace tally::cuda
