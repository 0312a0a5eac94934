// A gradient from a peer: the first byte chooses the codec, two bytes the number of values, and the
// rest is decoded. With the highest bit of the first byte the rest are values instead: their
// encoding is decoded, and once more with one byte changed.
#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "codec/codec.h"
#include "codec/families.h"
#include "fuzz_entry.h"

namespace {

using tally::codec::Codec;
using Codecs = std::vector<std::unique_ptr<Codec>>;

constexpr std::size_t kHead = 3;
constexpr std::size_t kMostValues = 2000;
constexpr std::uint8_t kValues = 0x80;

constexpr const char* kTexts[] = {"none",           "fp16",      "bf16",
                                  "int8:16",        "int8",      "fp8",
                                  "fp8:e5m2",       "qsgd:2",    "qsgd:4,block=64",
                                  "qsgd:8",         "ternary",   "natural",
                                  "onebit:64",      "sign:64",   "topk:0.1",
                                  "topk:0.1,exact", "randk:0.1", "dgc:0.01",
                                  "threshold:0.5"};

Codecs make_all() {
  Codecs codecs;
  for (const std::string text : kTexts) {
    for (const char* const stage : {"", "+rans", "+huffman", "+zstd"}) {
      const auto spec = tally::plan::parse_codec(text == "none" ? text : text + stage);
      TALLY_CHECK(spec.has_value());
      codecs.push_back(tally::codec::make_codec(*spec));
    }
  }
  codecs.push_back(tally::codec::make_majority(64));
  codecs.push_back(tally::codec::make_nonzero());
  return codecs;
}

const Codecs& all_codecs() {
  static const Codecs codecs = make_all();
  return codecs;
}

void decode(const Codec& codec, std::span<const std::byte> bytes, std::size_t count) {
  std::vector<float> values(count);
  const auto decoded = codec.decode(bytes, values);
  TALLY_CHECK(decoded || decoded.error().code == tally::ErrorCode::kCorrupt);
  std::vector<float> sum(count, 1.0F);
  TALLY_CHECK(codec.decode_add(bytes, 0.5F, sum).has_value() == decoded.has_value());
}

void encode(const Codec& codec, std::span<const std::byte> input, std::size_t change) {
  std::vector<float> values(std::min(input.size() / sizeof(float), kMostValues));
  if (!values.empty()) std::memcpy(values.data(), input.data(), values.size() * sizeof(float));
  std::vector<std::byte> bytes(codec.max_bytes(values.size()));
  bytes.resize(codec.encode(values, {}, bytes));
  std::vector<float> out(values.size());
  TALLY_CHECK(codec.decode(bytes, out).has_value());
  if (bytes.empty()) return;
  bytes[change / 256 * 37 % bytes.size()] ^= static_cast<std::byte>(change);
  decode(codec, bytes, values.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kHead) return 0;
  const Codec& codec = *all_codecs()[(data[0] & ~kValues) % all_codecs().size()];
  const std::size_t number = data[1] + 256U * data[2];
  // In separate memory, so that a sanitizer sees a read beyond its end.
  const std::vector<std::uint8_t> rest(data + kHead, data + size);
  if ((data[0] & kValues) != 0) {
    encode(codec, std::as_bytes(std::span(rest)), number);
  } else {
    decode(codec, std::as_bytes(std::span(rest)), number % (kMostValues + 1));
  }
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  std::vector<std::vector<std::uint8_t>> seeds;
  const Codecs& codecs = all_codecs();
  for (std::size_t c = 0; c < codecs.size(); ++c) {
    for (const std::size_t count : {0U, 1U, 150U, 1999U}) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) * 0.04F;
      std::vector<std::byte> bytes(codecs[c]->max_bytes(count));
      bytes.resize(codecs[c]->encode(values, {}, bytes));
      std::vector<std::uint8_t> seed = {static_cast<std::uint8_t>(c),
                                        static_cast<std::uint8_t>(count),
                                        static_cast<std::uint8_t>(count >> 8)};
      for (const std::byte byte : bytes) seed.push_back(static_cast<std::uint8_t>(byte));
      seeds.push_back(seed);
    }
    std::vector<std::uint8_t> values(203, static_cast<std::uint8_t>(0x3B + c));
    values[0] = static_cast<std::uint8_t>(kValues | c);
    seeds.push_back(values);
  }
  return seeds;
}
