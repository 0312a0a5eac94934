#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "policy/rules.h"
#include "tally/error.h"
#include "tally/server.h"

namespace tally::server {

// The finisher of SplitMix64 (Steele, Lea, Flood 2014), the same on every machine. The lower half
// of the bits selects the part of a key, the upper half its place in the part's hash table.
constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}
constexpr std::uint64_t hash_of_key(std::uint64_t key) { return mix(key + 0x9E3779B97F4A7C15ULL); }

constexpr std::uint32_t part_of_hash(std::uint64_t hash, std::uint32_t parts) {
  return static_cast<std::uint32_t>(((hash & 0xFFFFFFFFULL) * parts) >> 32);
}

// How a table is cut into parts. Dense: kPartBytes each, the last may be shorter. Sparse: by a hash
// of the key.
std::uint32_t parts_of(const TableSpec& spec, std::uint32_t slots);
std::size_t elements_of(const TableSpec& spec, std::uint32_t part);          // dense
inline std::size_t value_bytes(const TableSpec& spec, std::uint32_t part) {  // dense
  return elements_of(spec, part) * size_of(spec.type);
}
std::uint32_t part_of_key(std::uint64_t key, std::uint32_t parts);  // sparse

// The rules of the table's plan; kInvalid for a wrong one.
Result<policy::Rules> rules_of(const TableSpec& spec);

// kInvalid, with the reason, if there can be no such table. make_table_config() checks the plan.
Result<void> check(const TableSpec& spec);
// encode() needs a spec that passes check(). decode_spec() is kCorrupt for bytes that encode() does
// not write.
std::vector<std::byte> encode(const TableSpec& spec);
Result<TableSpec> decode_spec(std::span<const std::byte> bytes);

// "table 'NAME' part 3".
std::string name_of_part(const TableSpec& spec, std::uint32_t part);

}  // namespace tally::server
