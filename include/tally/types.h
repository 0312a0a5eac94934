#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tally {

enum class DataType : std::uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt8,
  kUInt8,
  kInt32,
  kInt64,
};
inline constexpr int kDataTypeCount = 8;

// Half types are reduced in float32. kAverage is the sum divided by the number of ranks. Integers
// wrap on overflow, and their average is truncated towards zero.
enum class ReduceOp : std::uint8_t { kSum, kAverage, kMin, kMax, kProduct };
inline constexpr int kReduceOpCount = 5;

constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::kFloat64:
    case DataType::kInt64:
      return 8;
    case DataType::kFloat32:
    case DataType::kInt32:
      return 4;
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return 2;
    case DataType::kInt8:
    case DataType::kUInt8:
      return 1;
  }
  return 0;
}

std::string_view to_string(DataType type);
std::string_view to_string(ReduceOp op);

// The DataType of a C++ arithmetic type.
template <typename T>
inline constexpr DataType kDataTypeOf = [] {
  static_assert(sizeof(T) == 0, "no DataType for this C++ type; pass a DataType and a pointer");
  return DataType::kFloat32;
}();
template <>
inline constexpr DataType kDataTypeOf<float> = DataType::kFloat32;
template <>
inline constexpr DataType kDataTypeOf<double> = DataType::kFloat64;
template <>
inline constexpr DataType kDataTypeOf<std::int8_t> = DataType::kInt8;
template <>
inline constexpr DataType kDataTypeOf<std::uint8_t> = DataType::kUInt8;
template <>
inline constexpr DataType kDataTypeOf<std::int32_t> = DataType::kInt32;
template <>
inline constexpr DataType kDataTypeOf<std::int64_t> = DataType::kInt64;

}  // namespace tally
