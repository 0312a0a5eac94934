#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/counter_random.h"
#include "tally/error.h"

namespace tally::codec {

// The encodings of sparse codecs: some of a run's values with their indices. Little-endian, after a
// first byte with the form:
//
//   0  dense   all values as float32, zero where nothing is sent
//   1  gaps    u8 Rice parameter, u32 entries, the entries as float32, their indices as gaps
//   2  drawn   u32 low and u32 high word of a key, u32 turn, u32 entries, the entries as float32;
//              the indices are drawn_indices()
//
// Every writer takes the dense form where that is not larger, so no encoding is larger than
// dense_bytes().

inline constexpr std::size_t kGapsHeader = 6;
inline constexpr std::size_t kDrawnHeader = 17;

constexpr std::size_t dense_bytes(std::size_t count) { return 1 + 4 * count; }

// Writes the values at ascending `indices`, in the gaps or the dense form; `out` has
// dense_bytes(values.size()) bytes. Returns the bytes used.
std::size_t write_sparse(std::span<const float> values, std::span<const std::uint32_t> indices,
                         std::span<std::byte> out);

// Writes all values in the dense form.
std::size_t write_all(std::span<const float> values, std::span<std::byte> out);

// Turns of drawing indices: the key gives all of them their order.
struct Turn {
  kernel::RandomKey key;
  std::uint32_t number = 0;
};
// `entries` distinct ascending indices below `count`; entries <= count < 2^32. The ring of indices
// is cut at a random offset into `entries` arcs whose lengths differ by at most one, and one index
// of each arc is drawn: a random one in turn 0, and the next one of the ring of this arc in each
// later turn. Every index is so drawn once in as many turns as its arc is long.
std::vector<std::uint32_t> drawn_indices(const Turn& turn, std::size_t count, std::size_t entries);

// As write_sparse(), in the drawn or the dense form: `drawn` is drawn_indices() of the turn. Values
// are multiplied by `factor`.
std::size_t write_drawn(std::span<const float> values, const Turn& turn,
                        std::span<const std::uint32_t> drawn, float factor,
                        std::span<std::byte> out);

// Codec::read() for all three forms.
Result<void> read_sparse(std::span<const std::byte> bytes, const float* weight,
                         std::span<float> out);

}  // namespace tally::codec
