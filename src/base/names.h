#pragma once
#include <cstddef>
#include <string_view>

namespace tally {

// The name of a value of an enumeration that counts from 0 to `kLast`. A value beyond, which only a
// peer can send, is called `otherwise`.
template <auto kLast, std::size_t kCount>
constexpr std::string_view name_in(const std::string_view (&names)[kCount], decltype(kLast) value,
                                   std::string_view otherwise = "unknown") {
  static_assert(kCount == static_cast<std::size_t>(kLast) + 1);
  const auto index = static_cast<std::size_t>(value);
  return index < kCount ? names[index] : otherwise;
}

}  // namespace tally
