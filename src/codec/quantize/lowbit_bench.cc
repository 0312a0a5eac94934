#include <benchmark/benchmark.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "codec/families.h"

// How near codecs of few bits come to memcpy of the same float32 values, run by run over an array
// that no cache holds. Bytes count the float32 values, once.
namespace tally::codec {
namespace {

std::vector<float> random_gradient(std::size_t count) {
  Rng rng(7);
  std::vector<float> values(count);
  for (float& value : values)
    value = static_cast<float>(rng.uniform() + rng.uniform() + rng.uniform() - 1.5);
  return values;
}

template <typename Do>
void for_runs_lowbit(std::vector<float>& values, Do&& act) {
  for (std::size_t at = 0; at < values.size(); at += kRunElements)
    act(at / kRunElements,
        std::span(values).subspan(at, std::min(kRunElements, values.size() - at)));
}

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0) *
                          static_cast<std::int64_t>(sizeof(float)));
}

void copy_lowbit(benchmark::State& state) {
  auto values = random_gradient(static_cast<std::size_t>(state.range(0)));
  std::vector<float> out(values.size());
  for (auto _ : state) {
    for_runs_lowbit(values, [&](std::size_t run, std::span<float> some) {
      std::memcpy(&out[run * kRunElements], some.data(), some.size_bytes());
    });
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

using Runs = std::vector<std::vector<std::byte>>;

Runs encode_runs(const Codec& codec, std::vector<float>& values) {
  Runs runs;
  for_runs_lowbit(values, [&](std::size_t, std::span<float> some) {
    runs.emplace_back(codec.max_bytes(some.size()));
    runs.back().resize(codec.encode(some, {}, runs.back()));
  });
  return runs;
}

using Make = std::function<std::unique_ptr<Codec>()>;

void encode_lowbit(benchmark::State& state, const Make& make) {
  const auto codec = make();
  auto values = random_gradient(static_cast<std::size_t>(state.range(0)));
  Runs runs = encode_runs(*codec, values);
  for (auto& run : runs) run.resize(codec->max_bytes(kRunElements));
  for (auto _ : state) {
    for_runs_lowbit(values, [&](std::size_t run, std::span<float> some) {
      benchmark::DoNotOptimize(codec->encode(some, {}, runs[run]));
    });
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

template <bool kAdd>
void decode_lowbit(benchmark::State& state, const Make& make) {
  const auto codec = make();
  auto values = random_gradient(static_cast<std::size_t>(state.range(0)));
  const Runs runs = encode_runs(*codec, values);
  for (auto _ : state) {
    for_runs_lowbit(values, [&](std::size_t run, std::span<float> some) {
      const auto done =
          kAdd ? codec->decode_add(runs[run], 0.125F, some) : codec->decode(runs[run], some);
      if (!done) state.SkipWithError("corrupt");
    });
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

void vote(benchmark::State& state) {
  constexpr std::size_t kVoters = 16;
  const auto codec = make_sign(512);
  auto values = random_gradient(static_cast<std::size_t>(state.range(0)));
  const Runs runs = encode_runs(*codec, values);
  const plan::CodecSpec spec = {.kind = plan::Codec::kSign, .block = 512, .vote = true};
  for (auto _ : state) {
    for_runs_lowbit(values, [&](std::size_t run, std::span<float> mean) {
      std::vector<Encoded> senders;
      for (std::size_t v = 0; v < kVoters; ++v)
        senders.push_back({.bytes = runs[(run + v) % runs.size()]});
      if (!mean_of(spec, *codec, senders, mean)) state.SkipWithError("corrupt");
    });
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

const bool kRegistered = [] {
  constexpr std::int64_t kCount = 16 << 20;
  const std::pair<std::string, Make> codecs[] = {
      {"sign", [] { return make_sign(512); }},       {"onebit", [] { return make_onebit(512); }},
      {"votes", [] { return make_majority(512); }},  {"qsgd:2", [] { return make_qsgd(2, 128); }},
      {"qsgd:4", [] { return make_qsgd(4, 512); }},  {"qsgd:8", [] { return make_qsgd(8, 512); }},
      {"ternary", [] { return make_ternary(2.5); }},
  };
  benchmark::RegisterBenchmark("memcpy", copy_lowbit)->Arg(kCount);
  for (const auto& [name, make] : codecs) {
    benchmark::RegisterBenchmark((name + "/encode").c_str(), encode_lowbit, make)->Arg(kCount);
    benchmark::RegisterBenchmark((name + "/decode").c_str(), decode_lowbit<false>, make)
        ->Arg(kCount);
    benchmark::RegisterBenchmark((name + "/decode_add").c_str(), decode_lowbit<true>, make)
        ->Arg(kCount);
  }
  benchmark::RegisterBenchmark("vote of 16", vote)->Arg(kCount);
  return true;
}();

}  // namespace
}  // namespace tally::codec
