#include "codec/sparse/drawn_indices.h"

#include <algorithm>

#include "base/check.h"

namespace tally::codec {
namespace {

// Uniform below `bound`, which is below 2^32.
std::uint64_t below(std::uint32_t bits, std::uint64_t bound) { return (bits * bound) >> 32; }

}  // namespace

std::vector<std::uint32_t> drawn_indices(kernel::RandomKey key, std::size_t count,
                                         std::size_t entries) {
  TALLY_CHECK(entries <= count && count <= 0xFFFFFFFFU);
  std::vector<std::uint32_t> indices(entries);
  if (entries == 0) return indices;
  const std::uint64_t shorter = count / entries;
  const std::uint64_t longer_arcs = count % entries;
  // Arc i uses random number i; the offset uses the next one.
  const auto behind = static_cast<std::uint32_t>(entries);
  std::uint64_t arc = below(kernel::random_bits(key, behind), count);
  // Longer arcs are spread evenly: `due` grows by longer_arcs / entries per arc.
  std::uint64_t due = 0;
  std::size_t wrapped_from = entries;
  for (std::size_t i = 0; i < entries; ++i) {
    due += longer_arcs;
    const bool is_longer = due >= entries;
    if (is_longer) due -= entries;
    const std::uint64_t length = shorter + (is_longer ? 1 : 0);
    const std::uint64_t at =
        arc + below(kernel::random_bits(key, static_cast<std::uint32_t>(i)), length);
    if (at >= count && wrapped_from == entries) wrapped_from = i;
    indices[i] = static_cast<std::uint32_t>(at >= count ? at - count : at);
    arc += length;
  }
  // Indices that have wrapped around are below the others.
  std::rotate(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(wrapped_from),
              indices.end());
  return indices;
}

}  // namespace tally::codec
