#include <zstd.h>

#include "codec/entropy/byte_counts.h"
#include "codec/entropy/zstd_bytes.h"

namespace tally::codec {

std::size_t zstd_encode(std::span<const std::byte> in, std::span<std::byte> out) {
  constexpr int kLevel = 1;
  const std::size_t bytes = ZSTD_compress(out.data(), out.size(), in.data(), in.size(), kLevel);
  // The one thing that can go wrong, out of memory aside, is that there is no room; either way
  // there is no frame.
  return ZSTD_isError(bytes) != 0 ? 0 : bytes;
}

Result<void> zstd_decode(std::span<const std::byte> in, std::span<std::byte> out) {
  // Decodes into `out` directly, so whatever window the frame asks for takes no memory.
  const std::size_t bytes = ZSTD_decompress(out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(bytes) != 0) return corrupt_code(ZSTD_getErrorName(bytes));
  if (bytes != out.size()) return corrupt_code("has too few bytes");
  return {};
}

}  // namespace tally::codec
