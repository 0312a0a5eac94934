#include "codec/lowrank/factors.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "kernel/lowrank/factor.h"
#include "wire/little_endian.h"

namespace tally::codec {
namespace {

constexpr std::size_t kMostRank = 64;
constexpr std::size_t kHeaderBytes = 4;

void store_floats(const float* values, std::size_t count, std::byte* out) {
  for (std::size_t i = 0; i < count; ++i)
    wire::store({out + i * 4, 4}, 0, std::bit_cast<std::uint32_t>(values[i]));
}

Error corrupt(std::string message) {
  return {.code = ErrorCode::kCorrupt, .message = std::move(message)};
}

// Both factors as they lie in the bytes.
struct Loaded {
  const std::byte* left;
  const std::byte* right;
  std::size_t rows, columns, rank;

  // A part of each column of a factor whose columns have `stride` values.
  std::vector<float> part(const std::byte* factor, std::size_t stride, std::size_t first,
                          std::size_t count) const {
    std::vector<float> values(count * rank);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t at = i / count * stride + first + i % count;
      values[i] = std::bit_cast<float>(wire::load<std::uint32_t>({factor + at * 4, 4}, 0));
    }
    return values;
  }

  // `width` values of each row from column `begin` on.
  void multiply(RowRange range, std::size_t begin, std::size_t width, float* out) const {
    if (range.count == 0 || width == 0) return;
    const std::vector<float> some_left = part(left, rows, range.first, range.count);
    const std::vector<float> some_right = part(right, columns, begin, width);
    kernel::factor_kernels().multiply({range.count, width, rank}, some_left.data(),
                                      some_right.data(), out, nullptr);
  }
};

}  // namespace

RowRange rows_of(const FactorPlace& place) {
  TALLY_CHECK(place.columns > 0 && place.count > 0);
  const std::size_t first = place.first / place.columns;
  const std::size_t last = (place.first + place.count - 1) / place.columns;
  return {.first = first, .count = last - first + 1};
}

std::size_t factor_bytes(const FactorPlace& place, std::size_t rank) {
  return kHeaderBytes + (rows_of(place).count + place.columns) * rank * sizeof(float);
}

void encode_factors(const Factors& factors, const FactorPlace& place, std::span<std::byte> out) {
  const RowRange rows = rows_of(place);
  TALLY_CHECK(factors.rank >= 1 && factors.rank <= kMostRank);
  TALLY_CHECK(rows.first + rows.count <= factors.rows);
  TALLY_CHECK(factors.left.size() == factors.rows * factors.rank);
  TALLY_CHECK(factors.right.size() == place.columns * factors.rank);
  TALLY_CHECK(out.size() == factor_bytes(place, factors.rank));
  wire::store(out, 0, static_cast<std::uint32_t>(factors.rank));
  std::byte* at = out.data() + kHeaderBytes;
  for (std::size_t k = 0; k < factors.rank; ++k, at += rows.count * sizeof(float))
    store_floats(factors.left.data() + k * factors.rows + rows.first, rows.count, at);
  store_floats(factors.right.data(), factors.right.size(), at);
}

Result<void> decode_factors(std::span<const std::byte> bytes, const FactorPlace& place,
                            std::span<float> out) {
  TALLY_CHECK(out.size() == place.count);
  if (bytes.size() < kHeaderBytes) return corrupt("factors without a rank");
  const std::size_t rank = wire::load<std::uint32_t>(bytes, 0);
  if (rank < 1 || rank > kMostRank)
    return corrupt(fmt::format("factors of rank {}, which is not from 1 to {}", rank, kMostRank));
  if (bytes.size() != factor_bytes(place, rank)) {
    return corrupt(fmt::format("factors of rank {} for {} values have {} bytes instead of {}", rank,
                               place.count, bytes.size(), factor_bytes(place, rank)));
  }
  const std::size_t rows = rows_of(place).count;
  const std::byte* const left = bytes.data() + kHeaderBytes;
  const Loaded loaded{left, left + rows * rank * sizeof(float), rows, place.columns, rank};
  // The rest of a first row, whole rows, the beginning of a last one.
  const std::size_t begin = place.first % place.columns;
  const std::size_t head =
      begin == 0 ? std::size_t{0} : std::min(place.count, place.columns - begin);
  const std::size_t whole = (place.count - head) / place.columns;
  const std::size_t tail = (place.count - head) % place.columns;
  const std::size_t before = head > 0 ? 1 : 0;
  loaded.multiply({0, before}, begin, head, out.data());
  loaded.multiply({before, whole}, 0, place.columns, out.data() + head);
  loaded.multiply({before + whole, tail > 0 ? std::size_t{1} : 0}, 0, tail,
                  out.data() + place.count - tail);
  return {};
}

}  // namespace tally::codec
