#include "checkpoint/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "base/errors.h"
#include "checkpoint/json.h"

namespace tally::checkpoint {
namespace {

bool is_utf8(const std::string& text) {
  const auto value = parse_json(json_quoted(text));
  return value && value->get_ref<const std::string&>() == text;
}

// "element 7" or "elements 7 to 9"
std::string elements(std::uint64_t first, std::uint64_t end) {
  return end - first == 1 ? fmt::format("element {}", first)
                          : fmt::format("elements {} to {}", first, end - 1);
}

}  // namespace

Result<std::uint64_t> element_count(const TensorInfo& tensor) {
  // A dimension of zero makes the tensor empty, even if the product of the others would overflow.
  bool empty = false;
  for (const std::int64_t dimension : tensor.shape) {
    if (dimension < 0)
      return invalid(fmt::format("tensor {}: a dimension of {}", tensor.name, dimension));
    empty = empty || dimension == 0;
  }
  if (empty) return std::uint64_t{0};
  std::uint64_t count = 1;
  for (const std::int64_t dimension : tensor.shape) {
    const auto size = static_cast<std::uint64_t>(dimension);
    if (size > kMaxFileBytes / size_of(tensor.type) / count)
      return invalid(fmt::format("tensor {}: more than {} bytes", tensor.name, kMaxFileBytes));
    count *= size;
  }
  return count;
}

std::uint64_t tensor_bytes(const TensorInfo& tensor) {
  const auto count = element_count(tensor);
  TALLY_CHECK(count.has_value());
  return *count * size_of(tensor.type);
}

Result<void> check_range(const std::filesystem::path& path, const TensorInfo& tensor,
                         std::uint64_t first, std::uint64_t bytes) {
  TALLY_TRY(const std::uint64_t count, element_count(tensor));
  const std::uint64_t element_bytes = size_of(tensor.type);
  if (bytes % element_bytes == 0 && first <= count && bytes / element_bytes <= count - first)
    return {};
  return invalid(
      fmt::format("{}: {} bytes from element {} of tensor {}, which has {} elements of {} bytes",
                  path.string(), bytes, first, tensor.name, count, element_bytes));
}

Result<void> check_tensors(std::span<const TensorInfo> tensors) {
  std::unordered_set<std::string_view> names;
  std::uint64_t bytes = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name.empty() || tensor.name.starts_with("__") || !is_utf8(tensor.name))
      return invalid(fmt::format("tensor {}: a name is UTF-8 and does not begin with \"__\"",
                                 json_quoted(tensor.name)));
    if (!names.insert(tensor.name).second)
      return invalid(fmt::format("tensor {}: two have this name", tensor.name));
    TALLY_TRY(const std::uint64_t count, element_count(tensor));
    bytes += count * size_of(tensor.type);
    if (bytes > kMaxFileBytes)
      return invalid(fmt::format("tensors of more than {} bytes", kMaxFileBytes));
  }
  return {};
}

std::vector<Range> ranges_of(std::span<const TensorInfo> tensors, std::span<const Piece> pieces) {
  std::vector<Range> ranges;
  ranges.reserve(pieces.size());
  for (const Piece& piece : pieces)
    ranges.push_back({.tensor = piece.tensor,
                      .first = piece.first,
                      .count = piece.bytes.size() / size_of(tensors[piece.tensor].type)});
  return ranges;
}

// Sorts the ranges by tensor and first element, and walks over each tensor. `covered` is the end of
// the elements seen so far: the next range must begin exactly there, and the last one must end at
// the size of the tensor.
Result<void> check_cover(std::span<const TensorInfo> tensors, std::vector<Range> ranges) {
  std::erase_if(ranges, [](const Range& range) { return range.count == 0; });
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return a.tensor != b.tensor ? a.tensor < b.tensor : a.first < b.first;
  });
  if (!ranges.empty() && ranges.back().tensor >= tensors.size())
    return invalid(fmt::format("rank {}: a piece of tensor number {}, and there are {}",
                               ranges.back().rank, ranges.back().tensor, tensors.size()));
  auto next = ranges.begin();
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const std::string& name = tensors[index].name;
    TALLY_TRY(const std::uint64_t size, element_count(tensors[index]));
    std::uint64_t covered = 0;
    Rank last = kNoRank;
    for (; next != ranges.end() && next->tensor == index; ++next) {
      const std::uint64_t end = next->first + next->count;
      if (next->first > size || next->count > size - next->first)
        return invalid(fmt::format("tensor {}: rank {} has {} of {}", name, next->rank,
                                   elements(next->first, end), size));
      if (next->first > covered)
        return invalid(fmt::format("tensor {}: no rank has {} of {}", name,
                                   elements(covered, next->first), size));
      if (next->first < covered)
        return invalid(fmt::format("tensor {}: rank {} and rank {} both have {}", name, last,
                                   next->rank, elements(next->first, std::min(covered, end))));
      covered = end;
      last = next->rank;
    }
    if (covered < size)
      return invalid(
          fmt::format("tensor {}: no rank has {} of {}", name, elements(covered, size), size));
  }
  return {};
}

}  // namespace tally::checkpoint
