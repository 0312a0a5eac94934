#include <cmath>

#include "codec/families.h"
#include "codec/sign/signs.h"

namespace tally::codec {
namespace {

float mean_magnitude(const kernel::SideSums& sums, std::size_t count) {
  const double sum = sums.other - sums.negative;
  return std::isfinite(sum) ? static_cast<float>(sum / static_cast<double>(count)) : kNotFinite;
}

class Sign final : public Codec {
 public:
  explicit Sign(std::size_t block) : block_(block) {}

  Traits traits() const override { return {.fixed_size = true}; }
  std::size_t max_bytes(std::size_t count) const override {
    return sign_layout(count, block_).bytes();
  }

  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    const BlockLayout layout = sign_layout(values.size(), block_);
    const auto bits = out.subspan(layout.head_bytes());
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const auto block = values.subspan(layout.first(b), layout.length(b));
      const auto sums = pack_signs(kernels_, block, bits.subspan(layout.codes_at(b)).data());
      store_float(out, b, mean_magnitude(sums, block.size()));
    }
    return layout.bytes();
  }

  Result<void> decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    return for_blocks(bytes, out, 1, kernels_.spread);
  }
  Result<void> decode_add(std::span<const std::byte> bytes, float weight,
                          std::span<float> sum) const override {
    return for_blocks(bytes, sum, weight, kernels_.add);
  }

 private:
  template <typename Spread>
  Result<void> for_blocks(std::span<const std::byte> bytes, std::span<float> out, float weight,
                          Spread spread) const {
    const BlockLayout layout = sign_layout(out.size(), block_);
    TALLY_TRY(check_signs(layout, bytes, out.size()));
    const auto bits = bytes.subspan(layout.head_bytes());
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const float value = weight * load_float(bytes, b);
      spread(bits.subspan(layout.codes_at(b)).data(), nullptr, layout.length(b),
             {.clear = value, .set = -value}, out.subspan(layout.first(b)).data());
    }
    return {};
  }

  const std::size_t block_;
  const kernel::SignKernels kernels_ = kernel::sign_kernels();
};

// Value by value: these sums have room for any.
kernel::SideSums sum_in_double(std::span<const float> values) {
  kernel::SideSums sums;
  for (const float value : values)
    (value < 0 ? sums.negative : sums.other) += static_cast<double>(value);
  return sums;
}

}  // namespace

kernel::SideSums pack_signs(const kernel::SignKernels& kernels, std::span<const float> values,
                            std::byte* bits) {
  const kernel::SideSums sums = kernels.sign_bits(values.data(), values.size(), bits);
  if (std::isfinite(sums.negative) && std::isfinite(sums.other)) return sums;
  return sum_in_double(values);
}

Result<void> check_signs(const BlockLayout& layout, std::span<const std::byte> bytes,
                         std::size_t count) {
  if (bytes.size() != layout.bytes())
    return wrong_size("sign", bytes.size(), layout.bytes(), count);
  for (std::size_t b = 0; b < layout.blocks(); ++b)
    if (const float scale = load_float(bytes, b); !is_scale(scale))
      return wrong_scale("sign", b, scale);
  if (!layout.ends_clear(bytes.subspan(layout.head_bytes()))) return wrong_ends("sign");
  return {};
}

std::unique_ptr<Codec> make_sign(std::size_t block) { return std::make_unique<Sign>(block); }

}  // namespace tally::codec
