#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

// Single safetensors files of float32, such as recorded gradients: no checkpoints, which are
// folders.
namespace tally::checkpoint {

struct FloatTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // {}: one number
  std::vector<float> values;        // row-major, as many as the shape says
};

// Writes the file whole or not at all, in place of one that is there. `format` is what its header
// says of who wrote it. kInvalid for names or shapes that cannot be, kSystem with the path and the
// system's reason.
Result<void> write_float_tensors(const std::filesystem::path& path,
                                 std::span<const FloatTensor> tensors, std::string_view format);

// All tensors, by their place in the file. kCorrupt if it is no such file, or has other than
// float32; kInvalid if it has more than `max_bytes` of them.
Result<std::vector<FloatTensor>> read_float_tensors(const std::filesystem::path& path,
                                                    std::uint64_t max_bytes);

}  // namespace tally::checkpoint
