#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tally/communicator.h"

namespace tally {

// The counts of all ranks in one number, in place of the count of an operation with equal parts:
// bit 63, 23 bits of a hash of the counts, and 40 bits of their sum. Counts that differ have
// different sums or, almost always, different hashes.
std::uint64_t pack_counts(std::span<const std::size_t> counts);
// The counts of kAllToAll, which differ between ranks.
inline constexpr std::uint64_t kCountsByRank = ~std::uint64_t{0};

// A number that is equal on all ranks that issue the same request: its count, or packed counts.
std::uint64_t count_of(const Request& request);

struct PartCounts {
  std::optional<std::uint64_t> sum;  // none: unknown or at least 2^40 - 1
  std::uint32_t hash = 0;
};
// Nothing if `count` is an ordinary count.
std::optional<PartCounts> unpack_counts(std::uint64_t count);

}  // namespace tally
