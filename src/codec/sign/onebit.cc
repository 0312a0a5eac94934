#include <bit>
#include <cmath>

#include "codec/families.h"
#include "codec/sign/signs.h"

// 1-bit SGD (Seide, Fu, Droppo, Li, Yu 2014), with zero as the threshold: for each block the means
// of its negative values and of the others, then a bit for each value: set where it is less than
// zero. The mean of no values is zero.
namespace tally::codec {
namespace {

struct Means {
  float negative = 0;
  float other = 0;
};

std::size_t count_set(std::span<const std::byte> bits) {
  std::size_t count = 0;
  for (; bits.size() >= sizeof(std::uint64_t); bits = bits.subspan(sizeof(std::uint64_t))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bits.data(), sizeof word);
    count += static_cast<std::size_t>(std::popcount(word));
  }
  for (const std::byte byte : bits)
    count += static_cast<std::size_t>(std::popcount(static_cast<unsigned>(byte)));
  return count;
}

float mean(double sum, std::size_t count) {
  return count == 0 ? 0.0F : static_cast<float>(sum / static_cast<double>(count));
}

Means means_of(const kernel::SideSums& sums, std::size_t negative_count, std::size_t count) {
  if (!std::isfinite(sums.negative) || !std::isfinite(sums.other)) return {kNotFinite, kNotFinite};
  return {.negative = mean(sums.negative, negative_count),
          .other = mean(sums.other, count - negative_count)};
}

class Onebit final : public Codec {
 public:
  Onebit(std::size_t block, std::size_t missing) : block_(block), missing_(missing) {}

  Traits traits() const override { return {.fixed_size = true}; }
  std::size_t max_bytes(std::size_t count) const override { return layout_of(count).bytes(); }

  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    const BlockLayout layout = layout_of(values.size());
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const auto block = values.subspan(layout.first(b), layout.length(b));
      const auto bits = out.subspan(layout.head_bytes() + layout.codes_at(b), layout.code_bytes(b));
      const auto sums = pack_signs(kernels_, block, bits.data());
      const Means means = means_of(sums, count_set(bits), block.size());
      store_float(out, 2 * b, means.negative);
      store_float(out, 2 * b + 1, means.other);
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
  BlockLayout layout_of(std::size_t count) const {
    return {count, block_, /*floats=*/2, /*bits=*/1, missing_};
  }
  static Means load_means(std::span<const std::byte> bytes, std::size_t b) {
    return {.negative = load_float(bytes, 2 * b), .other = load_float(bytes, 2 * b + 1)};
  }

  static Result<void> check(const BlockLayout& layout, std::span<const std::byte> bytes,
                            std::size_t count) {
    if (bytes.size() != layout.bytes())
      return wrong_size("onebit", bytes.size(), layout.bytes(), count);
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const Means means = load_means(bytes, b);
      if (std::isnan(means.negative) != std::isnan(means.other) || !is_scale(-means.negative))
        return wrong_scale("onebit", b, means.negative);
      if (!is_scale(means.other)) return wrong_scale("onebit", b, means.other);
    }
    if (!layout.ends_clear(bytes.subspan(layout.head_bytes()))) return wrong_ends("onebit");
    return {};
  }

  template <typename Spread>
  Result<void> for_blocks(std::span<const std::byte> bytes, std::span<float> out, float weight,
                          Spread spread) const {
    const BlockLayout layout = layout_of(out.size());
    TALLY_TRY(check(layout, bytes, out.size()));
    const auto bits = bytes.subspan(layout.head_bytes());
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const Means means = load_means(bytes, b);
      spread(bits.subspan(layout.codes_at(b)).data(), nullptr, layout.length(b),
             {.clear = weight * means.other, .set = weight * means.negative},
             out.subspan(layout.first(b)).data());
    }
    return {};
  }

  const std::size_t block_;
  const std::size_t missing_;  // of the first block
  const kernel::SignKernels kernels_ = kernel::sign_kernels();
};

}  // namespace

std::unique_ptr<Codec> make_onebit(std::size_t block, std::size_t missing) {
  return std::make_unique<Onebit>(block, missing);
}

}  // namespace tally::codec
