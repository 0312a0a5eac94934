#include "base/part_counts.h"

#include <algorithm>
#include <numeric>

namespace tally {
namespace {

constexpr std::uint64_t kIsPacked = std::uint64_t{1} << 63;
constexpr int kSumBits = 40;
constexpr std::uint64_t kMaxSum = (std::uint64_t{1} << kSumBits) - 1;
constexpr std::uint64_t kMaxHash = (std::uint64_t{1} << 23) - 1;

}  // namespace

std::uint64_t pack_counts(std::span<const std::size_t> counts) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a over the counts
  for (const std::size_t count : counts) hash = (hash ^ count) * 0x100000001B3ULL;
  const std::uint64_t sum = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  return kIsPacked | ((hash >> 41) & kMaxHash) << kSumBits | std::min(sum, kMaxSum);
}

std::uint64_t count_of(const Request& request) {
  if (request.counts.empty()) return request.count;
  return request.operation == Operation::kAllToAll ? kCountsByRank : pack_counts(request.counts);
}

std::optional<PartCounts> unpack_counts(std::uint64_t count) {
  if ((count & kIsPacked) == 0) return std::nullopt;
  PartCounts parts{.sum = std::nullopt,
                   .hash = static_cast<std::uint32_t>(count >> kSumBits & kMaxHash)};
  if ((count & kMaxSum) != kMaxSum) parts.sum = count & kMaxSum;
  return parts;
}

}  // namespace tally
