#include <zstd.h>

#include "codec/entropy/byte_coders.h"

namespace tally::codec {

std::size_t zstd_encode(std::span<const std::byte> in, std::span<std::byte> out) {
  constexpr int kLevel = 1;
  const std::size_t bytes = ZSTD_compress(out.data(), out.size(), in.data(), in.size(), kLevel);
  // The only errors are a full buffer and lack of memory.
  return ZSTD_isError(bytes) != 0 ? 0 : bytes;
}

Result<void> zstd_decode(std::span<const std::byte> in, std::span<std::byte> out) {
  // Decodes into `out` directly, so a large window in the frame takes no memory.
  const std::size_t bytes = ZSTD_decompress(out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(bytes) != 0) return corrupt_code(ZSTD_getErrorName(bytes));
  if (bytes != out.size()) return corrupt_code("too few bytes");
  return {};
}

}  // namespace tally::codec
