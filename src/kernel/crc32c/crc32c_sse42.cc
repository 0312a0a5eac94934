#include "kernel/crc32c/crc32c_level.h"

#if defined(__x86_64__)
#include <immintrin.h>

// The crc32 instruction takes 8 bytes each cycle but answers after three, so three adjacent runs of
// bytes are taken at once and their remainders joined (V. Gopal et al., "Fast CRC Computation for
// iSCSI Polynomial Using CRC32 Instruction", Intel 2011):
//   crc(a b c) = crc(a) x^(16 run) + crc(b) x^(8 run) + crc(c)      modulo the polynomial, run in
//   bytes
// Carry-less multiplication of two reflected 32-bit numbers leaves a factor x, and the instruction
// that reduces the product one of x^32, so the constant for x^n is x^(n-33).
namespace tally::kernel {
namespace {

std::uint64_t load_word(const std::byte* from) {
  std::uint64_t word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}

__m128i multiply(std::uint64_t a, std::uint32_t b) {
  return _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(a)),
                              _mm_cvtsi32_si128(static_cast<int>(b)), 0);
}

// Takes as many triples of runs as there are; returns how many bytes that was.
template <int kRunBytes>
std::size_t take_triples(const std::byte* bytes, std::size_t count, std::uint64_t& crc) {
  constexpr std::uint32_t kPastTwo = power_of_x(16 * kRunBytes - 33);
  constexpr std::uint32_t kPastOne = power_of_x(8 * kRunBytes - 33);
  std::size_t done = 0;
  for (; count - done >= 3 * kRunBytes; done += 3 * kRunBytes) {
    const std::byte* const run = bytes + done;
    std::uint64_t a = crc, b = 0, c = 0;
    for (int i = 0; i < kRunBytes; i += 8) {
      a = _mm_crc32_u64(a, load_word(run + i));
      b = _mm_crc32_u64(b, load_word(run + kRunBytes + i));
      c = _mm_crc32_u64(c, load_word(run + 2 * kRunBytes + i));
    }
    const __m128i moved = _mm_xor_si128(multiply(a, kPastTwo), multiply(b, kPastOne));
    crc = _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(moved))) ^ c;
  }
  return done;
}

}  // namespace

std::uint32_t crc32c_sse42(const std::byte* bytes, std::size_t count, std::uint32_t crc) {
  std::uint64_t state = ~crc;
  std::size_t done = take_triples<2048>(bytes, count, state);
  done += take_triples<256>(bytes + done, count - done, state);
  done += take_triples<64>(bytes + done, count - done, state);
  for (; count - done >= 8; done += 8) state = _mm_crc32_u64(state, load_word(bytes + done));
  auto narrow = static_cast<std::uint32_t>(state);
  for (; done < count; ++done) {
    narrow = _mm_crc32_u8(narrow, static_cast<unsigned char>(bytes[done]));
  }
  return ~narrow;
}

}  // namespace tally::kernel
#endif
