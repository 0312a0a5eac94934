#include <benchmark/benchmark.h>

#include <vector>

#include "base/rng.h"
#include "codec/lowrank/powersgd.h"

namespace tally::codec {
namespace {

// One rank's work of a step, by bytes of its gradient.
void step(benchmark::State& state) {
  PowerSgd powersgd({.rows = static_cast<std::size_t>(state.range(0)),
                     .columns = static_cast<std::size_t>(state.range(1)),
                     .rank = static_cast<int>(state.range(2))});
  std::vector<float> gradient(powersgd.residual().size()), mean(gradient.size());
  std::vector<float> p(powersgd.p_count()), q(powersgd.q_count());
  Rng random(1);
  for (float& value : gradient) value = static_cast<float>(random.uniform() * 2 - 1);
  for (auto _ : state) {
    powersgd.project(gradient, p);
    powersgd.correlate(p, q);
    powersgd.finish(p, q, mean);
    benchmark::DoNotOptimize(mean.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(gradient.size() * 4));
}

BENCHMARK(step)
    ->ArgNames({"rows", "columns", "rank"})
    ->Args({1024, 1024, 1})
    ->Args({1024, 1024, 2})
    ->Args({1024, 1024, 4})
    ->Args({1024, 1024, 32})
    ->Args({512, 4608, 2})
    ->Args({1000, 25088, 2});

}  // namespace
}  // namespace tally::codec
