#include "codec/entropy/byte_coders.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "wire/little_endian.h"

// A state x is at least kLow and below kLow * 2^16. Byte s has the share f, whose interval of 4096
// begins at b. Bytes are encoded backwards:
//   encode: if x >= (kLow / 4096 * 2^16) * f: output a word of x; x = (x / f) * 4096 + b + x % f
//   decode: s is the byte whose interval has x % 4096; x = f * (x / 4096) + x % 4096 - b;
//           if x < kLow: input a word into x
namespace tally::codec {
namespace {

static_assert(std::endian::native == std::endian::little, "words are stored as they are");
constexpr unsigned kTotalBits = 12;
constexpr std::uint32_t kLow = 1U << 15;
constexpr std::size_t kStateBytes = kRansStreams * 4;
static_assert(kRansTotal == 1U << kTotalBits);

using States = std::array<std::uint32_t, kRansStreams>;

// (x / f) * 4096 + b + x % f is x + b + (x / f) * complement. Since x is then below f * 2^19, its
// quotient is x * reciprocal >> kQuotientBits with the reciprocal rounded up: x * reciprocal is
// below 2^64, and x times the rounding error below 2^kQuotientBits.
constexpr unsigned kQuotientBits = 44;
struct EncoderTable {
  std::array<std::uint64_t, 256> reciprocal{};
  std::array<std::uint32_t, 256> limit{};  // a word leaves x from here on
  std::array<std::uint32_t, 256> begin{};
  std::array<std::uint32_t, 256> complement{};
};

EncoderTable encoder_table(const RansShares& shares) {
  EncoderTable table;
  std::uint32_t begin = 0;
  for (std::size_t s = 0; s < shares.size(); ++s) {
    const std::uint32_t share = shares[s];
    if (share == 0) continue;
    table.reciprocal[s] = ((std::uint64_t{1} << kQuotientBits) + share - 1) / share;
    table.limit[s] = (kLow >> kTotalBits << 16) * share;
    table.begin[s] = begin;
    table.complement[s] = kRansTotal - share;
    begin += share;
  }
  return table;
}

// `at` is the last word written; there is room for one more.
inline std::uint32_t encode_byte(std::uint32_t x, const EncoderTable& table, std::byte symbol,
                                 std::byte*& at) {
  const auto s = std::to_integer<std::size_t>(symbol);
  const auto word = static_cast<std::uint16_t>(x);
  std::memcpy(at - 2, &word, 2);
  const bool full = x >= table.limit[s];
  at -= 2 * static_cast<int>(full);
  x = __builtin_expect_with_probability(full, 1, 0.5) ? x >> 16 : x;
  const auto quotient = static_cast<std::uint32_t>(x * table.reciprocal[s] >> kQuotientBits);
  return x + table.begin[s] + quotient * table.complement[s];
}

// 256 * log2(number), rounded down, in integer arithmetic, so that it is the same on every machine.
constexpr std::uint32_t log2_in_256ths(std::uint32_t number) {
  std::uint32_t result = 0;
  std::uint64_t x = number;
  while (x >= 2) {
    x >>= 1;
    result += 256;
  }
  x = (std::uint64_t{number} << 31) >> (result / 256);
  for (std::uint32_t bit = 128; bit > 0; bit /= 2) {
    x = (x * x) >> 31;
    if (x >> 32 != 0) {
      x >>= 1;
      result += bit;
    }
  }
  return result;
}
static_assert(log2_in_256ths(1) == 0 && log2_in_256ths(3) == 405 && log2_in_256ths(4096) == 3072);

constexpr std::array<std::uint16_t, kRansTotal + 1> kLogarithms = [] {
  std::array<std::uint16_t, kRansTotal + 1> table{};
  for (std::uint32_t i = 1; i < table.size(); ++i)
    table[i] = static_cast<std::uint16_t>(log2_in_256ths(i));
  return table;
}();

// The size of the words, or a little less.
std::uint64_t least_bytes(const ByteCounts& counts, const RansShares& shares) {
  std::uint64_t bits = 0;
  for (std::size_t s = 0; s < counts.size(); ++s)
    if (counts[s] > 0)
      bits += std::uint64_t{counts[s]} * (256 * kTotalBits - 1 - kLogarithms[shares[s]]);
  return bits / 256 / 8;
}

// Writes backwards from the end of `out`. Returns the bytes used, or 0 if there is too little room.
std::size_t encode_words(std::span<const std::byte> in, const EncoderTable& table,
                         std::span<std::byte> out) {
  States x;
  x.fill(kLow);
  // The lowest position at which a group of bytes and the states still fit.
  const std::size_t least = 2 * kRansStreams + kStateBytes;
  if (out.size() < least) return 0;
  std::byte* at = out.data() + out.size();
  const std::byte* const last = out.data() + least;
  std::size_t i = in.size();
  for (; i % kRansStreams != 0; --i) {
    std::uint32_t& state = x[(i - 1) % kRansStreams];
    state = encode_byte(state, table, in[i - 1], at);
  }
  for (; i > 0; i -= kRansStreams) {
    if (at < last) return 0;
    const std::byte* const group = in.data() + i - kRansStreams;
#pragma GCC unroll 8
    for (std::size_t k = kRansStreams; k > 0; --k)
      x[k - 1] = encode_byte(x[k - 1], table, group[k - 1], at);
  }
  at -= kStateBytes;
  for (std::size_t k = 0; k < kRansStreams; ++k)
    wire::store(std::span(at, kStateBytes), 4 * k, x[k]);
  return static_cast<std::size_t>(out.data() + out.size() - at);
}

std::size_t write_shares(const RansShares& shares, std::span<const std::uint8_t> symbols,
                         std::span<std::byte> out) {
  if (out.size() < kPresenceBytes + 2 * symbols.size()) return 0;
  write_presence(symbols, out.first<kPresenceBytes>());
  std::size_t at = kPresenceBytes;
  for (const std::uint8_t s : symbols) {
    const unsigned less = shares[s] - 1U;
    if (less < 128) {
      out[at++] = static_cast<std::byte>(less);
    } else {
      out[at++] = static_cast<std::byte>(less % 128 + 128);
      out[at++] = static_cast<std::byte>(less / 128);
    }
  }
  return at;
}

struct ReadShares {
  RansShares shares{};
  std::vector<std::uint8_t> symbols;
  std::size_t bytes = 0;  // that they took
};

Result<ReadShares> read_shares(std::span<const std::byte> in) {
  if (in.size() < kPresenceBytes) return corrupt_code("truncated in the bitmap of bytes");
  ReadShares read{.symbols = read_presence(in.first<kPresenceBytes>()), .bytes = kPresenceBytes};
  std::uint32_t total = 0;
  for (const std::uint8_t s : read.symbols) {
    if (read.bytes == in.size()) return corrupt_code("truncated in the shares");
    auto less = std::to_integer<std::uint32_t>(in[read.bytes++]);
    if (less >= 128) {
      if (read.bytes == in.size()) return corrupt_code("truncated in the shares");
      less += 128 * std::to_integer<std::uint32_t>(in[read.bytes++]) - 128;
    }
    if (less >= kRansTotal) return corrupt_code("a share exceeds the total");
    read.shares[s] = static_cast<std::uint16_t>(less + 1);
    total += less + 1;
  }
  if (total != kRansTotal) return corrupt_code("the shares do not sum up to the total");
  return read;
}

// For each of the 4096 positions: the byte (8 bits), the offset in its interval (12) and its share
// (12; a single byte needs no table).
using RansTable = std::array<std::uint32_t, kRansTotal>;

void fill_rans_table(const ReadShares& read, RansTable& table) {
  std::uint32_t* at = table.data();
  for (const std::uint8_t s : read.symbols) {
    const std::uint32_t share = read.shares[s];
    const std::uint32_t entry = share << 20 | s;
    for (std::uint32_t i = 0; i < share; ++i) *at++ = entry | i << 8;
  }
}

inline std::uint32_t decode_byte(std::uint32_t x, const std::uint32_t* table, const std::byte*& at,
                                 std::byte& out) {
  const std::uint32_t entry = table[x % kRansTotal];
  out = static_cast<std::byte>(entry);
  x = (entry >> 20) * (x >> kTotalBits) + (entry >> 8) % kRansTotal;
  std::uint16_t word = 0;
  std::memcpy(&word, at, 2);
  // 1 or 0 without a branch, as in encoding.
  const std::uint32_t low = 0 - ((x - kLow) >> 31);
  at += low & 2;
  return x ^ ((x ^ (x << 16 | word)) & low);
}

Result<void> decode_words(std::span<const std::byte> in, const RansTable& table,
                          std::span<std::byte> out) {
  States x;
  for (std::size_t k = 0; k < kRansStreams; ++k) {
    x[k] = wire::load<std::uint32_t>(in, 4 * k);
    if (x[k] < kLow || x[k] >= kLow << 16) return corrupt_code("a state is out of range");
  }
  const std::byte* at = in.data() + kStateBytes;
  const std::byte* const end = in.data() + in.size();
  std::size_t i = 0;
  States fast = x;
  // Each byte needs at most one word.
  for (; out.size() - i >= kRansStreams && end - at >= std::ptrdiff_t{2 * kRansStreams};
       i += kRansStreams) {
    std::byte* const group = out.data() + i;
#pragma GCC unroll 8
    for (std::size_t k = 0; k < kRansStreams; ++k)
      fast[k] = decode_byte(fast[k], table.data(), at, group[k]);
  }
  x = fast;
  for (; i < out.size(); ++i) {
    // Two bytes can be read even at the end; `at` tells whether they were used.
    const auto left = static_cast<std::size_t>(end - at);
    std::array<std::byte, 2> next{};
    std::memcpy(next.data(), at, std::min<std::size_t>(left, 2));
    const std::byte* taken = next.data();
    x[i % kRansStreams] = decode_byte(x[i % kRansStreams], table.data(), taken, out[i]);
    if (taken != next.data()) {
      if (left < 2) return corrupt_code("truncated before the last byte");
      at += 2;
    }
  }
  if (at != end) return corrupt_code("bytes follow the last byte");
  if (std::any_of(x.begin(), x.end(), [](std::uint32_t state) { return state != kLow; }))
    return corrupt_code("the final state is not the initial one");
  return {};
}

}  // namespace

RansShares rans_shares(const ByteCounts& counts) {
  // Bytes with a share below 1 get 1. The others divide the rest, which may make more of them rare.
  RansShares shares{};
  std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  TALLY_CHECK(total > 0);
  std::uint64_t left = kRansTotal;
  for (bool more = true; more;) {
    more = false;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      if (counts[s] == 0 || shares[s] == 1 || counts[s] * left >= total) continue;
      shares[s] = 1;
      total -= counts[s];
      --left;
      more = true;
    }
  }
  // Differences of rounded partial sums have the right total, and are not below 1 where the exact
  // shares are not.
  std::uint64_t sum = 0;
  std::uint64_t given = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] == 0 || shares[s] == 1) continue;
    sum += counts[s];
    const std::uint64_t until = (sum * left + total / 2) / total;
    shares[s] = static_cast<std::uint16_t>(until - given);
    given = until;
  }
  return shares;
}

