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

// Limit of a file, compressed or not: readers hold the whole file in memory.
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 34;

struct ReadLimits {
  std::uint64_t max_bytes = kMaxFileBytes;
  // Processes of this host that hold the content at the same time: they share its memory.
  int readers = 1;
};

// Reads a whole file and decompresses gzip. kSystem, with a remedy, if the file is missing or
// cannot be read; kInvalid if it is not a regular file, such as a pipe, which could make the caller
// wait forever; kCorrupt for damaged gzip; kExhausted if the content is larger than the limit, than
// a third of this reader's share of the usable memory, or than gzip plausibly packs into a file of
// that size.
Result<Bytes> read_file(const std::filesystem::path& path, const ReadLimits& limits = {});

// A share of the memory as errors name it: "half of the usable memory", or "half of the memory that
// each of 8 workers on this host may use: fewer workers need less".
std::string memory_share_text(const char* share, int readers);

// Reads up to `count` bytes from the beginning in the same way; damage after them is not detected.
Result<std::string> first_bytes(const std::filesystem::path& path, std::size_t count);

// Decompresses gzip; concatenated members form one content. kCorrupt and kExhausted as above.
Result<Bytes> unpack_gzip(std::span<const std::byte> packed, const std::string& name,
                          const ReadLimits& limits);

bool is_gzip(std::span<const std::byte> bytes);

// The big-endian 32-bit number at `offset`.
std::uint32_t big_endian(std::span<const std::byte> bytes, std::size_t offset);

// A file in memory; messages use its name.
struct NamedBytes {
  std::span<const std::byte> bytes;
  std::string name;
};

// kCorrupt: "FILE: offset N: expected ..., found ...". For a compressed file the offset is in the
// decompressed content.
Error corrupt(const std::string& file, std::uint64_t offset, std::string_view expected,
              std::string_view found);

// The same for files of lines: "FILE: line N: expected ..., found ...", where line N of `bytes`
// contains `offset`.
Error bad_line(std::span<const std::byte> bytes, const std::string& name, std::uint64_t offset,
               std::string_view expected, std::string_view found);

}  // namespace tally::data
