#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "codec/encoder/encoder.h"
#include "codec/families.h"

// How near sparse codecs come to memcpy of the same gradient, 64 MiB in runs of 65536 values. Bytes
// are those of the gradient.
namespace tally::codec {
namespace {

constexpr std::size_t kSparseRuns = 256;

// The product of two normal values, which is more peaked than one, as gradients are.
const std::vector<float>& gradient() {
  static const std::vector<float> values = [] {
    std::vector<float> made(kSparseRuns * kRunElements);
    Rng rng(1);
    for (float& value : made) {
      const double angle = 6.283185307179586 * rng.uniform();
      value = static_cast<float>(1e-3 * std::log(1 - rng.uniform()) * std::sin(2 * angle));
    }
    return made;
  }();
  return values;
}

std::span<const float> sparse_run_of(std::size_t run) {
  return std::span(gradient()).subspan(run * kRunElements, kRunElements);
}

void count_sparse_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(gradient().size() * 4));
}

void copy_sparse(benchmark::State& state) {
  std::vector<float> to(gradient().size());
  for (auto _ : state) {
    for (std::size_t run = 0; run < kSparseRuns; ++run)
      std::memcpy(to.data() + run * kRunElements, sparse_run_of(run).data(), 4 * kRunElements);
    benchmark::ClobberMemory();
  }
  count_sparse_bytes(state);
}

using SparseMake = std::unique_ptr<Codec> (*)();

void encode_sparse(benchmark::State& state, SparseMake make) {
  const auto codec = make();
  std::vector<std::byte> out(codec->max_bytes(kRunElements));
  std::size_t sent = 0;
  for (auto _ : state) {
    sent = 0;
    for (std::size_t run = 0; run < kSparseRuns; ++run)
      sent += codec->encode(sparse_run_of(run), {.first = run * kRunElements}, out);
    benchmark::ClobberMemory();
  }
  state.counters["smaller"] =
      static_cast<double>(gradient().size() * 4) / static_cast<double>(sent);
  count_sparse_bytes(state);
}

void decode_add(benchmark::State& state, SparseMake make) {
  const auto codec = make();
  std::vector<std::byte> out(codec->max_bytes(kRunElements));
  out.resize(codec->encode(sparse_run_of(0), {}, out));
  std::vector<float> sum(gradient().size());
  for (auto _ : state) {
    for (std::size_t run = 0; run < kSparseRuns; ++run) {
      const auto added =
          codec->decode_add(out, 0.5F, std::span(sum).subspan(run * kRunElements, kRunElements));
      if (!added) state.SkipWithError("not decoded");
    }
    benchmark::ClobberMemory();
  }
  count_sparse_bytes(state);
}

void feedback(benchmark::State& state, const plan::CodecSpec& spec, SparseMake make) {
  const auto codec = make();
  std::vector<std::unique_ptr<Encoder>> encoders;
  for (std::size_t run = 0; run < kSparseRuns; ++run)
    encoders.push_back(Encoder::make(spec, *codec, kRunElements, {.momentum = 0.9}));
  std::vector<std::byte> out(encoders[0]->max_bytes());
  std::uint64_t step = 0;
  for (auto _ : state) {
    for (std::size_t run = 0; run < kSparseRuns; ++run)
      benchmark::DoNotOptimize(encoders[run]->encode(
          sparse_run_of(run), {.step = step, .first = run * kRunElements}, out));
    ++step;
  }
  count_sparse_bytes(state);
}

std::unique_ptr<Codec> top_sampled() { return make_topk(0.01, /*exact=*/false); }
std::unique_ptr<Codec> top_exact() { return make_topk(0.01, /*exact=*/true); }
std::unique_ptr<Codec> top_thousandth() { return make_topk(0.001, /*exact=*/false); }
std::unique_ptr<Codec> top_quarter() { return make_topk(0.25, /*exact=*/false); }
std::unique_ptr<Codec> random_ones() { return make_randk(0.01); }
std::unique_ptr<Codec> large_ones() { return make_threshold(0.003); }

BENCHMARK(copy_sparse);
BENCHMARK_CAPTURE(encode_sparse, topk_1_percent, top_sampled);
BENCHMARK_CAPTURE(encode_sparse, topk_1_percent_exact, top_exact);
BENCHMARK_CAPTURE(encode_sparse, topk_0_1_percent, top_thousandth);
BENCHMARK_CAPTURE(encode_sparse, topk_25_percent, top_quarter);
BENCHMARK_CAPTURE(encode_sparse, randk_1_percent, random_ones);
BENCHMARK_CAPTURE(encode_sparse, threshold, large_ones);
BENCHMARK_CAPTURE(encode_sparse, nonzero_all, make_nonzero);
BENCHMARK_CAPTURE(decode_add, topk_1_percent, top_sampled);
BENCHMARK_CAPTURE(decode_add, topk_25_percent, top_quarter);
BENCHMARK_CAPTURE(decode_add, randk_1_percent, random_ones);
BENCHMARK_CAPTURE(decode_add, nonzero_all, make_nonzero);
BENCHMARK_CAPTURE(feedback, topk_1_percent,
                  plan::CodecSpec{.kind = plan::Codec::kTopk, .feedback = true}, top_sampled);
BENCHMARK_CAPTURE(feedback, randk_1_percent,
                  plan::CodecSpec{.kind = plan::Codec::kRandk, .feedback = true}, random_ones);

BENCHMARK_CAPTURE(feedback, dgc_0_1_percent,
                  plan::CodecSpec{.kind = plan::Codec::kDgc, .density = 0.001, .feedback = true},
                  top_thousandth);

}  // namespace
}  // namespace tally::codec
