#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "tally/checkpoint.h"

namespace tally::checkpoint {

// Limit of a file, and therefore of all its tensors.
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 60;

// Number of elements. kInvalid if a dimension is negative or the tensor has more than
// kMaxFileBytes.
Result<std::uint64_t> element_count(const TensorInfo& tensor);

// Of a tensor whose element_count() is no error.
std::uint64_t tensor_bytes(const TensorInfo& tensor);

// kInvalid, with the path, unless `bytes` is a whole number of elements that the tensor has from
// element `first` on.
Result<void> check_range(const std::filesystem::path& path, const TensorInfo& tensor,
                         std::uint64_t first, std::uint64_t bytes);

// kInvalid unless each tensor has a unique, non-empty name in UTF-8 that does not begin with "__",
// and all tensors together have at most kMaxFileBytes.
Result<void> check_tensors(std::span<const TensorInfo> tensors);

// Elements [first, first + count) of one tensor, held by one rank.
struct Range {
  std::size_t tensor = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  Rank rank = 0;
};

// The element ranges of the pieces, each of which has a whole number of elements.
std::vector<Range> ranges_of(std::span<const TensorInfo> tensors, std::span<const Piece> pieces);

// kInvalid unless the ranges cover every tensor exactly once. The error names the tensor and the
// elements that are missing, duplicate or out of range. The tensors have passed check_tensors().
Result<void> check_cover(std::span<const TensorInfo> tensors, std::vector<Range> ranges);

}  // namespace tally::checkpoint
