#include <benchmark/benchmark.h>

#include <vector>

#include "kernel/crc32c/crc32c.h"

namespace tally::kernel {
namespace {

void run(benchmark::State& state, std::uint32_t (*crc)(std::span<const std::byte>, std::uint32_t)) {
  const std::vector<std::byte> bytes(static_cast<std::size_t>(state.range(0)), std::byte{1});
  for (auto _ : state) benchmark::DoNotOptimize(crc(bytes, 0));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(run, crc32c, crc32c)
    ->Arg(64)
    ->Arg(1 << 10)
    ->Arg(1 << 12)
    ->Arg(1 << 18)
    ->Arg(1 << 26);
BENCHMARK_CAPTURE(run, crc32c_reference, crc32c_reference)->Arg(1 << 12);

}  // namespace
}  // namespace tally::kernel
