#include "codec/lowrank/factors.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "kernel/lowrank/factor.h"
#include "wire/little_endian.h"

namespace tally::codec {
namespace {

static_assert(std::endian::native == std::endian::little, "floats are stored as they are");
constexpr std::size_t kMostFactorRank = 64;
constexpr std::size_t kHeaderBytes = 4;

// Both factors in the bytes.
struct Loaded {
  const std::byte* left;
  const std::byte* right;
  std::size_t rows, columns, rank;

  // Rows [first, first + count) of a factor whose columns have `stride` values.
  std::vector<float> part(const std::byte* factor, std::size_t stride, std::size_t first,
                          std::size_t count) const {
    std::vector<float> values(count * rank);
    for (std::size_t k = 0; k < rank; ++k)
      std::memcpy(&values[k * count], factor + (k * stride + first) * sizeof(float),
                  count * sizeof(float));
    return values;
  }

  // The product for `width` columns from `begin` on.
  void multiply(RowRange range, std::size_t begin, std::size_t width, float* out) const {
    if (range.count == 0 || width == 0) return;
    const std::vector<float> some_left = part(left, rows, range.first, range.count);
    const std::vector<float> some_right = part(right, columns, begin, width);
    kernel::factor_kernels().multiply({range.count, width, rank}, some_left.data(),
                                      some_right.data(), out, nullptr);
  }
};

}  // namespace

RowRange rows_of(const FactorRun& run) {
  TALLY_CHECK(run.columns > 0 && run.count > 0);
  const std::size_t first = run.first / run.columns;
  const std::size_t last = (run.first + run.count - 1) / run.columns;
  return {.first = first, .count = last - first + 1};
}

std::size_t factor_bytes(const FactorRun& run, std::size_t rank) {
  return kHeaderBytes + (rows_of(run).count + run.columns) * rank * sizeof(float);
}

void encode_factors(const Factors& factors, const FactorRun& run, std::span<std::byte> out) {
  const RowRange rows = rows_of(run);
  TALLY_CHECK(factors.rank >= 1 && factors.rank <= kMostFactorRank);
  TALLY_CHECK(rows.first + rows.count <= factors.rows);
  TALLY_CHECK(factors.left.size() == factors.rows * factors.rank);
  TALLY_CHECK(factors.right.size() == run.columns * factors.rank);
  TALLY_CHECK(out.size() == factor_bytes(run, factors.rank));
  wire::store(out, 0, static_cast<std::uint32_t>(factors.rank));
  std::byte* at = out.data() + kHeaderBytes;
  for (std::size_t k = 0; k < factors.rank; ++k, at += rows.count * sizeof(float))
    std::memcpy(at, &factors.left[k * factors.rows + rows.first], rows.count * sizeof(float));
  std::memcpy(at, factors.right.data(), factors.right.size_bytes());
}

Result<void> decode_factors(std::span<const std::byte> bytes, const FactorRun& run,
                            std::span<float> out) {
  TALLY_CHECK(out.size() == run.count);
  if (bytes.size() < kHeaderBytes) return corrupt("factors without a rank");
  const std::size_t rank = wire::load<std::uint32_t>(bytes, 0);
  if (rank < 1 || rank > kMostFactorRank)
    return corrupt(
        fmt::format("factors of rank {}, which is not from 1 to {}", rank, kMostFactorRank));
  if (bytes.size() != factor_bytes(run, rank)) {
    return corrupt(fmt::format("factors of rank {} for {} values have {} bytes instead of {}", rank,
                               run.count, bytes.size(), factor_bytes(run, rank)));
  }
  const std::size_t rows = rows_of(run).count;
  const std::byte* const left = bytes.data() + kHeaderBytes;
  const Loaded loaded{left, left + rows * rank * sizeof(float), rows, run.columns, rank};
  // The run is the end of a first row, whole rows, and the beginning of a last row.
  const std::size_t begin = run.first % run.columns;
  const std::size_t head = begin == 0 ? std::size_t{0} : std::min(run.count, run.columns - begin);
  const std::size_t whole = (run.count - head) / run.columns;
  const std::size_t tail = (run.count - head) % run.columns;
  const std::size_t before = head > 0 ? 1 : 0;
  loaded.multiply({0, before}, begin, head, out.data());
  loaded.multiply({before, whole}, 0, run.columns, out.data() + head);
  loaded.multiply({before + whole, tail > 0 ? std::size_t{1} : 0}, 0, tail,
                  out.data() + run.count - tail);
  return {};
}

}  // namespace tally::codec
