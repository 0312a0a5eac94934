#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/file_io.h"
#include "checkpoint/safetensors.h"

namespace tally::checkpoint {

struct OpenedHeader {
  std::vector<Entry> entries;     // by their place
  std::uint64_t data_offset = 0;  // of the file
};

// What a safetensors file says that it has. kCorrupt with the path if that cannot be.
Result<OpenedHeader> read_header(const File& file, const std::filesystem::path& path);

}  // namespace tally::checkpoint
