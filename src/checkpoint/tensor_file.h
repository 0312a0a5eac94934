#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

// Single safetensors files of float32, such as recorded gradients. (A checkpoint is a folder.)
namespace tally::checkpoint {

struct FloatTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // {}: a scalar
  std::vector<float> values;        // row-major; their number matches the shape
};

// Writes the file atomically and replaces an existing one. `format` names the writer in the header.
// kInvalid for invalid names or shapes; kSystem, with the path and the reason, if the system
// refuses.
Result<void> write_float_tensors(const std::filesystem::path& path,
                                 std::span<const FloatTensor> tensors, std::string_view format);

// Reads all tensors, ordered by offset. kCorrupt if the file is no safetensors file or has a type
// other than float32; kInvalid if it is larger than `max_bytes`.
Result<std::vector<FloatTensor>> read_float_tensors(const std::filesystem::path& path,
                                                    std::uint64_t max_bytes);

}  // namespace tally::checkpoint
