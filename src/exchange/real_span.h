#pragma once
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "tally/types.h"

namespace tally::exchange {

// The bytes as whole elements of T.
template <typename T>
std::span<T> elements_of(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// Elements of type kFloat32 or kFloat64 in borrowed memory.
struct RealSpan {
  DataType type = DataType::kFloat32;
  std::span<std::byte> bytes;

  // Calls `use` with a span of float or of double.
  template <typename Use>
  decltype(auto) visit(Use&& use) const {
    if (type == DataType::kFloat64) return use(elements_of<double>(bytes));
    return use(elements_of<float>(bytes));
  }
};

}  // namespace tally::exchange