std::size_t rans_encode(std::span<const std::byte> in, std::span<std::byte> out) {
  const ByteCounts counts = count_bytes(in);
  const RansShares shares = rans_shares(counts);
  const std::vector<std::uint8_t> symbols = present(counts);
  const std::size_t head = write_shares(shares, symbols, out);
  if (head == 0 || symbols.size() == 1) return head;
  // Incompressible input is detected before anything is coded.
  if (least_bytes(counts, shares) > out.size() - head) return 0;
  const std::size_t body = encode_words(in, encoder_table(shares), out.subspan(head));
  if (body == 0) return 0;
  std::memmove(out.data() + head, out.data() + out.size() - body, body);
  return head + body;
}

Result<void> rans_decode(std::span<const std::byte> in, std::span<std::byte> out) {
  TALLY_TRY(const ReadShares read, read_shares(in));
  in = in.subspan(read.bytes);
  if (read.symbols.size() == 1) {
    if (!in.empty()) return corrupt_code("bytes follow the last byte");
    std::fill(out.begin(), out.end(), std::byte{read.symbols.front()});
    return {};
  }
  if (in.size() < kStateBytes) return corrupt_code("truncated in the states");
  RansTable table;
  fill_rans_table(read, table);
  return decode_words(in, table, out);
}

}  // namespace tally::codec
