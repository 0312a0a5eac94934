#include <algorithm>
#include <bit>
#include <iterator>

#include "base/check.h"
#include "codec/draw.h"
#include "codec/families.h"
#include "codec/sparse/drawn_indices.h"
#include "codec/sparse/sparse_bytes.h"
#include "codec/sparse/top_selection.h"
#include "kernel/sparse/residual.h"

namespace tally::codec {
namespace {

// Whoever encodes.
kernel::RandomKey key_of_all(Draw draw) {
  draw.rank = 0;
  return key_of(draw);
}

// Values at places by chance, which are the same for all senders of a step, as they are: not scaled
// by 1 / density, as suits feedback. So without feedback the mean of what arrives is too small by
// the density.
class Randk final : public Codec {
 public:
  explicit Randk(double density) : density_(density) {}

  Traits traits() const override { return {.exact = density_ >= 1}; }
  std::size_t max_bytes(std::size_t count) const override { return dense_bytes(count); }
  std::size_t expected_bytes(std::size_t count) const override {
    return std::min(dense_bytes(count), kDrawnHeader + 4 * entries_of(density_, count));
  }

  std::size_t encode(std::span<const float> values, const Draw& draw,
                     std::span<std::byte> out) const override {
    const kernel::RandomKey key = key_of_all(draw);
    const std::vector<std::uint32_t> drawn =
        drawn_indices(key, values.size(), entries_of(density_, values.size()));
    // What is not finite must arrive, drawn or not.
    const std::vector<std::uint32_t> odd =
        marked_indices(mark_above(values, kernel::kInfinityBits));
    if (!std::includes(drawn.begin(), drawn.end(), odd.begin(), odd.end())) {
      std::vector<std::uint32_t> both;
      std::set_union(drawn.begin(), drawn.end(), odd.begin(), odd.end(), std::back_inserter(both));
      return write_sparse(values, both, out);
    }
    return write_drawn(values, key, drawn, out);
  }
  Result<void> decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    return read_sparse(bytes, out);
  }
  Result<void> decode_add(std::span<const std::byte> bytes, float weight,
                          std::span<float> sum) const override {
    return add_sparse(bytes, weight, sum);
  }

 private:
  const double density_;
};

// All values that are not zero, as they are: the mean of what Randk sent has those at the places
// that all have drawn, which need not be told, and where something was not finite at others, too.
class RandkMean final : public Codec {
 public:
  explicit RandkMean(double density) : density_(density) {}

  Traits traits() const override { return {.exact = true}; }
  std::size_t max_bytes(std::size_t count) const override { return dense_bytes(count); }
  std::size_t expected_bytes(std::size_t count) const override {
    return std::min(dense_bytes(count), kDrawnHeader + 4 * entries_of(density_, count));
  }

  std::size_t encode(std::span<const float> values, const Draw& draw,
                     std::span<std::byte> out) const override {
    const kernel::RandomKey key = key_of_all(draw);
    const std::vector<std::uint32_t> drawn =
        drawn_indices(key, values.size(), entries_of(density_, values.size()));
    const std::vector<std::uint32_t> all = marked_indices(mark_above(values, 1));
    if (std::includes(drawn.begin(), drawn.end(), all.begin(), all.end()))
      return write_drawn(values, key, drawn, out);
    return write_sparse(values, all, out);
  }
  Result<void> decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    return read_sparse(bytes, out);
  }
  Result<void> decode_add(std::span<const std::byte> bytes, float weight,
                          std::span<float> sum) const override {
    return add_sparse(bytes, weight, sum);
  }

 private:
  const double density_;
};

}  // namespace

std::unique_ptr<Codec> make_randk(double density) { return std::make_unique<Randk>(density); }
std::unique_ptr<Codec> make_randk_mean(double density) {
  return std::make_unique<RandkMean>(density);
}

}  // namespace tally::codec
