#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "codec/codec.h"

// The work of the receiver of many encodings: the mean of 16 senders, and the codec of the mean.
// Bytes count the float32 values of the mean. `tally bench codec` measures the codecs of senders.
namespace tally::codec {
namespace {

constexpr std::size_t kSenders = 16;
constexpr std::size_t kRuns = 256;

std::vector<float> random_run() {
  Rng rng(7);
  std::vector<float> values(kRunElements);
  for (float& value : values)
    value = static_cast<float>(rng.uniform() + rng.uniform() + rng.uniform() - 1.5);
  return values;
}

std::vector<std::byte> encoding(const Codec& codec, std::span<const float> values) {
  std::vector<std::byte> bytes(codec.max_bytes(values.size()));
  bytes.resize(codec.encode(values, {}, bytes));
  return bytes;
}

void mean(benchmark::State& state, const std::string& text) {
  const plan::CodecSpec spec = *plan::parse_codec(text);
  const auto codec = make_codec(spec);
  const auto bytes = encoding(*codec, random_run());
  const std::vector<Encoded> senders(kSenders, Encoded{.bytes = bytes});
  std::vector<float> means(kRuns * kRunElements);
  for (auto _ : state) {
    for (std::size_t run = 0; run < kRuns; ++run)
      TALLY_CHECK(
          mean_of(spec, *codec, senders, std::span(means).subspan(run * kRunElements, kRunElements))
              .has_value());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(means.size() * 4));
}

// Encodes the mean of one sender, and decodes it again.
void broadcast(benchmark::State& state, const std::string& text) {
  const plan::CodecSpec spec = *plan::parse_codec(text);
  const auto sender = make_codec(spec);
  const auto codec = make_broadcast_codec(spec).codec;
  auto values = random_run();
  TALLY_CHECK(sender->decode(encoding(*sender, values), values).has_value());
  std::vector<std::byte> bytes(codec->max_bytes(values.size()));
  for (auto _ : state) {
    const std::size_t used = codec->encode(values, {}, bytes);
    TALLY_CHECK(codec->decode(std::span(bytes).first(used), values).has_value());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(values.size() * 4));
}

BENCHMARK_CAPTURE(mean, int8, std::string("int8"));
BENCHMARK_CAPTURE(mean, vote, std::string("sign:512,vote"));
BENCHMARK_CAPTURE(mean, topk, std::string("topk:0.01"));
BENCHMARK_CAPTURE(broadcast, vote, std::string("sign:512,vote"));
BENCHMARK_CAPTURE(broadcast, topk, std::string("topk:0.01"));
BENCHMARK_CAPTURE(broadcast, randk, std::string("randk:0.01"));

}  // namespace
}  // namespace tally::codec
