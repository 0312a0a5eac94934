#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tally/checkpoint.h"
#include "tally/error.h"

// Single safetensors files, such as exported weights and recorded gradients. (A checkpoint is a
// folder.)
namespace tally::checkpoint {

// Writes the file atomically and replaces an existing one. `fill` writes every element of every
// tensor through its argument, in any order and in ranges that need not fit into memory together.
// `format` names the writer in the header. kInvalid for invalid names or shapes; kSystem, with the
// path and the reason, if the system refuses; errors of `fill` as they are.
using WriteRange = std::function<Result<void>(std::size_t tensor, std::uint64_t first_element,
                                              std::span<const std::byte> bytes)>;
Result<void> write_tensors(const std::filesystem::path& path, std::span<const TensorInfo> tensors,
                           std::string_view format,
                           const std::function<Result<void>(const WriteRange&)>& fill);

struct FloatTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // {}: a scalar
  std::vector<float> values;        // row-major; their number matches the shape
};

// The same for tensors in memory.
Result<void> write_float_tensors(const std::filesystem::path& path,
                                 std::span<const FloatTensor> tensors, std::string_view format);

// Reads all tensors, ordered by offset. kCorrupt if the file is no safetensors file or has a type
// other than float32; kInvalid if it is larger than `max_bytes`.
Result<std::vector<FloatTensor>> read_float_tensors(const std::filesystem::path& path,
                                                    std::uint64_t max_bytes);

}  // namespace tally::checkpoint
