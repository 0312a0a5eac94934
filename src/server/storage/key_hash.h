#pragma once
#include <cstdint>

namespace tally::server {

// SplitMix64's finisher (Steele, Lea, Flood 2014), on every machine the same: the lower half of the
// bits says which part a key is in, the upper half where in its table, so that the keys of one part
// do not crowd.
constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}
constexpr std::uint64_t hash_of_key(std::uint64_t key) { return mix(key + 0x9E3779B97F4A7C15ULL); }

constexpr std::uint32_t part_of_hash(std::uint64_t hash, std::uint32_t parts) {
  return static_cast<std::uint32_t>(((hash & 0xFFFFFFFFULL) * parts) >> 32);
}

}  // namespace tally::server
