#include "kernel/crc32c/crc32c.h"

#include <array>

#include "kernel/crc32c/crc32c_level.h"

namespace tally::kernel {
namespace {

constexpr std::array<std::uint32_t, 256> kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc % 2 == 1 ? kCastagnoli : 0U);
    table[byte] = crc;
  }
  return table;
}();

}  // namespace

bool crc32c_is_accelerated() {
#if defined(__x86_64__)
  static const bool accelerated =
      __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
  return accelerated;
#else
  return false;
#endif
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  static const bool wide = crc32c_is_accelerated() && __builtin_cpu_supports("vpclmulqdq") &&
                           __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  if (wide) return crc32c_avx512(bytes.data(), bytes.size(), crc);
  if (crc32c_is_accelerated()) return crc32c_sse42(bytes.data(), bytes.size(), crc);
#endif
  return crc32c_reference(bytes, crc);
}

std::uint32_t crc32c_reference(std::span<const std::byte> bytes, std::uint32_t crc) {
  crc = ~crc;
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint32_t>(byte)) & 0xFFU];
  }
  return ~crc;
}

}  // namespace tally::kernel
