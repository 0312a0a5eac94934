#include "codec/sparse/sparse_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/errors.h"
#include "codec/entropy/rice.h"
#include "wire/little_endian.h"

namespace tally::codec {
namespace {

static_assert(std::endian::native == std::endian::little, "floats are stored as they are");

enum class Form : std::uint8_t { kDense = 0, kGaps = 1, kDrawn = 2 };

// Uniform below `bound`, which is below 2^32.
std::uint64_t below(std::uint32_t bits, std::uint64_t bound) { return (bits * bound) >> 32; }

float load_float(const std::byte* from) {
  float value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}
void store_float(std::byte* to, float value) { std::memcpy(to, &value, sizeof value); }

void store_values(std::span<const float> values, std::span<const std::uint32_t> indices,
                  std::byte* to, float factor = 1) {
  for (const std::uint32_t index : indices) {
    store_float(to, factor * values[index]);
    to += 4;
  }
}

std::size_t write_dense(std::span<const float> values, std::span<const std::uint32_t> indices,
                        std::span<std::byte> out, float factor = 1) {
  out[0] = static_cast<std::byte>(Form::kDense);
  std::byte* const to = out.data() + 1;
  std::fill_n(to, 4 * values.size(), std::byte{0});
  for (const std::uint32_t index : indices)
    store_float(to + 4 * std::size_t{index}, factor * values[index]);
  return dense_bytes(values.size());
}

// Calls take(index, value) for each entry of the gaps form.
template <typename Take>
Result<void> each_by_gaps(std::span<const std::byte> bytes, std::size_t count, Take take) {
  if (bytes.size() < kGapsHeader) return corrupt("sparse values: no header");
  const auto parameter = std::to_integer<unsigned>(bytes[1]);
  const std::size_t entries = wire::load<std::uint32_t>(bytes, 2);
  if (parameter > kMaxRice || entries > count || (bytes.size() - kGapsHeader) / 4 < entries)
    return corrupt(fmt::format("{} of {} values with gaps by {} bits in {} bytes", entries, count,
                               parameter, bytes.size()));
  const std::byte* value = bytes.data() + kGapsHeader;
  GapReader gaps(bytes.subspan(kGapsHeader + 4 * entries), parameter, count);
  // Decodes several indices before it uses them: the values may be far apart in memory, and their
  // cache misses then overlap.
  std::array<std::size_t, 128> indices;
  for (std::size_t done = 0; done < entries;) {
    const std::size_t some = std::min(indices.size(), entries - done);
    for (std::size_t i = 0; i < some; ++i)
      if (!gaps.next(indices[i])) return corrupt("sparse values: an index is missing");
    for (std::size_t i = 0; i < some; ++i, value += 4) take(indices[i], load_float(value));
    done += some;
  }
  if (!gaps.at_end()) return corrupt("sparse values: bytes follow the last index");
  return {};
}

template <typename Take>
Result<void> each_drawn(std::span<const std::byte> bytes, std::size_t count, Take take) {
  if (bytes.size() < kDrawnHeader) return corrupt("drawn values: no header");
  const Turn turn{.key = {.low = wire::load<std::uint32_t>(bytes, 1),
                          .high = wire::load<std::uint32_t>(bytes, 5)},
                  .number = wire::load<std::uint32_t>(bytes, 9)};
  const std::size_t entries = wire::load<std::uint32_t>(bytes, 13);
  if (entries > count || bytes.size() != kDrawnHeader + 4 * entries)
    return corrupt(fmt::format("{} of {} values drawn in {} bytes", entries, count, bytes.size()));
  const std::byte* value = bytes.data() + kDrawnHeader;
  for (const std::uint32_t index : drawn_indices(turn, count, entries)) {
    take(std::size_t{index}, load_float(value));
    value += 4;
  }
  return {};
}

template <typename Take>
Result<void> each_dense(std::span<const std::byte> bytes, std::size_t count, Take take) {
  if (bytes.size() != dense_bytes(count))
    return corrupt(fmt::format("{} values in {} bytes", count, bytes.size()));
  const std::byte* value = bytes.data() + 1;
  for (std::size_t i = 0; i < count; ++i, value += 4) take(i, load_float(value));
  return {};
}

template <typename Take>
Result<void> each(std::span<const std::byte> bytes, std::size_t count, Take take) {
  if (bytes.empty()) return corrupt("sparse values: no bytes");
  switch (static_cast<Form>(bytes[0])) {
    case Form::kDense:
      return each_dense(bytes, count, take);
    case Form::kGaps:
      return each_by_gaps(bytes, count, take);
    case Form::kDrawn:
      return each_drawn(bytes, count, take);
  }
  return corrupt(fmt::format("sparse values: form {}", std::to_integer<int>(bytes[0])));
}

}  // namespace

std::vector<std::uint32_t> drawn_indices(const Turn& turn, std::size_t count, std::size_t entries) {
  TALLY_CHECK(entries <= count && count <= 0xFFFFFFFFU);
  std::vector<std::uint32_t> indices(entries);
  if (entries == 0) return indices;
  const std::uint64_t shorter = count / entries;
  const std::uint64_t longer_arcs = count % entries;
  // Arc i uses random number i; the offset uses the next one.
  const auto behind = static_cast<std::uint32_t>(entries);
  std::uint64_t arc = below(kernel::random_bits(turn.key, behind), count);
  // Longer arcs are spread evenly: `due` grows by longer_arcs / entries per arc.
  std::uint64_t due = 0;
  std::size_t wrapped_from = entries;
  for (std::size_t i = 0; i < entries; ++i) {
    due += longer_arcs;
    const bool is_longer = due >= entries;
    if (is_longer) due -= entries;
    const std::uint64_t length = shorter + (is_longer ? 1 : 0);
    const std::uint64_t begin =
        below(kernel::random_bits(turn.key, static_cast<std::uint32_t>(i)), length);
    const std::uint64_t at = arc + (begin + turn.number) % length;
    if (at >= count && wrapped_from == entries) wrapped_from = i;
    indices[i] = static_cast<std::uint32_t>(at >= count ? at - count : at);
    arc += length;
  }
  // Indices that have wrapped around are below the others.
  std::rotate(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(wrapped_from),
              indices.end());
  return indices;
}

std::size_t write_sparse(std::span<const float> values, std::span<const std::uint32_t> indices,
                         std::span<std::byte> out) {
  const std::size_t with_gaps = kGapsHeader + 4 * indices.size();
  TALLY_CHECK(out.size() >= dense_bytes(values.size()));
  if (with_gaps >= dense_bytes(values.size())) return write_dense(values, indices, out);
  const RiceCode code = choose_rice(indices);
  const std::size_t size = with_gaps + code.bytes();
  if (size >= dense_bytes(values.size())) return write_dense(values, indices, out);

  out[0] = static_cast<std::byte>(Form::kGaps);
  out[1] = static_cast<std::byte>(code.parameter);
  wire::store(out, 2, static_cast<std::uint32_t>(indices.size()));
  store_values(values, indices, out.data() + kGapsHeader);
  write_gaps(code, indices, out.subspan(with_gaps));
  return size;
}

std::size_t write_all(std::span<const float> values, std::span<std::byte> out) {
  TALLY_CHECK(out.size() >= dense_bytes(values.size()));
  out[0] = static_cast<std::byte>(Form::kDense);
  if (!values.empty()) std::memcpy(out.data() + 1, values.data(), 4 * values.size());
  return dense_bytes(values.size());
}

std::size_t write_drawn(std::span<const float> values, const Turn& turn,
                        std::span<const std::uint32_t> drawn, float factor,
                        std::span<std::byte> out) {
  const std::size_t size = kDrawnHeader + 4 * drawn.size();
  TALLY_CHECK(out.size() >= dense_bytes(values.size()));
  if (size >= dense_bytes(values.size())) return write_dense(values, drawn, out, factor);
  out[0] = static_cast<std::byte>(Form::kDrawn);
  wire::store(out, 1, turn.key.low);
  wire::store(out, 5, turn.key.high);
  wire::store(out, 9, turn.number);
  wire::store(out, 13, static_cast<std::uint32_t>(drawn.size()));
  store_values(values, drawn, out.data() + kDrawnHeader, factor);
  return size;
}

Result<void> read_sparse(std::span<const std::byte> bytes, const float* weight,
                         std::span<float> out) {
  if (weight != nullptr)
    return each(bytes, out.size(),
                [out, factor = *weight](std::size_t i, float value) { out[i] += factor * value; });
  std::fill(out.begin(), out.end(), 0.0F);
  return each(bytes, out.size(), [out](std::size_t i, float value) { out[i] = value; });
}

}  // namespace tally::codec
