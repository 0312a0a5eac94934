#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "kernel/reduce/reduce.h"

// Written to be obviously right, with nothing in common with the fast loops.
namespace tally::kernel {
namespace {

template <typename To, typename From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

float float_from_float16(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  const bool negative = (half >> 15) != 0;
  if (exponent == 31 && mantissa != 0) {
    return bits_as<float>((negative ? 0xFFC00000U : 0x7FC00000U) |
                          static_cast<std::uint32_t>(mantissa) << 13);
  }
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                  : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  if (exponent == 31) magnitude = INFINITY;
  return negative ? -magnitude : magnitude;
}

std::uint16_t float16_from_float(float value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>(sign | 0x7E00 |
                                      ((bits_as<std::uint32_t>(value) >> 13) & 0x3FF));
  }
  const double magnitude = std::abs(static_cast<double>(value));
  if (magnitude >= 65520) return static_cast<std::uint16_t>(sign | 0x7C00);
  // Counts units of the last place; a count that rounds up to 2048 carries into the exponent.
  const int exponent = magnitude < 0x1p-14 ? -14 : std::ilogb(magnitude);
  const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<std::uint16_t>(sign | ((exponent + 14) * 1024 + units));
}

float float_from_bfloat16(std::uint16_t half) {
  return bits_as<float>(static_cast<std::uint32_t>(half) << 16);
}

std::uint16_t bfloat16_from_float(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  const std::uint32_t kept = bits >> 16;
  const std::uint32_t lost = bits & 0xFFFFU;
  if (std::isnan(value)) return static_cast<std::uint16_t>(kept | 0x40U);
  const bool up = lost > 0x8000U || (lost == 0x8000U && kept % 2 == 1);
  return static_cast<std::uint16_t>(kept + (up ? 1 : 0));
}

template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static T widen(T stored) { return stored; }
  static T narrow(T value) { return value; }
};
struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  static float widen(std::uint16_t stored) { return float_from_float16(stored); }
  static std::uint16_t narrow(float value) { return float16_from_float(value); }
};
struct BFloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  static float widen(std::uint16_t stored) { return float_from_bfloat16(stored); }
  static std::uint16_t narrow(float value) { return bfloat16_from_float(value); }
};

template <typename E>
typename E::Value load(const void* data, std::size_t index) {
  typename E::Stored stored;
  std::memcpy(&stored, static_cast<const char*>(data) + index * sizeof stored, sizeof stored);
  return E::widen(stored);
}

template <typename E>
void store(void* data, std::size_t index, typename E::Value value) {
  const typename E::Stored stored = E::narrow(value);
  std::memcpy(static_cast<char*>(data) + index * sizeof stored, &stored, sizeof stored);
}

template <typename T>
T apply(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kMin) return b < a ? b : a;
  if (op == ReduceOp::kMax) return a < b ? b : a;
  if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    return static_cast<T>(op == ReduceOp::kProduct ? x * y : x + y);
  } else {
    return op == ReduceOp::kProduct ? a * b : a + b;
  }
}

template <typename T>
T quotient(T value, int divisor) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(value) / divisor);
  } else {
    return value / static_cast<T>(divisor);
  }
}

// Calls visit() with the description of `type`.
template <typename Visit>
void with_type(DataType type, Visit visit) {
  switch (type) {
    case DataType::kFloat32:
      return visit(Plain<float>());
    case DataType::kFloat64:
      return visit(Plain<double>());
    case DataType::kFloat16:
      return visit(Float16());
    case DataType::kBFloat16:
      return visit(BFloat16());
    case DataType::kInt8:
      return visit(Plain<std::int8_t>());
    case DataType::kUInt8:
      return visit(Plain<std::uint8_t>());
    case DataType::kInt32:
      return visit(Plain<std::int32_t>());
    case DataType::kInt64:
      return visit(Plain<std::int64_t>());
  }
  TALLY_UNREACHABLE();
}

void combine_many(DataType type, ReduceOp op, std::span<const void* const> sources,
                  std::span<void* const> destinations, std::size_t count, int divisor) {
  TALLY_CHECK(!sources.empty());
  TALLY_CHECK(divisor >= 1);
  with_type(type, [&]<typename E>(E) {
    for (std::size_t i = 0; i < count; ++i) {
      typename E::Value value = load<E>(sources[0], i);
      for (const void* source : sources.subspan(1)) value = apply(op, value, load<E>(source, i));
      if (divisor != 1) value = quotient(value, divisor);
      for (void* destination : destinations) store<E>(destination, i, value);
    }
  });
}

void combine(DataType type, ReduceOp op, void* into, const void* from, std::size_t count) {
  const void* const sources[] = {into, from};
  combine_many(type, op, sources, {&into, 1}, count, 1);
}

void divide(DataType type, void* data, std::size_t count, int divisor) {
  if (divisor == 1) return;
  const void* const source = data;
  combine_many(type, ReduceOp::kSum, {&source, 1}, {&data, 1}, count, divisor);
}

void widen(DataType type, const void* halves, float* values, std::size_t count) {
  TALLY_CHECK(type == DataType::kFloat16 || type == DataType::kBFloat16);
  for (std::size_t i = 0; i < count; ++i) {
    const float value =
        type == DataType::kFloat16 ? load<Float16>(halves, i) : load<BFloat16>(halves, i);
    store<Plain<float>>(values, i, value);
  }
}

void narrow(DataType type, const float* values, void* halves, std::size_t count) {
  TALLY_CHECK(type == DataType::kFloat16 || type == DataType::kBFloat16);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = load<Plain<float>>(values, i);
    type == DataType::kFloat16 ? store<Float16>(halves, i, value)
                               : store<BFloat16>(halves, i, value);
  }
}

}  // namespace

const Kernels& reference_kernels() {
  static constexpr Kernels kReference = {.combine = combine,
                                         .combine_many = combine_many,
                                         .divide = divide,
                                         .widen = widen,
                                         .narrow = narrow};
  return kReference;
}

}  // namespace tally::kernel
