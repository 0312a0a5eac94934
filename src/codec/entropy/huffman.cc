#include "codec/entropy/byte_coders.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "wire/little_endian.h"

namespace tally::codec {
namespace {

static_assert(std::endian::native == std::endian::little, "words are stored as they are");
constexpr std::size_t kTableSize = std::size_t{1} << kHuffmanBits;
constexpr std::size_t kSizesBytes = 4 * (kHuffmanStreams - 1);
// So many codes fit into any 64 bits that begin in the first of their bytes.
constexpr std::size_t kCodesAtOnce = (64 - 7) / kHuffmanBits;

struct Code {
  std::uint16_t bits = 0;  // the first is the lowest
  std::uint16_t length = 0;
};
using CodeTable = std::array<Code, 256>;

std::uint32_t reversed(std::uint32_t bits, unsigned length) {
  std::uint32_t result = 0;
  for (unsigned i = 0; i < length; ++i) result |= (bits >> i & 1U) << (length - 1 - i);
  return result;
}

// Canonical codes: successive numbers in the order of symbols, from the shortest length to the
// longest.
CodeTable codes_of(const CodeLengths& lengths) {
  CodeTable codes{};
  std::uint32_t next = 0;
  for (unsigned length = 1; length <= kHuffmanBits; ++length, next <<= 1U) {
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      if (lengths[s] != length) continue;
      codes[s] = {.bits = static_cast<std::uint16_t>(reversed(next, length)),
                  .length = static_cast<std::uint16_t>(length)};
      ++next;
    }
  }
  return codes;
}

// The bytes of one stream.
struct StreamSlice {
  std::size_t begin = 0;
  std::size_t end = 0;
};
StreamSlice slice_of(std::size_t total, std::size_t stream) {
  const std::size_t each = (total + kHuffmanStreams - 1) / kHuffmanStreams;
  return {.begin = std::min(total, each * stream), .end = std::min(total, each * (stream + 1))};
}

std::uint64_t load64(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Returns the bytes written. `out` has room for the largest size and 8 more bytes.
std::size_t encode_stream(std::span<const std::byte> in, const CodeTable& codes, std::byte* out) {
  std::byte* at = out;
  std::uint64_t bits = 0;
  unsigned count = 0;
  const auto put = [&](std::byte symbol) {
    const Code code = codes[std::to_integer<std::size_t>(symbol)];
    bits |= std::uint64_t{code.bits} << count;
    count += code.length;
  };
  const auto flush = [&] {
    std::memcpy(at, &bits, sizeof bits);
    at += count / 8;
    bits >>= count / 8 * 8;
    count %= 8;
  };
  std::size_t i = 0;
  for (; i + kCodesAtOnce <= in.size(); i += kCodesAtOnce) {
    for (std::size_t k = 0; k < kCodesAtOnce; ++k) put(in[i + k]);
    flush();
  }
  for (; i < in.size(); ++i) put(in[i]);
  flush();
  return static_cast<std::size_t>(at - out) + (count > 0 ? 1 : 0);
}

std::size_t write_lengths(const CodeLengths& lengths, std::span<const std::uint8_t> symbols,
                          std::span<std::byte> out) {
  const std::size_t bytes = kPresenceBytes + (symbols.size() + 1) / 2;
  if (out.size() < bytes) return 0;
  write_presence(symbols, out.first<kPresenceBytes>());
  std::fill(out.begin() + kPresenceBytes, out.begin() + static_cast<std::ptrdiff_t>(bytes),
            std::byte{0});
  for (std::size_t i = 0; i < symbols.size(); ++i)
    out[kPresenceBytes + i / 2] |= static_cast<std::byte>(lengths[symbols[i]] << (i % 2 * 4));
  return bytes;
}

struct ReadLengths {
  CodeLengths lengths{};
  std::vector<std::uint8_t> symbols;
  std::size_t bytes = 0;  // that they took
};

// The lengths make a complete code.
Result<ReadLengths> read_lengths(std::span<const std::byte> in) {
  if (in.size() < kPresenceBytes) return corrupt_code("truncated in the bitmap of bytes");
  ReadLengths read{.symbols = read_presence(in.first<kPresenceBytes>())};
  const std::size_t nibbles = read.symbols.size();
  read.bytes = kPresenceBytes + (nibbles + 1) / 2;
  if (nibbles == 0 || in.size() < read.bytes) return corrupt_code("truncated in the code lengths");
  std::size_t filled = 0;
  for (std::size_t i = 0; i < nibbles; ++i) {
    const auto length = std::to_integer<unsigned>(in[kPresenceBytes + i / 2] >> (i % 2 * 4)) & 15U;
    if (nibbles > 1 && (length == 0 || length > kHuffmanBits))
      return corrupt_code("a code length is out of range");
    read.lengths[read.symbols[i]] = static_cast<std::uint8_t>(length);
    filled += kTableSize >> length;
  }
  if (nibbles > 1 && filled != kTableSize)
    return corrupt_code("the code lengths make no complete code");
  return read;
}

// For the next kHuffmanBits bits: the byte, and from bit 8 on the length of its code.
using HuffmanTable = std::array<std::uint16_t, kTableSize>;

void fill_huffman_table(const ReadLengths& read, HuffmanTable& table) {
  const CodeTable codes = codes_of(read.lengths);
  for (const std::uint8_t s : read.symbols)
    for (std::size_t i = codes[s].bits; i < kTableSize; i += std::size_t{1} << codes[s].length)
      table[i] = static_cast<std::uint16_t>(s | codes[s].length << 8U);
}

// The state of one stream. The next code begins at bit `used` (0 to 7) of the byte `at`.
struct Reader {
  const std::byte* at = nullptr;
  const std::byte* end = nullptr;
  std::byte* out = nullptr;
  std::byte* out_end = nullptr;
  unsigned used = 0;
};

// Decodes kCodesAtOnce codes; 8 bytes at reader.at can be read.
inline void decode_codes(Reader& reader, const HuffmanTable& table) {
  std::uint64_t bits = load64(reader.at) >> reader.used;
  unsigned taken = reader.used;
  for (std::size_t k = 0; k < kCodesAtOnce; ++k) {
    const std::uint16_t entry = table[bits % kTableSize];
    reader.out[k] = static_cast<std::byte>(entry);
    bits >>= entry >> 8U;
    taken += entry >> 8U;
  }
  reader.out += kCodesAtOnce;
  reader.at += taken / 8;
  reader.used = taken % 8;
}

// Decodes the rest of a stream and checks its bounds.
Result<void> finish(Reader reader, const HuffmanTable& table) {
  // The fast loop only checks the end of the whole input.
  if (reader.at > reader.end) return corrupt_code("truncated before the last byte");
  while (reader.out != reader.out_end) {
    std::array<std::byte, 8> next{};
    std::memcpy(next.data(), reader.at,
                std::min<std::size_t>(8, static_cast<std::size_t>(reader.end - reader.at)));
    const std::uint16_t entry = table[(load64(next.data()) >> reader.used) % kTableSize];
    *reader.out++ = static_cast<std::byte>(entry);
    reader.used += entry >> 8U;
    if (reader.used > 8 * (reader.end - reader.at))
      return corrupt_code("truncated before the last byte");
    reader.at += reader.used / 8;
    reader.used %= 8;
  }
  if (reader.used > 0 && (*reader.at >> static_cast<int>(reader.used)) != std::byte{0})
    return corrupt_code("bits are set behind the last code");
  if (reader.end - reader.at != (reader.used > 0 ? 1 : 0))
    return corrupt_code("bytes follow the last byte");
  return {};
}

Result<void> decode_streams(std::span<const std::byte> in, const HuffmanTable& table,
                            std::span<std::byte> out) {
  if (in.size() < kSizesBytes) return corrupt_code("truncated in the stream sizes");
  std::array<Reader, kHuffmanStreams> readers;
  std::size_t at = kSizesBytes;
  for (std::size_t s = 0; s < kHuffmanStreams; ++s) {
    const std::size_t left = in.size() - at;
    const std::size_t bytes = s + 1 < kHuffmanStreams ? wire::load<std::uint32_t>(in, 4 * s) : left;
    if (bytes > left) return corrupt_code("a stream is longer than the input");
    const StreamSlice range = slice_of(out.size(), s);
    readers[s] = {.at = in.data() + at,
                  .end = in.data() + at + bytes,
                  .out = out.data() + range.begin,
                  .out_end = out.data() + range.end};
    at += bytes;
  }
  // The fast loop may read beyond the end of a stream, but not beyond the end of the input.
  auto [a, b, c, d] = readers;
  const std::byte* const end = in.data() + in.size();
  const auto has = [&](const Reader& r) { return end - r.at >= 8; };
  while (d.out_end - d.out >= std::ptrdiff_t{kCodesAtOnce} && has(a) && has(b) && has(c) &&
         has(d)) {
    decode_codes(a, table);
    decode_codes(b, table);
    decode_codes(c, table);
    decode_codes(d, table);
  }
  for (const Reader& reader : {a, b, c, d}) TALLY_TRY(finish(reader, table));
  return {};
}

// The size of all streams, rounded up.
std::uint64_t coded_bytes(const ByteCounts& counts, const CodeLengths& lengths) {
  std::uint64_t bits = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) bits += std::uint64_t{counts[s]} * lengths[s];
  return bits / 8 + kHuffmanStreams;
}

}  // namespace

