#pragma once
#include <filesystem>
#include <memory>

#include "tally/checkpoint.h"

namespace tally::checkpoint {

// A Reader of one safetensors file without a manifest, such as Python's save_file() writes: step 0,
// one rank, tensors in the order of their offsets, no optimizer state. The file stays open, so a
// file that replaces it does not disturb the reader. kCorrupt, with the path, if the file is no
// valid safetensors file.
Result<std::unique_ptr<Reader>> open_weights_file(const std::filesystem::path& path);

}  // namespace tally::checkpoint
