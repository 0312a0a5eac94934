// Helpers that the coders share; the coders are in rans.cc, huffman.cc and zstd.cc.
#include "codec/entropy/byte_coders.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/errors.h"

namespace tally::codec {

ByteCounts count_bytes(std::span<const std::byte> bytes) {
  // Four histograms, so that in a run of equal bytes an increment does not wait for the one before.
  std::array<ByteCounts, 4> parts{};
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    for (std::size_t k = 0; k < 8; ++k) ++parts[k % 4][(word >> (8 * k)) & 0xFF];
  }
  for (; i < bytes.size(); ++i) ++parts[0][std::to_integer<std::size_t>(bytes[i])];
  ByteCounts counts{};
  for (std::size_t s = 0; s < counts.size(); ++s)
    counts[s] = parts[0][s] + parts[1][s] + parts[2][s] + parts[3][s];
  return counts;
}

std::vector<std::uint8_t> present(const ByteCounts& counts) {
  std::vector<std::uint8_t> symbols;
  symbols.reserve(counts.size());
  for (std::size_t s = 0; s < counts.size(); ++s)
    if (counts[s] > 0) symbols.push_back(static_cast<std::uint8_t>(s));
  return symbols;
}

void write_presence(std::span<const std::uint8_t> symbols,
                    std::span<std::byte, kPresenceBytes> out) {
  std::fill(out.begin(), out.end(), std::byte{0});
  for (const std::uint8_t s : symbols) out[s / 8] |= std::byte{1} << (s % 8);
}

std::vector<std::uint8_t> read_presence(std::span<const std::byte, kPresenceBytes> bytes) {
  std::vector<std::uint8_t> symbols;
  symbols.reserve(256);
  for (std::size_t s = 0; s < 256; ++s)
    if ((bytes[s / 8] >> (s % 8) & std::byte{1}) != std::byte{0})
      symbols.push_back(static_cast<std::uint8_t>(s));
  return symbols;
}

Error corrupt_code(const char* problem) {
  return corrupt(std::string("entropy-coded bytes: ") + problem);
}

}  // namespace tally::codec