std::size_t huffman_encode(std::span<const std::byte> in, std::span<std::byte> out) {
  const ByteCounts counts = count_bytes(in);
  const std::vector<std::uint8_t> symbols = present(counts);
  const bool alone = symbols.size() == 1;
  const CodeLengths lengths = alone ? CodeLengths{} : huffman_lengths(counts);
  const std::size_t head = write_lengths(lengths, symbols, out);
  if (head == 0 || alone) return head;
  // The last word of a stream may reach 8 bytes beyond it.
  if (out.size() < head + kSizesBytes + coded_bytes(counts, lengths) + 8) return 0;
  const CodeTable codes = codes_of(lengths);
  std::size_t at = head + kSizesBytes;
  for (std::size_t s = 0; s < kHuffmanStreams; ++s) {
    const StreamSlice range = slice_of(in.size(), s);
    const std::size_t bytes =
        encode_stream(in.subspan(range.begin, range.end - range.begin), codes, out.data() + at);
    if (s + 1 < kHuffmanStreams) wire::store(out, head + 4 * s, static_cast<std::uint32_t>(bytes));
    at += bytes;
  }
  return at;
}

Result<void> huffman_decode(std::span<const std::byte> in, std::span<std::byte> out) {
  TALLY_TRY(const ReadLengths read, read_lengths(in));
  in = in.subspan(read.bytes);
  if (read.symbols.size() == 1) {
    if (!in.empty()) return corrupt_code("bytes follow the last byte");
    std::fill(out.begin(), out.end(), std::byte{read.symbols.front()});
    return {};
  }
  HuffmanTable table;
  fill_huffman_table(read, table);
  return decode_streams(in, table, out);
}

}  // namespace tally::codec
