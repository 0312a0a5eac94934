#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/file_io.h"
#include "checkpoint/safetensors.h"

namespace tally::checkpoint {

struct OpenedHeader {
  std::vector<Entry> entries;     // ordered by offset
  std::uint64_t data_offset = 0;  // offset of the tensor data in the file
};

// Reads and checks the header of a safetensors file. kCorrupt, with the path, if the header is
// invalid.
Result<OpenedHeader> read_header(const File& file, const std::filesystem::path& path);

}  // namespace tally::checkpoint
