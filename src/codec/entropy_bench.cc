#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "base/rng.h"
#include "codec/huffman.h"
#include "codec/rans.h"
#include "codec/zstd_bytes.h"

// How fast the coders of bytes are beside memcpy, on what quantisers make of normal values. Bytes count what is coded, or comes out of
// decoding: one byte is one symbol.
namespace tally::codec {
namespace {

using Bytes = std::vector<std::byte>;

double normal(Rng& rng) {
  return std::sqrt(-2 * std::log(1 - rng.uniform())) *
         std::cos(2 * std::numbers::pi * rng.uniform());
}

// `levels` to either side of zero, the greatest of 512 values at the last; drawn up or down. One to a byte.
Bytes quantised(std::size_t count, double levels) {
  Rng rng(1);
  Bytes bytes(count);
  constexpr double kGreatest = 3.2;
  for (std::byte& byte : bytes) {
    const double scaled = std::clamp(normal(rng) / kGreatest, -1.0, 1.0) * levels;
    byte = static_cast<std::byte>(static_cast<int>(std::floor(scaled + rng.uniform())));
  }
  return bytes;
}

// Two such values of 4 bits in a byte, as qsgd:4 sends them.
Bytes nibbles(std::size_t count) {
  const Bytes values = quantised(2 * count, 7);
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = (values[2 * i] & std::byte{15}) | values[2 * i + 1] << 4;
  return bytes;
}

Bytes source(benchmark::State& state) {
  constexpr std::size_t kCount = 65536;
  switch (state.range(0)) {
    case 0:
      state.SetLabel("15 levels");
      return quantised(kCount, 7);
    case 1:
      state.SetLabel("2 x 15 levels");
      return nibbles(kCount);
    default:
      state.SetLabel("255 levels");
      return quantised(kCount, 127);
  }
}

using Encode = std::size_t (*)(std::span<const std::byte>, std::span<std::byte>);
using Decode = Result<void> (*)(std::span<const std::byte>, std::span<std::byte>);

void encode(benchmark::State& state, Encode coder) {
  const Bytes in = source(state);
  Bytes out(in.size());
  std::size_t bytes = 0;
  for (auto _ : state) {
    bytes = coder(in, out);
    benchmark::ClobberMemory();
  }
  if (bytes == 0) state.SkipWithError("does not get smaller");
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(in.size()));
  state.counters["bits"] = 8 * static_cast<double>(bytes) / static_cast<double>(in.size());
}

void decode(benchmark::State& state, Encode coder, Decode decoder) {
  const Bytes in = source(state);
  Bytes coded(in.size());
  coded.resize(coder(in, coded));
  Bytes out(in.size());
  for (auto _ : state) {
    if (!decoder(coded, out)) state.SkipWithError("refused");
    benchmark::ClobberMemory();
  }
  if (out != in) state.SkipWithError("not what was encoded");
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(in.size()));
}

void copy(benchmark::State& state) {
  const Bytes in = source(state);
  Bytes out(in.size());
  for (auto _ : state) {
    std::memcpy(out.data(), in.data(), in.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(in.size()));
}

BENCHMARK(copy)->DenseRange(0, 2);
BENCHMARK_CAPTURE(encode, rans, rans_encode)->DenseRange(0, 2);
BENCHMARK_CAPTURE(encode, huffman, huffman_encode)->DenseRange(0, 2);
BENCHMARK_CAPTURE(encode, zstd, zstd_encode)->DenseRange(0, 2);
BENCHMARK_CAPTURE(decode, rans, rans_encode, rans_decode)->DenseRange(0, 2);
BENCHMARK_CAPTURE(decode, huffman, huffman_encode, huffman_decode)->DenseRange(0, 2);
BENCHMARK_CAPTURE(decode, zstd, zstd_encode, zstd_decode)->DenseRange(0, 2);

}  // namespace
}  // namespace tally::codec
