#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernel/array/norm.h"
#include "kernel/array/weighted_sum.h"
#include "kernel/update/update.h"

// How near the loops of a step come to memcpy. Bytes count what is read and what is written.
namespace tally::kernel {
namespace {

using Arrays = std::vector<std::vector<float>>;

Arrays make_arrays(std::size_t arrays, const benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  return {arrays, std::vector<float>(count, 0.5F)};
}

// `passes` arrays of range(0) bytes go over the bus in each iteration.
void count_bytes(benchmark::State& state, int passes) {
  state.SetBytesProcessed(state.iterations() * state.range(0) * passes);
}

void copy(benchmark::State& state) {
  Arrays a = make_arrays(2, state);
  for (auto _ : state) {
    std::memcpy(a[0].data(), a[1].data(), a[0].size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  count_bytes(state, 2);
}

void momentum(benchmark::State& state, Level level) {
  Arrays a = make_arrays(3, state);
  const auto& kernels = update_kernels<float>(level);
  for (auto _ : state) {
    kernels.momentum({.rate = 1e-3F, .momentum = 0.9F, .gain = 1}, a[0].data(), a[1].data(),
                     a[2].data(), a[0].size());
    benchmark::ClobberMemory();
  }
  count_bytes(state, 5);
}

void adam(benchmark::State& state, Level level) {
  Arrays a = make_arrays(4, state);
  const auto& kernels = update_kernels<float>(level);
  const AdamFactors<float> factors{1e-3F, 0.9F, 0.1F, 0.999F, 1e-3F, 1, 1, 1e-8F, 0, 0.999F};
  for (auto _ : state) {
    kernels.adam(factors, a[0].data(), a[1].data(), a[2].data(), a[3].data(), a[0].size());
    benchmark::ClobberMemory();
  }
  count_bytes(state, 7);
}

void sum(benchmark::State& state, Level level, std::size_t inputs) {
  Arrays a = make_arrays(inputs + 1, state);
  const std::vector<float> weights(inputs, 0.3F);
  std::vector<const void*> from;
  for (std::size_t r = 0; r < inputs; ++r) from.push_back(a[r].data());
  for (auto _ : state) {
    weighted_sum(DataType::kFloat32, from, std::span<const float>(weights), a.back().data(),
                 a.back().size(), level);
    benchmark::ClobberMemory();
  }
  count_bytes(state, static_cast<int>(inputs) + 1);
}

void norm(benchmark::State& state, Level level) {
  const Arrays a = make_arrays(1, state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(square_sum(std::span<const float>(a[0]), level));
  }
  count_bytes(state, 1);
}

const bool kUpdateRegistered = [] {
  constexpr std::int64_t kSizes[] = {64 << 10, 32 << 20};
  for (const std::int64_t size : kSizes) {
    benchmark::RegisterBenchmark("step/memcpy", copy)->Arg(size);
    for (const Level level : available_levels()) {
      const std::string name(to_string(level));
      const auto add = [&](const std::string& what, auto function, auto... arguments) {
        const std::string label = "step/" + what + "/" + name;
        benchmark::RegisterBenchmark(label.c_str(), function, level, arguments...)->Arg(size);
      };
      add("momentum", momentum);
      add("adam", adam);
      add("norm", norm);
      for (const std::size_t inputs : {1, 2, 4, 8})
        add("sum" + std::to_string(inputs), sum, inputs);
    }
  }
  return true;
}();

}  // namespace
}  // namespace tally::kernel
