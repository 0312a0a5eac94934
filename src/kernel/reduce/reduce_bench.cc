#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/reduce/reduce.h"

namespace tally::kernel {
namespace {

// Buffers of `bytes` each, all written once, so that the pages exist. Zeros are valid in every
// type. The buffers begin `shift` bytes past a cache line.
class ReduceBuffers {
 public:
  ReduceBuffers(std::size_t count, std::size_t bytes, std::size_t shift) {
    for (std::size_t b = 0; b < count; ++b) {
      storage_.emplace_back(bytes + 128);
      const auto address = reinterpret_cast<std::uintptr_t>(storage_.back().data());
      pointers_.push_back(storage_.back().data() + (64 - address % 64) + shift);
    }
  }
  std::span<void* const> writable() const { return pointers_; }
  std::vector<const void*> readable() const { return {pointers_.begin(), pointers_.end()}; }

 private:
  std::vector<std::vector<std::byte>> storage_;
  std::vector<void*> pointers_;
};

struct Case {
  DataType type;
  std::size_t sources;
  int divisor;
  std::size_t shift = 0;
};

// All sources are destinations, as in an all-reduce. Bytes processed count each byte that is read
// and each that is written.
void all_reduce(benchmark::State& state, const Kernels& kernels, Case c) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const ReduceBuffers buffers(c.sources, bytes, c.shift);
  const auto sources = buffers.readable();
  const std::size_t count = bytes / size_of(c.type);
  for (auto _ : state) {
    kernels.combine_many(c.type, ReduceOp::kSum, sources, buffers.writable(), count, c.divisor);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) *
                          static_cast<std::int64_t>(2 * c.sources));
}

void combine(benchmark::State& state, const Kernels& kernels) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const ReduceBuffers buffers(2, bytes, 0);
  for (auto _ : state) {
    kernels.combine(DataType::kFloat32, ReduceOp::kSum, buffers.writable()[0],
                    buffers.writable()[1], bytes / 4);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * 3);
}

void add_level(const std::string& name, const Kernels& kernels) {
  constexpr std::int64_t kSizes[] = {16, 4 << 10, 256 << 10, 4 << 20, 64 << 20};
  constexpr Case kCases[] = {
      {DataType::kFloat32, 2, 1},  {DataType::kFloat32, 2, 1, 16}, {DataType::kFloat32, 2, 2},
      {DataType::kFloat32, 3, 3},  {DataType::kFloat32, 4, 1},     {DataType::kFloat32, 8, 1},
      {DataType::kFloat32, 16, 1}, {DataType::kFloat16, 2, 1},     {DataType::kBFloat16, 2, 1}};
  for (const std::int64_t size : kSizes) {
    benchmark::RegisterBenchmark(("combine/" + name + "/float32").c_str(), combine, kernels)
        ->Arg(size);
    for (const Case& c : kCases) {
      const bool fits = size * static_cast<std::int64_t>(c.sources) <= (256 << 20);
      if (!fits) continue;
      const std::string label = "all_reduce/" + name + "/" + std::string(to_string(c.type)) + "/x" +
                                std::to_string(c.sources) + "/by" + std::to_string(c.divisor) +
                                (c.shift == 0 ? "" : "/unaligned");
      benchmark::RegisterBenchmark(label.c_str(), all_reduce, kernels, c)->Arg(size);
    }
  }
}

const bool kReduceRegistered = [] {
  for (const Level level : available_levels()) {
    add_level(std::string(to_string(level)), kernels(level));
  }
  return true;
}();

}  // namespace
}  // namespace tally::kernel
