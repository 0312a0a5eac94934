#pragma once
#include <cstddef>
#include <cstdint>

namespace tally::kernel {

// The reflected polynomial, as in the crc32 instruction.
inline constexpr std::uint32_t kCastagnoli = 0x82F63B78U;

#if defined(__x86_64__)
// crc32c() for a processor with SSE4.2 and PCLMULQDQ; compiled for these, so callable only there.
std::uint32_t crc32c_sse42(const std::byte* bytes, std::size_t count, std::uint32_t crc);
// The same for a processor that also has AVX-512 and VPCLMULQDQ: about twice as fast on long
// inputs.
std::uint32_t crc32c_avx512(const std::byte* bytes, std::size_t count, std::uint32_t crc);
#endif

}  // namespace tally::kernel
