#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::data {

using Bytes = std::vector<std::byte>;

// Larger ones are refused, packed or unpacked: readers hold a file in memory.
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 34;

// All of a file, unpacked if it is gzip. kSystem, with what to do, if it is not there or cannot be
// read; kCorrupt if it is broken gzip; kExhausted if it is larger than `max_bytes`.
Result<Bytes> read_file(const std::filesystem::path& path, std::uint64_t max_bytes = kMaxFileBytes);

// Up to `count` bytes from its beginning, likewise; a broken rest is not noticed.
Result<std::string> first_bytes(const std::filesystem::path& path, std::size_t count);

// The content of a gzip file; several behind each other are one. kCorrupt, kExhausted as above.
Result<Bytes> unpack_gzip(std::span<const std::byte> packed, const std::string& name,
                          std::uint64_t max_bytes);

bool is_gzip(std::span<const std::byte> bytes);

// The 32 bits at `offset`, highest byte first.
std::uint32_t big_endian(std::span<const std::byte> bytes, std::size_t offset);

// kCorrupt: "FILE: offset N: expected ..., found ...". Of a packed file, the offset in what it
// unpacks to.
Error corrupt(const std::string& file, std::uint64_t offset, std::string_view expected,
              std::string_view found);

}  // namespace tally::data
