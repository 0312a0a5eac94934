#include "bench/codec/harness.h"

#include <algorithm>
#include <cmath>

namespace tally::bench::codecs {
namespace {

using plan::Codec;

// Rounding of float32 arithmetic.
constexpr double kRounding = 1e-6;
constexpr double kSmallest = 0x1p-126;

// Returns the allowed error of a value of magnitude `x` in a block with the largest magnitude
// `most`.
double allowed(const plan::CodecSpec& spec, double x, double most) {
  const double own = kRounding * most + kSmallest;
  switch (spec.kind) {
    case Codec::kFp16:
      return std::max(x * 0x1p-11, 0x1p-25);
    case Codec::kBf16:
      return std::max(x * 0x1p-8, kSmallest);
    case Codec::kInt8:
      return most / 254 + own;
    case Codec::kFp8: {
      const bool e4m3 = spec.fp8 == plan::Fp8Format::kE4m3;
      return std::max(x * (e4m3 ? 0x1p-4 : 0x1p-3),
                      most * (e4m3 ? 0x1p-10 / 448 : 0x1p-17 / 57344)) +
             own;
    }
    case Codec::kQsgd:
      return most / ((1 << (spec.bits - 1)) - 1) + own;
    case Codec::kTernary:
    case Codec::kOnebit:
    case Codec::kSign:
    case Codec::kOnebitAdam:
      return most + own;
    case Codec::kNatural:
      return x + own;
    case Codec::kTopk:
    case Codec::kDgc:
    case Codec::kRandk:
      return spec.density >= 1 ? 0 : x;
    case Codec::kThreshold:
      return x >= spec.threshold ? 0 : x;
    case Codec::kNone:
    case Codec::kPowersgd:
    case Codec::kAuto:
      return 0;
  }
  return 0;
}

}  // namespace

std::optional<std::size_t> first_out_of_bounds(const plan::CodecSpec& spec, std::size_t block,
                                               std::span<const float> values,
                                               std::span<const float> decoded) {
  if (block == 0) block = values.size();
  for (std::size_t first = 0; first < values.size(); first += block) {
    const std::size_t end = std::min(values.size(), first + block);
    double most = 0;
    for (std::size_t i = first; i < end; ++i) most = std::max(most, std::abs(double{values[i]}));
    for (std::size_t i = first; i < end; ++i) {
      const double off = std::abs(double{values[i]} - double{decoded[i]});
      if (!(off <= allowed(spec, std::abs(double{values[i]}), most))) return i;
    }
  }
  return std::nullopt;
}

double relative_error(std::span<const float> a, std::span<const float> b) {
  double apart = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
    size += double{a[i]} * double{a[i]};
  }
  return apart == 0 ? 0 : std::sqrt(apart / size);
}

}  // namespace tally::bench::codecs
