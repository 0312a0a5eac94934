#include <algorithm>
#include <cmath>

#include "codec/block_layout.h"
#include "codec/families.h"
#include "kernel/quantize/dither.h"
#include "kernel/sign/sign_bits.h"

// One byte that says whether there are zeros; the largest magnitude of each block; a bit for each
// value, set where it is less than zero; and if there are zeros, a bit for each value, set where it
// is one.
namespace tally::codec {
namespace {

constexpr std::byte kNoZeros{0};
constexpr std::byte kZeros{1};

bool any_set(std::span<const std::byte> bits) {
  return std::any_of(bits.begin(), bits.end(), [](std::byte byte) { return byte != std::byte{0}; });
}

// The parts of an encoding.
struct Parts {
  std::span<const std::byte> scales, signs, zeros;  // no zeros: empty
};

class Votes final : public Codec {
 public:
  explicit Votes(std::size_t block) : block_(block) {}

  Traits traits() const override { return {}; }
  std::size_t max_bytes(std::size_t count) const override {
    const BlockLayout layout = layout_of(count);
    return count == 0 ? 0 : 1 + layout.bytes() + layout.code_bytes();
  }
  std::size_t expected_bytes(std::size_t count) const override {
    return count == 0 ? 0 : 1 + layout_of(count).bytes();
  }

  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    if (values.empty()) return 0;
    const BlockLayout layout = layout_of(values.size());
    const auto scales = out.subspan(1);
    const auto signs = scales.subspan(layout.head_bytes());
    const auto zeros = signs.subspan(layout.code_bytes(), layout.code_bytes());
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const auto block = values.subspan(layout.first(b), layout.length(b));
      const float most = magnitudes_.max_magnitude(block.data(), block.size());
      store_float(scales, b, std::isfinite(most) ? most : kNotFinite);
      kernels_.sign_bits(block.data(), block.size(), signs.subspan(layout.codes_at(b)).data());
      kernels_.zero_bits(block.data(), block.size(), zeros.subspan(layout.codes_at(b)).data());
    }
    out[0] = any_set(zeros) ? kZeros : kNoZeros;
    return 1 + layout.bytes() + (out[0] == kZeros ? layout.code_bytes() : 0);
  }

  Result<void> decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    return for_blocks(bytes, out, 1, kernels_.spread);
  }
  Result<void> decode_add(std::span<const std::byte> bytes, float weight,
                          std::span<float> sum) const override {
    return for_blocks(bytes, sum, weight, kernels_.add);
  }

 private:
  BlockLayout layout_of(std::size_t count) const {
    return {count, block_, /*floats=*/1, /*bits=*/1};
  }

  static Result<Parts> parts_of(const BlockLayout& layout, std::span<const std::byte> bytes,
                                std::size_t count) {
    const bool zeros = !bytes.empty() && bytes[0] == kZeros;
    if (!zeros && !bytes.empty() && bytes[0] != kNoZeros) return wrong_codes("votes", 0);
    const std::size_t expected = 1 + layout.bytes() + (zeros ? layout.code_bytes() : 0);
    if (bytes.size() != expected) return wrong_size("votes", bytes.size(), expected, count);
    Parts parts = {.scales = bytes.subspan(1, layout.head_bytes()),
                   .signs = bytes.subspan(1 + layout.head_bytes(), layout.code_bytes())};
    if (zeros) parts.zeros = bytes.last(layout.code_bytes());
    return parts;
  }

  static Result<void> check(const BlockLayout& layout, const Parts& parts) {
    for (std::size_t b = 0; b < layout.blocks(); ++b)
      if (const float scale = load_float(parts.scales, b); !is_scale(scale))
        return wrong_scale("votes", b, scale);
    if (!layout.ends_clear(parts.signs)) return wrong_ends("votes");
    if (parts.zeros.empty()) return {};
    if (!layout.ends_clear(parts.zeros)) return wrong_ends("votes");
    if (!any_set(parts.zeros)) return wrong_codes("votes", 0);
    for (std::size_t i = 0; i < parts.zeros.size(); ++i)
      if ((parts.signs[i] & parts.zeros[i]) != std::byte{0})
        return wrong_codes("votes", i / layout.code_bytes(0));
    return {};
  }

  template <typename Spread>
  Result<void> for_blocks(std::span<const std::byte> bytes, std::span<float> out, float weight,
                          Spread spread) const {
    const BlockLayout layout = layout_of(out.size());
    if (out.empty()) {
      if (!bytes.empty()) return wrong_size("votes", bytes.size(), 0, 0);
      return {};
    }
    TALLY_TRY(const Parts parts, parts_of(layout, bytes, out.size()));
    TALLY_TRY(check(layout, parts));
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const float scale = load_float(parts.scales, b);
      const std::byte* const zeros =
          parts.zeros.empty() ? nullptr : parts.zeros.subspan(layout.codes_at(b)).data();
      const float zero = std::isnan(scale) ? scale : 0.0F;
      spread(parts.signs.subspan(layout.codes_at(b)).data(), zeros, layout.length(b),
             {.clear = weight * scale, .set = weight * -scale, .zero = weight * zero},
             out.subspan(layout.first(b)).data());
    }
    return {};
  }

  const std::size_t block_;
  const kernel::SignKernels kernels_ = kernel::sign_kernels();
  const kernel::DitherKernels magnitudes_ = kernel::dither_kernels();
};

}  // namespace

std::unique_ptr<Codec> make_votes(std::size_t block) { return std::make_unique<Votes>(block); }

}  // namespace tally::codec
