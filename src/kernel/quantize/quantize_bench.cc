#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernel/quantize/quantize.h"
#include "kernel/reduce/reduce.h"

// One run of 65536 values at each level; bytes per second are those of the values as float32.
// `tally bench codec` measures whole codecs.
namespace tally::kernel {
namespace {

constexpr std::size_t kCount = 65536;
constexpr std::size_t kBlock = 256;
constexpr float kWeight = 0.25F;

struct Buffers {
  std::vector<float> values = std::vector<float>(kCount);
  std::vector<float> sum = std::vector<float>(kCount);
  std::vector<std::byte> scales = std::vector<std::byte>(kCount);
  std::vector<std::byte> codes = std::vector<std::byte>(kCount * 2);

  Buffers() {
    Rng rng(7);
    for (float& value : values) value = static_cast<float>(rng.uniform() + rng.uniform() - 1);
  }
};

template <typename Work>
void add(const std::string& name, Work work) {
  benchmark::RegisterBenchmark(name.c_str(), [work](benchmark::State& state) {
    Buffers buffers;
    for (auto _ : state) {
      work(buffers);
      benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kCount * 4));
  });
}

void add_scaled(const std::string& name, const ScaledBytes& loops) {
  add(name + "/encode", [&loops](Buffers& b) {
    loops.encode(b.values.data(), kCount, kBlock, b.scales.data(), b.codes.data());
  });
  add(name + "/add", [&loops](Buffers& b) {
    benchmark::DoNotOptimize(loops.valid(b.scales.data(), b.codes.data(), kCount, kBlock));
    loops.decode(b.scales.data(), b.codes.data(), kCount, kBlock, &kWeight, b.sum.data());
  });
}

void add_level(Level level) {
  const QuantizeKernels& loops = quantize_kernels(level);
  const std::string name = "quantize/" + std::string(to_string(level));
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    const std::string half = name + "/" + std::string(to_string(type));
    add(half + "/encode", [level, type](Buffers& b) {
      kernels(level).narrow(type, b.values.data(), b.codes.data(), kCount);
    });
    const auto add_half = type == DataType::kFloat16 ? loops.add_float16 : loops.add_bfloat16;
    add(half + "/add",
        [add_half](Buffers& b) { add_half(b.codes.data(), kCount, 0.25F, b.sum.data()); });
  }
  add_scaled(name + "/int8", loops.int8);
  add_scaled(name + "/e4m3", loops.e4m3);
  add_scaled(name + "/e5m2", loops.e5m2);
  add(name + "/natural/encode", [&loops](Buffers& b) {
    loops.natural.encode(b.values.data(), kCount, {1, 2}, b.codes.data(), b.scales.data());
  });
  add(name + "/natural/add", [&loops](Buffers& b) {
    loops.natural.decode(b.codes.data(), b.scales.data(), kCount, &kWeight, b.sum.data());
  });
}

const bool kRegistered = [] {
  for (const Level level : available_levels()) add_level(level);
  return true;
}();

}  // namespace
}  // namespace tally::kernel
