#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace tally::kernel {

// CRC32C (Castagnoli) of `bytes`, continuing from `crc`: crc32c(b, crc32c(a)) == crc32c(a + b).
// Uses the processor's instruction where it has one.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);

// One byte at a time from a table, for tests to compare with.
std::uint32_t crc32c_reference(std::span<const std::byte> bytes, std::uint32_t crc = 0);

// crc32c(a + b) from crc32c(a), crc32c(b) and the length of b, without the bytes.
std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

// Whether crc32c() uses an instruction of this processor.
bool crc32c_is_accelerated();

}  // namespace tally::kernel
