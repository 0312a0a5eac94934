#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "codec/families.h"

// Codecs that make each value smaller, run by run, beside a copy of the same float32 values. Bytes
// per second are those of the values.
namespace tally::codec {
namespace {

struct Buffers {
  std::vector<float> values;
  std::vector<float> sum;
  std::vector<std::byte> bytes;

  explicit Buffers(std::size_t count) : values(count), sum(count), bytes(count * 5) {
    Rng rng(7);
    for (float& value : values) value = static_cast<float>(rng.uniform() + rng.uniform() - 1);
  }
};

void report(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0) * 4);
}

void copy_quant(benchmark::State& state) {
  Buffers buffers(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    std::memcpy(buffers.sum.data(), buffers.values.data(), buffers.values.size() * 4);
    benchmark::ClobberMemory();
  }
  report(state);
}

// on_run(values, sum, bytes) for each run, whose encodings lie one behind the other.
template <typename OnRun>
void for_runs_quant(Buffers& buffers, const Codec& codec, OnRun on_run) {
  const std::size_t count = buffers.values.size();
  std::byte* bytes = buffers.bytes.data();
  for (std::size_t first = 0; first < count; first += kRunElements) {
    const std::size_t size = std::min(kRunElements, count - first);
    const std::size_t room = codec.max_bytes(size);
    on_run(std::span(buffers.values).subspan(first, size),
           std::span(buffers.sum).subspan(first, size), std::span(bytes, room));
    bytes += room;
  }
}

using QuantMake = std::unique_ptr<Codec> (*)();

void encode_quant(benchmark::State& state, QuantMake make) {
  Buffers buffers(static_cast<std::size_t>(state.range(0)));
  const auto codec = make();
  for (auto _ : state) {
    for_runs_quant(buffers, *codec, [&](auto values, auto, auto bytes) {
      benchmark::DoNotOptimize(codec->encode(values, {}, bytes));
    });
    benchmark::ClobberMemory();
  }
  report(state);
}

template <bool kAdd>
void decode_quant(benchmark::State& state, QuantMake make) {
  Buffers buffers(static_cast<std::size_t>(state.range(0)));
  const auto codec = make();
  for_runs_quant(buffers, *codec,
                 [&](auto values, auto, auto bytes) { codec->encode(values, {}, bytes); });
  for (auto _ : state) {
    for_runs_quant(buffers, *codec, [&](auto, auto sum, auto bytes) {
      const Result<void> done =
          kAdd ? codec->decode_add(bytes, 0.25F, sum) : codec->decode(bytes, sum);
      TALLY_CHECK(done.has_value());
    });
    benchmark::ClobberMemory();
  }
  report(state);
}

const bool kQuantRegistered = [] {
  struct Contender {
    const char* name;
    QuantMake make;
  };
  constexpr Contender kContenders[] = {
      {"plain", [] { return make_plain(); }},
      {"fp16", [] { return make_cast(plan::Codec::kFp16); }},
      {"bf16", [] { return make_cast(plan::Codec::kBf16); }},
      {"int8", [] { return make_int8(256); }},
      {"e4m3", [] { return make_fp8(plan::Fp8Format::kE4m3, 256); }},
      {"e5m2", [] { return make_fp8(plan::Fp8Format::kE5m2, 256); }},
      {"natural", [] { return make_natural(); }},
  };
  for (const std::int64_t count :
       {std::int64_t{1} << 16, std::int64_t{1} << 20, std::int64_t{1} << 24}) {
    benchmark::RegisterBenchmark("copy", copy_quant)->Arg(count);
    for (const Contender& c : kContenders) {
      const std::string name = c.name;
      benchmark::RegisterBenchmark((name + "/encode").c_str(), encode_quant, c.make)->Arg(count);
      benchmark::RegisterBenchmark((name + "/decode").c_str(), decode_quant<false>, c.make)
          ->Arg(count);
      benchmark::RegisterBenchmark((name + "/add").c_str(), decode_quant<true>, c.make)->Arg(count);
    }
  }
  return true;
}();

}  // namespace
}  // namespace tally::codec
