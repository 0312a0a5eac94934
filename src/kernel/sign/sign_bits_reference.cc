#include <cstddef>

#include "kernel/sign/sign_bits.h"

namespace tally::kernel {
namespace {

bool bit_at(const std::byte* bits, std::size_t i) {
  return ((static_cast<unsigned>(bits[i / 8]) >> (i % 8)) & 1U) != 0;
}

template <typename Is>
void set_bits(const float* values, std::size_t count, std::byte* bits, Is is) {
  for (std::size_t i = 0; i < (count + 7) / 8; ++i) bits[i] = std::byte{0};
  for (std::size_t i = 0; i < count; ++i)
    if (is(values[i])) bits[i / 8] |= static_cast<std::byte>(1U << (i % 8));
}

// One side of one chunk; what belongs to the other counts as zero.
float side_of(const float* values, std::size_t count, bool negative) {
  float lanes[kSignLanes] = {};
  for (std::size_t i = 0; i < count; ++i)
    if ((values[i] < 0) == negative) lanes[i % kSignLanes] += values[i];
  for (std::size_t half = kSignLanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

SideSums sign_bits(const float* values, std::size_t count, std::byte* bits) {
  set_bits(values, count, bits, [](float value) { return value < 0; });
  SideSums sums;
  for (std::size_t at = 0; at < count; at += kSignChunk) {
    const std::size_t length = count - at < kSignChunk ? count - at : kSignChunk;
    sums.negative += static_cast<double>(side_of(values + at, length, true));
    sums.other += static_cast<double>(side_of(values + at, length, false));
  }
  return sums;
}

void zero_bits(const float* values, std::size_t count, std::byte* bits) {
  set_bits(values, count, bits, [](float value) { return value == 0; });
}

float value_of(const std::byte* signs, const std::byte* zeros, std::size_t i,
               const BitValues& values) {
  if (zeros != nullptr && bit_at(zeros, i)) return values.zero;
  return bit_at(signs, i) ? values.set : values.clear;
}

void spread(const std::byte* signs, const std::byte* zeros, std::size_t count,
            const BitValues& values, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = value_of(signs, zeros, i, values);
}

void add(const std::byte* signs, const std::byte* zeros, std::size_t count, const BitValues& values,
         float* sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = sum[i] + value_of(signs, zeros, i, values);
}

void majority(const std::byte* const* bitmaps, std::size_t voters, std::size_t bytes,
              std::byte* more, std::byte* half) {
  for (std::size_t i = 0; i < bytes; ++i) more[i] = half[i] = std::byte{0};
  for (std::size_t i = 0; i < 8 * bytes; ++i) {
    std::size_t votes = 0;
    for (std::size_t v = 0; v < voters; ++v) votes += bit_at(bitmaps[v], i) ? 1 : 0;
    const auto bit = static_cast<std::byte>(1U << (i % 8));
    if (2 * votes > voters) more[i / 8] |= bit;
    if (2 * votes == voters) half[i / 8] |= bit;
  }
}

}  // namespace

const SignKernels& sign_reference() {
  static constexpr SignKernels kReference = {sign_bits, zero_bits, spread, add, majority};
  return kReference;
}

}  // namespace tally::kernel
