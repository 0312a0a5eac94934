#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernel/quantize/quantize.h"
#include "kernel/reduce/reduce.h"

namespace tally::kernel {

// The loops store and load numbers as they lie in memory.
static_assert(std::endian::native == std::endian::little);

namespace {

template <typename T>
T read(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof value);
  return value;
}

void add_float32(const std::byte* values, std::size_t count, float weight, float* sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = sum[i] + weight * read<float>(values, i);
}

template <DataType kType>
void add_halves(const std::byte* values, std::size_t count, float weight, float* sum) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto half = read<std::uint16_t>(values, i);
    float value;
    reference_kernels().widen(kType, &half, &value, 1);
    sum[i] = sum[i] + weight * value;
  }
}

// The value of a byte; NaN for an invalid byte.
using Meaning = double (*)(int code);

double int8_meaning(int code) {
  return code == 128 ? std::numeric_limits<double>::quiet_NaN() : code < 128 ? code : code - 256;
}

template <int kMantissa, int kLargestCode>
double float8_meaning(int code) {
  const int magnitude = code & 0x7F;
  if (magnitude > kLargestCode) return std::numeric_limits<double>::quiet_NaN();
  constexpr int kBias = (1 << (6 - kMantissa)) - 1;
  const int exponent = magnitude >> kMantissa;
  const int mantissa = magnitude & ((1 << kMantissa) - 1);
  const double size = exponent == 0
                          ? std::ldexp(mantissa, 1 - kBias - kMantissa)
                          : std::ldexp(mantissa + (1 << kMantissa), exponent - kBias - kMantissa);
  return code < 0x80 ? size : -size;
}

// All valid bytes, by value.
struct Entry {
  double meaning;
  int code;
};
template <Meaning kMeaning>
const std::vector<Entry>& entries() {
  static const std::vector<Entry> sorted = [] {
    std::vector<Entry> all;
    for (int code = 0; code < 256; ++code)
      if (!std::isnan(kMeaning(code))) all.push_back({kMeaning(code), code});
    std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
      return a.meaning != b.meaning ? a.meaning < b.meaning : a.code > b.code;
    });
    return all;
  }();
  return sorted;
}

// The nearest byte; of two equally near the even one; of two zeros the one with the same sign.
template <Meaning kMeaning>
int nearest(float scaled) {
  const Entry* best = nullptr;
  for (const Entry& entry : entries<kMeaning>()) {
    const double distance = std::fabs(entry.meaning - scaled);
    const double least = best == nullptr ? HUGE_VAL : std::fabs(best->meaning - scaled);
    const bool same = best != nullptr && entry.meaning == best->meaning;
    if (distance < least || (distance == least && !same && entry.code % 2 == 0) ||
        (distance == least && same && !std::signbit(scaled)))
      best = &entry;
  }
  return best->code;
}

// The largest scale with which nothing overflows.
float largest_scale(double top) {
  constexpr double kMost = std::numeric_limits<float>::max();
  auto scale = static_cast<float>(kMost / top);
  while (scale * top > kMost) scale = std::nextafter(scale, 0.0F);
  return scale;
}

float scale_of(const float* values, std::size_t count, float top) {
  float largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return std::bit_cast<float>(0x7FC00000U);
    largest = std::max(largest, std::fabs(values[i]));
  }
  return largest == 0
             ? 0
             : std::clamp(largest / top, std::numeric_limits<float>::min(), largest_scale(top));
}

template <Meaning kMeaning, int kTop>
void encode(const float* values, std::size_t count, std::size_t block, std::byte* scales,
            std::byte* codes) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = i - i % block;
    if (i == first) {
      const float scale = scale_of(values + i, std::min(block, count - i), kTop);
      std::memcpy(scales + i / block * 4, &scale, 4);
    }
    const auto scale = read<float>(scales, i / block);
    codes[i] = scale > 0 ? static_cast<std::byte>(nearest<kMeaning>(values[i] * (1 / scale)))
                         : std::byte{0};
  }
}

