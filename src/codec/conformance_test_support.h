#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "codec/codec.h"
#include "codec/entropy/test_sources.h"
#include "plan/codec_spec.h"

// Shared by the tests of all codecs: the list of codecs, test data, and the error bound of each
// codec.
namespace tally::codec {

using Values = std::vector<float>;

// All codecs, without entropy stages.
inline std::vector<std::string> codec_texts() {
  return {"none",           "fp16",
          "bf16",           "int8",
          "int8:16",        "fp8",
          "fp8:e5m2",       "qsgd:2",
          "qsgd",           "qsgd:8,block=64",
          "natural",        "ternary",
          "ternary:clip=0", "onebit",
          "onebit:48",      "sign",
          "sign:48",        "sign:vote",
          "onebit-adam:1",  "topk",
          "topk:0.1,exact", "topk:1",
          "randk:0.1",      "randk:1",
          "dgc:0.01",       "threshold:0.5",
          "threshold:1e-30"};
}

inline plan::CodecSpec spec_of(const std::string& text) {
  auto spec = plan::parse_codec(text);
  if (!spec) {
    ADD_FAILURE() << spec.error().message;
    return {};
  }
  return *spec;
}

inline Values normal_values(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  Values values(count);
  for (float& value : values) value = static_cast<float>(normal(rng));
  return values;
}

inline Bytes encode(const Codec& codec, std::span<const float> values, const Draw& draw = {}) {
  Bytes bytes(codec.max_bytes(values.size()));
  const std::size_t used = codec.encode(values, draw, bytes);
  EXPECT_LE(used, bytes.size());
  bytes.resize(std::min(used, bytes.size()));
  return bytes;
}

inline Values decode(const Codec& codec, std::span<const std::byte> bytes, std::size_t count) {
  Values values(count, -77);
  const auto result = codec.decode(bytes, values);
  EXPECT_TRUE(result) << result.error().message;
  return values;
}

inline Values there_and_back(const Codec& codec, std::span<const float> values,
                             const Draw& draw = {}) {
  return decode(codec, encode(codec, values, draw), values.size());
}

// Compares bit for bit; any NaN equals any other.
inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// The number of values that one NaN among them spoils.
inline std::size_t spoiled_together(const plan::CodecSpec& spec, std::size_t count) {
  if (spec.kind == plan::Codec::kTernary) return std::max<std::size_t>(count, 1);
  return spec.block > 0 ? spec.block : 1;
}

// The documented error bound of each codec: half a quantization step for rounding to nearest, one
// step for stochastic rounding, the value itself for sparse codecs. The rounding of float32 and its
// smallest number are added.
class ErrorBounds {
 public:
  ErrorBounds(const plan::CodecSpec& spec, std::span<const float> values)
      : spec_(spec), values_(values), block_(spoiled_together(spec, values.size())) {
    most_.resize(values.size() / block_ + 1);
    for (std::size_t i = 0; i < values.size(); ++i)
      most_[i / block_] = std::max(most_[i / block_], std::abs(double{values[i]}));
  }

  // The largest magnitude in the block of value i.
  double most(std::size_t i) const { return most_[i / block_]; }

  double at(std::size_t i) const {
    using plan::Codec;
    const double x = std::abs(double{values_[i]});
    const double own = 1e-6 * most(i) + 0x1p-126;
    switch (spec_.kind) {
      case Codec::kFp16:
        return x > 65504 ? std::numeric_limits<double>::infinity() : std::max(x * 0x1p-11, 0x1p-25);
      case Codec::kBf16:
        return std::max(x * 0x1p-8, 0x1p-134);
      case Codec::kInt8:
        return most(i) / 127 / 2 + own;
      case Codec::kFp8: {
        const bool e4m3 = spec_.fp8 == plan::Fp8Format::kE4m3;
        const double scale = most(i) / (e4m3 ? 448 : 57344);
        return std::max(x * (e4m3 ? 0x1p-4 : 0x1p-3), scale * (e4m3 ? 0x1p-10 : 0x1p-17)) + own;
      }
      case Codec::kQsgd:
        return most(i) / ((1 << (spec_.bits - 1)) - 1) + own;
      case Codec::kNatural:
        return std::max(x, 0x1p-126);
      case Codec::kTernary:
        return most(i) + own;
      case Codec::kOnebit:
      case Codec::kSign:
      case Codec::kOnebitAdam:
        // The value and its decoding have the same sign, and neither exceeds the largest magnitude.
        return most(i) + own;
      case Codec::kTopk:
      case Codec::kDgc:
      case Codec::kRandk:
        return spec_.density >= 1 ? 0 : x;
      case Codec::kThreshold:
        return x >= spec_.threshold ? 0 : x;
      case Codec::kNone:
      case Codec::kPowersgd:
      case Codec::kAuto:
        return 0;
    }
    return 0;
  }

 private:
  const plan::CodecSpec spec_;
  const std::span<const float> values_;
  const std::size_t block_;
  std::vector<double> most_;
};

inline void expect_within_bounds(const plan::CodecSpec& spec, std::span<const float> in,
                                 std::span<const float> out) {
  const ErrorBounds bounds(spec, in);
  for (std::size_t i = 0; i < in.size(); ++i) {
    ASSERT_LE(std::abs(double{out[i]} - double{in[i]}), bounds.at(i))
        << in[i] << " at " << i << " of " << in.size() << " came back as " << out[i];
  }
}

// One suite over all codecs, each without an entropy stage and with each stage.
class EveryCodec : public testing::TestWithParam<std::string> {
 protected:
  // Calls body() once for each entropy stage with spec_ and codec_ set; stops at the first failure.
  template <typename Body>
  void with_each_stage(Body body) {
    for (const char* const stage : {"", "+rans", "+huffman", "+zstd"}) {
      if (GetParam() == "none" && *stage != 0) continue;
      const std::string text = GetParam() + stage;
      SCOPED_TRACE(text);
      spec_ = spec_of(text);
      codec_ = make_codec(spec_);
      body();
      if (HasFailure()) return;
    }
  }
  bool is_sparse() const { return spec_.density > 0 || spec_.kind == plan::Codec::kThreshold; }

  plan::CodecSpec spec_;
  std::unique_ptr<Codec> codec_;
};

// A test name such as "topk_0_1_exact".
inline std::string codec_test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

}  // namespace tally::codec
