#include "codec/entropy/huffman.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "wire/little_endian.h"

namespace tally::codec {
namespace {

static_assert(std::endian::native == std::endian::little, "words are stored as they are");
constexpr std::size_t kStreams = kHuffmanStreams;
constexpr std::size_t kTableSize = std::size_t{1} << kHuffmanBits;
constexpr std::size_t kSizesBytes = 4 * (kStreams - 1);
// So many codes lie in any 64 bits that begin in the first of their bytes.
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

// Codes of one length are successive numbers, those of the next follow with a bit more; in the
// order of symbols.
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

// Which bytes of the whole part `stream` has.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};
Range part_of(std::size_t total, std::size_t stream) {
  const std::size_t each = (total + kStreams - 1) / kStreams;
  return {.begin = std::min(total, each * stream), .end = std::min(total, each * (stream + 1))};
}

std::uint64_t load64(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// The bytes written, whole ones; `out` has room for whatever they can be, and 8 more.
std::size_t encode_part(std::span<const std::byte> in, const CodeTable& codes, std::byte* out) {
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

// Their codes fill the table exactly.
Result<ReadLengths> read_lengths(std::span<const std::byte> in) {
  if (in.size() < kPresenceBytes) return corrupt_code("ends in its list of bytes");
  ReadLengths read{.symbols = read_presence(in.first<kPresenceBytes>())};
  const std::size_t nibbles = read.symbols.size();
  read.bytes = kPresenceBytes + (nibbles + 1) / 2;
  if (nibbles == 0 || in.size() < read.bytes) return corrupt_code("ends in its lengths");
  std::size_t filled = 0;
  for (std::size_t i = 0; i < nibbles; ++i) {
    const auto length = std::to_integer<unsigned>(in[kPresenceBytes + i / 2] >> (i % 2 * 4)) & 15U;
    if (nibbles > 1 && (length == 0 || length > kHuffmanBits))
      return corrupt_code("has a length out of range");
    read.lengths[read.symbols[i]] = static_cast<std::uint8_t>(length);
    filled += kTableSize >> length;
  }
  if (nibbles > 1 && filled != kTableSize) return corrupt_code("has lengths of no whole code");
  return read;
}

// For each kHuffmanBits bits that may come next: the byte, and from bit 8 on the length of its
// code.
using DecoderTable = std::array<std::uint16_t, kTableSize>;

void fill_table(const ReadLengths& read, DecoderTable& table) {
  const CodeTable codes = codes_of(read.lengths);
  for (const std::uint8_t s : read.symbols)
    for (std::size_t i = codes[s].bits; i < kTableSize; i += std::size_t{1} << codes[s].length)
      table[i] = static_cast<std::uint16_t>(s | codes[s].length << 8U);
}

// One part on its way. `at` is the byte that bit `used` (0 to 7) of what comes next lies in.
struct Reader {
  const std::byte* at = nullptr;
  const std::byte* end = nullptr;
  std::byte* out = nullptr;
  std::byte* out_end = nullptr;
  unsigned used = 0;
};

// Takes kCodesAtOnce codes; 8 bytes at reader.at can be read.
inline void decode_codes(Reader& reader, const DecoderTable& table) {
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

// Takes what is left of a part, bit for bit within its bounds.
Result<void> finish(Reader reader, const DecoderTable& table) {
  // The loop for speed looks only at the end of everything.
  if (reader.at > reader.end) return corrupt_code("ends before its last byte");
  while (reader.out != reader.out_end) {
    std::array<std::byte, 8> next{};
    std::memcpy(next.data(), reader.at,
                std::min<std::size_t>(8, static_cast<std::size_t>(reader.end - reader.at)));
    const std::uint16_t entry = table[(load64(next.data()) >> reader.used) % kTableSize];
    *reader.out++ = static_cast<std::byte>(entry);
    reader.used += entry >> 8U;
    if (reader.used > 8 * (reader.end - reader.at))
      return corrupt_code("ends before its last byte");
    reader.at += reader.used / 8;
    reader.used %= 8;
  }
  if (reader.used > 0 && *reader.at >> static_cast<int>(reader.used) != std::byte{0})
    return corrupt_code("does not end in zeros");
  if (reader.end - reader.at != (reader.used > 0 ? 1 : 0))
    return corrupt_code("goes on after its last byte");
  return {};
}

Result<void> decode_parts(std::span<const std::byte> in, const DecoderTable& table,
                          std::span<std::byte> out) {
  if (in.size() < kSizesBytes) return corrupt_code("ends in its sizes");
  std::array<Reader, kStreams> readers;
  std::size_t at = kSizesBytes;
  for (std::size_t s = 0; s < kStreams; ++s) {
    const std::size_t left = in.size() - at;
    const std::size_t bytes = s + 1 < kStreams ? wire::load<std::uint32_t>(in, 4 * s) : left;
    if (bytes > left) return corrupt_code("has parts longer than itself");
    const Range range = part_of(out.size(), s);
    readers[s] = {.at = in.data() + at,
                  .end = in.data() + at + bytes,
                  .out = out.data() + range.begin,
                  .out_end = out.data() + range.end};
    at += bytes;
  }
  // Parts before the last may be read beyond their end, not beyond the end of everything.
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

// What the parts will take, rounded up.
std::uint64_t coded_bytes(const ByteCounts& counts, const CodeLengths& lengths) {
  std::uint64_t bits = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) bits += std::uint64_t{counts[s]} * lengths[s];
  return bits / 8 + kStreams;
}

}  // namespace

std::size_t huffman_encode(std::span<const std::byte> in, std::span<std::byte> out) {
  const ByteCounts counts = count_bytes(in);
  const std::vector<std::uint8_t> symbols = present(counts);
  const bool alone = symbols.size() == 1;
  const CodeLengths lengths = alone ? CodeLengths{} : huffman_lengths(counts);
  const std::size_t head = write_lengths(lengths, symbols, out);
  if (head == 0 || alone) return head;
  // The last word of a part may reach 8 bytes beyond it.
  if (out.size() < head + kSizesBytes + coded_bytes(counts, lengths) + 8) return 0;
  const CodeTable codes = codes_of(lengths);
  std::size_t at = head + kSizesBytes;
  for (std::size_t s = 0; s < kStreams; ++s) {
    const Range range = part_of(in.size(), s);
    const std::size_t bytes =
        encode_part(in.subspan(range.begin, range.end - range.begin), codes, out.data() + at);
    if (s + 1 < kStreams) wire::store(out, head + 4 * s, static_cast<std::uint32_t>(bytes));
    at += bytes;
  }
  return at;
}

Result<void> huffman_decode(std::span<const std::byte> in, std::span<std::byte> out) {
  TALLY_TRY(const ReadLengths read, read_lengths(in));
  in = in.subspan(read.bytes);
  if (read.symbols.size() == 1) {
    if (!in.empty()) return corrupt_code("goes on after its last byte");
    std::fill(out.begin(), out.end(), std::byte{read.symbols.front()});
    return {};
  }
  DecoderTable table;
  fill_table(read, table);
  return decode_parts(in, table, out);
}

}  // namespace tally::codec
