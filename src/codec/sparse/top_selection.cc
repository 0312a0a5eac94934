#include "codec/sparse/top_selection.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "kernel/sparse/residual.h"

namespace tally::codec {
namespace {

using TopSelectionIndices = std::vector<std::uint32_t>;

std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & kernel::kMagnitudeBits;
}

// Samples every hundredth magnitude, but at least 256 of them, or all.
std::vector<std::uint32_t> sample(std::span<const float> values) {
  constexpr std::size_t kLeast = 256;
  const std::size_t wanted = std::max(kLeast, values.size() / 100);
  const std::size_t stride = std::max<std::size_t>(1, values.size() / wanted);
  std::vector<std::uint32_t> magnitudes;
  magnitudes.reserve(values.size() / stride + 1);
  for (std::size_t i = 0; i < values.size(); i += stride)
    magnitudes.push_back(magnitude(values[i]));
  return magnitudes;
}

std::uint32_t rank_th_largest(std::vector<std::uint32_t>& magnitudes, std::size_t rank) {
  const auto at = magnitudes.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(magnitudes.begin(), at, magnitudes.end(), std::greater<>());
  return *at;
}

// Selects the `wanted` largest of `candidates`, or all non-finite ones if these are more.
TopSelectionIndices trimmed(std::span<const float> values, const TopSelectionIndices& candidates,
                            std::size_t wanted) {
  std::vector<std::uint32_t> magnitudes(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i)
    magnitudes[i] = magnitude(values[candidates[i]]);
  const std::uint32_t last = rank_th_largest(magnitudes, wanted);
  // Values with the magnitude `last` may be on both sides of the cut.
  const bool keeps_all = last >= kernel::kInfinityBits;
  const std::uint32_t sure = keeps_all ? kernel::kInfinityBits : last + 1;
  const auto is_sure = [sure](std::uint32_t bits) { return bits >= sure; };
  const auto sure_count = std::count_if(magnitudes.begin(), magnitudes.end(), is_sure);
  std::size_t equal_ones = keeps_all ? 0 : wanted - static_cast<std::size_t>(sure_count);
  TopSelectionIndices kept;
  kept.reserve(static_cast<std::size_t>(sure_count) + equal_ones);
  for (const std::uint32_t index : candidates) {
    const std::uint32_t bits = magnitude(values[index]);
    const bool is_equal = bits == last && equal_ones > 0;
    if (bits < sure && !is_equal) continue;
    if (bits < sure) --equal_ones;
    kept.push_back(index);
  }
  return kept;
}

}  // namespace

std::size_t entries_of(double density, std::size_t count) {
  if (count == 0) return 0;
  const double entries = std::round(density * static_cast<double>(count));
  return std::clamp<std::size_t>(static_cast<std::size_t>(entries), 1, count);
}

// A sampled magnitude is the threshold: about `wanted` values, or somewhat more, are above it. If
// too few are, a lower threshold is tried; after at most log2(sample) tries it is the smallest
// nonzero value. The values above a threshold contain all the largest ones, if they are enough, so
// the sample decides only how many there are to trim.
TopSelectionIndices select_top(std::span<const float> values, std::size_t wanted, Top top) {
  if (values.empty() || wanted == 0) return {};
  const std::size_t least = top == Top::kExact ? wanted : wanted - wanted / 5;
  const std::size_t most = top == Top::kExact ? wanted : wanted + wanted * 3 / 10;
  std::vector<std::uint32_t> magnitudes = sample(values);
  const double above = static_cast<double>(magnitudes.size()) * static_cast<double>(wanted) /
                       static_cast<double>(values.size());
  auto rank = static_cast<std::size_t>(std::ceil(above + std::sqrt(above))) + 1;

  Marks marks;
  std::uint32_t threshold = 0;
  do {
    threshold = rank >= magnitudes.size() ? 1 : rank_th_largest(magnitudes, rank);
    threshold = std::clamp(threshold, std::uint32_t{1}, kernel::kInfinityBits);
    marks = mark_above(values, threshold);
    rank *= 2;
  } while (marks.count < least && threshold > 1);
  TopSelectionIndices candidates = marked_indices(marks);
  return marks.count <= most ? candidates : trimmed(values, candidates, wanted);
}

Marks mark_above(std::span<const float> values, std::uint32_t least) {
  TALLY_CHECK(values.size() <= 0xFFFFFFFFU);
  Marks marks;
  marks.words.resize((values.size() + 63) / 64);
  marks.count =
      kernel::residual_kernels().mark(values.data(), values.size(), least, marks.words.data());
  return marks;
}

TopSelectionIndices marked_indices(const Marks& marks) {
  TopSelectionIndices indices(marks.count);
  std::uint32_t* next = indices.data();
  for (std::size_t w = 0; w < marks.words.size(); ++w) {
    for (std::uint64_t word = marks.words[w]; word != 0; word &= word - 1)
      *next++ = static_cast<std::uint32_t>(64 * w) + static_cast<unsigned>(std::countr_zero(word));
  }
  return indices;
}

}  // namespace tally::codec
