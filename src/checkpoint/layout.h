#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tally/checkpoint.h"

namespace tally::checkpoint {

// Of a file, and so of a tensor.
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 60;

// kInvalid if a dimension is negative or the tensor has more bytes than a file can.
Result<std::uint64_t> element_count(const TensorInfo& tensor);

// kInvalid unless each tensor has a name of its own, in UTF-8 and not beginning with "__", and a
// size that can be.
Result<void> check_tensors(std::span<const TensorInfo> tensors);

// Elements of one tensor that one rank has.
struct Range {
  std::size_t tensor = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  Rank rank = 0;
};

// kInvalid unless the ranges cover every tensor exactly once: names the tensor and what is missing,
// twice there or beyond its end. The tensors have passed check_tensors().
Result<void> check_cover(std::span<const TensorInfo> tensors, std::vector<Range> ranges);

}  // namespace tally::checkpoint
