// Coded bytes from a peer: the first byte chooses the coder, two bytes the decoded length. Accepted
// input survives another round of encoding and decoding.
#include <span>
#include <vector>

#include "base/check.h"
#include "codec/entropy/byte_coders.h"
#include "fuzz_entry.h"

namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kHead = 3;

struct Coder {
  std::size_t (*encode)(std::span<const std::byte> in, std::span<std::byte> out);
  tally::Result<void> (*decode)(std::span<const std::byte> in, std::span<std::byte> out);
};
constexpr Coder kCoders[] = {{tally::codec::rans_encode, tally::codec::rans_decode},
                             {tally::codec::huffman_encode, tally::codec::huffman_decode},
                             {tally::codec::zstd_encode, tally::codec::zstd_decode}};

void check_both_ways(const Coder& coder, const Bytes& in) {
  Bytes coded(2 * in.size() + 1000);
  coded.resize(coder.encode(in, coded));
  TALLY_CHECK(!coded.empty());
  Bytes out(in.size());
  TALLY_CHECK(coder.decode(coded, out).has_value() && out == in);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kHead) return 0;
  const Coder& coder = kCoders[data[0] % std::size(kCoders)];
  const auto rest = std::as_bytes(std::span(data, size)).subspan(kHead);
  const Bytes coded(rest.begin(), rest.end());
  Bytes out(data[1] + 256U * data[2]);
  const auto decoded = coder.decode(coded, out);
  TALLY_CHECK(decoded || decoded.error().code == tally::ErrorCode::kCorrupt);
  if (decoded && !out.empty()) check_both_ways(coder, out);
  if (!coded.empty()) check_both_ways(coder, coded);
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  std::vector<std::vector<std::uint8_t>> seeds;
  for (std::size_t c = 0; c < std::size(kCoders); ++c) {
    for (const std::size_t count : {1U, 10U, 500U, 5000U}) {
      for (const std::size_t symbols : {1U, 3U, 200U}) {
        Bytes in(count);
        for (std::size_t i = 0; i < count; ++i)
          in[i] = static_cast<std::byte>(i * i % symbols * (i % 3));
        Bytes coded(2 * count + 1000);
        coded.resize(kCoders[c].encode(in, coded));
        std::vector<std::uint8_t> seed = {static_cast<std::uint8_t>(c),
                                          static_cast<std::uint8_t>(count),
                                          static_cast<std::uint8_t>(count >> 8)};
        for (const std::byte byte : coded) seed.push_back(static_cast<std::uint8_t>(byte));
        seeds.push_back(seed);
      }
    }
  }
  return seeds;
}
