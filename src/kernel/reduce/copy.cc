#include "kernel/reduce/copy.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tally::kernel {

void copy_for_others(std::byte* into, const std::byte* from, std::size_t bytes) {
  std::size_t done = 0;
#if defined(__x86_64__)
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kWord = sizeof(__m128i);
  for (; done + kLine <= bytes; done += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from + done);
    auto* destination = reinterpret_cast<__m128i*>(into + done);
    for (std::size_t i = 0; i < kLine / kWord; ++i)
      _mm_stream_si128(destination + i, _mm_loadu_si128(source + i));
  }
  // Only a fence orders streaming stores with later stores.
  _mm_sfence();
#endif
  if (done < bytes) std::memcpy(into + done, from + done, bytes - done);
}

}  // namespace tally::kernel