template <Meaning kMeaning, int kTop>
bool valid(const std::byte* scales, const std::byte* codes, std::size_t count, std::size_t block) {
  using Limits = std::numeric_limits<float>;
  for (std::size_t i = 0; i < count; ++i) {
    const auto scale = read<float>(scales, i / block);
    const auto bits = read<std::uint32_t>(scales, i / block);
    const bool number = scale >= Limits::min() && scale <= largest_scale(kTop);
    if (!number && bits != 0 && bits != 0x7FC00000U) return false;
    if (std::isnan(kMeaning(std::to_integer<int>(codes[i])))) return false;
  }
  return true;
}

// Writes a value, or adds it with a weight.
void give(float value, const float* weight, float& out) {
  out = weight == nullptr ? value : out + *weight * value;
}

template <Meaning kMeaning>
void decode(const std::byte* scales, const std::byte* codes, std::size_t count, std::size_t block,
            const float* weight, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto meaning = static_cast<float>(kMeaning(std::to_integer<int>(codes[i])));
    give(meaning * read<float>(scales, i / block), weight, out[i]);
  }
}

template <Meaning kMeaning, int kTop>
constexpr ScaledBytes kScaled = {
    .encode = encode<kMeaning, kTop>, .valid = valid<kMeaning, kTop>, .decode = decode<kMeaning>};

struct Power {
  int exponent;
  bool sign;
};

// `random` has 23 bits; rounds up with the probability of the distance from the lower power.
Power natural_of(float value, std::uint32_t random) {
  if (std::isnan(value)) return {0, true};
  if (std::isinf(value)) return {255, value < 0};
  const double size = std::fabs(value);
  const bool subnormal = size < std::numeric_limits<float>::min();
  int exponent = subnormal ? 0 : std::ilogb(size) + 127;
  const double part = subnormal ? std::ldexp(size, 126) : std::ldexp(size, 127 - exponent) - 1;
  if (std::ldexp(part, 23) + random >= 0x1p23) ++exponent;
  exponent = std::min(exponent, 254);
  return {exponent, exponent > 0 && value < 0};
}

void encode_natural(const float* values, std::size_t count, RandomKey key, std::byte* exponents,
                    std::byte* signs) {
  std::fill(signs, signs + (count + 7) / 8, std::byte{0});
  for (std::size_t i = 0; i < count; ++i) {
    const Power power = natural_of(values[i], random_bits(key, static_cast<std::uint32_t>(i)) >> 9);
    exponents[i] = static_cast<std::byte>(power.exponent);
    if (power.sign) signs[i / 8] |= std::byte{1} << (i % 8);
  }
}

float natural_at(const std::byte* exponents, const std::byte* signs, std::size_t i) {
  using Limits = std::numeric_limits<float>;
  const int exponent = std::to_integer<int>(exponents[i]);
  const bool sign = std::to_integer<bool>((signs[i / 8] >> (i % 8)) & std::byte{1});
  if (exponent == 0) return sign ? Limits::quiet_NaN() : 0;
  const float size = exponent == 255 ? Limits::infinity() : std::ldexp(1.0F, exponent - 127);
  return sign ? -size : size;
}

void decode_natural(const std::byte* exponents, const std::byte* signs, std::size_t count,
                    const float* weight, float* out) {
  for (std::size_t i = 0; i < count; ++i) give(natural_at(exponents, signs, i), weight, out[i]);
}

constexpr QuantizeKernels kReference = {
    .add_float32 = add_float32,
    .add_float16 = add_halves<DataType::kFloat16>,
    .add_bfloat16 = add_halves<DataType::kBFloat16>,
    .int8 = kScaled<int8_meaning, 127>,
    .e4m3 = kScaled<float8_meaning<3, 0x7E>, 448>,
    .e5m2 = kScaled<float8_meaning<2, 0x7B>, 57344>,
    .natural = {.encode = encode_natural, .decode = decode_natural},
};

}  // namespace

const QuantizeKernels& quantize_reference() { return kReference; }

}  // namespace tally::kernel
