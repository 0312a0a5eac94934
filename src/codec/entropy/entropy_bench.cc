#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <span>
#include <vector>

#include "base/rng.h"
#include "codec/entropy/byte_coders.h"

// How fast the coders of bytes are beside memcpy, on what quantisers make of normal values. Bytes
// count what is coded, or comes out of decoding: one byte is one symbol.
namespace tally::codec {
namespace {

using Bytes = std::vector<std::byte>;

// Coded one after the other: of a single one a processor would learn the branches by heart.
constexpr std::size_t kRuns = 64;
constexpr std::size_t kRunBytes = 65536;

std::span<const std::byte> run_of(const Bytes& bytes, std::size_t run) {
  return std::span(bytes).subspan(run % kRuns * kRunBytes, kRunBytes);
}

double normal(Rng& rng) {
  return std::sqrt(-2 * std::log(1 - rng.uniform())) *
         std::cos(2 * std::numbers::pi * rng.uniform());
}

// `levels` to either side of zero, the greatest of 512 values at the last; drawn up or down. One to
// a byte.
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
  constexpr std::size_t kCount = kRuns * kRunBytes;
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

void count_runs(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kRunBytes));
}

void encode(benchmark::State& state, Encode coder) {
  const Bytes in = source(state);
  Bytes out(kRunBytes);
  std::size_t bytes = 0;
  std::size_t run = 0;
  for (auto _ : state) {
    bytes = coder(run_of(in, run++), out);
    benchmark::ClobberMemory();
  }
  if (bytes == 0) state.SkipWithError("does not get smaller");
  count_runs(state);
  state.counters["bits"] = 8 * static_cast<double>(bytes) / kRunBytes;
}

void decode(benchmark::State& state, Encode coder, Decode decoder) {
  const Bytes in = source(state);
  std::vector<Bytes> coded(kRuns, Bytes(kRunBytes));
  for (std::size_t i = 0; i < kRuns; ++i) coded[i].resize(coder(run_of(in, i), coded[i]));
  Bytes out(kRunBytes);
  std::size_t run = 0;
  for (auto _ : state) {
    if (!decoder(coded[run++ % kRuns], out)) state.SkipWithError("refused");
    benchmark::ClobberMemory();
  }
  const std::span<const std::byte> last = run_of(in, run - 1);
  if (!std::equal(out.begin(), out.end(), last.begin()))
    state.SkipWithError("not what was encoded");
  count_runs(state);
}

void copy(benchmark::State& state) {
  const Bytes in = source(state);
  Bytes out(kRunBytes);
  std::size_t run = 0;
  for (auto _ : state) {
    std::memcpy(out.data(), run_of(in, run++).data(), kRunBytes);
    benchmark::ClobberMemory();
  }
  count_runs(state);
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
