// Codecs of one bit per value: onebit, sign, and the broadcast of a majority vote. All cut a run
// into blocks with one or two floats each, and write a bitmap of the negative values.
#include <algorithm>
#include <bit>
#include <cmath>

#include "codec/families.h"
#include "codec/sign/signs.h"
#include "kernel/quantize/stochastic.h"

namespace tally::codec {
namespace {

class BitmapCodec : public Codec {
 public:
  Result<void> read(std::span<const std::byte> bytes, const float* weight,
                    std::span<float> out) const final {
    const auto spread = weight == nullptr ? kernels_.spread : kernels_.add;
    const float factor = weight == nullptr ? 1 : *weight;
    const BlockLayout layout = layout_of(out.size());
    TALLY_TRY(const Sections sections, checked(layout, bytes, out.size()));
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const std::size_t at = layout.codes_at(b);
      const kernel::BitValues values = values_of(sections.floats, b);
      spread(sections.signs.subspan(at).data(),
             sections.zeros.empty() ? nullptr : sections.zeros.subspan(at).data(), layout.length(b),
             {.clear = factor * values.clear,
              .set = factor * values.set,
              .zero = factor * values.zero},
             out.subspan(layout.first(b)).data());
    }
    return {};
  }

 protected:
  // The sections of an encoding; `zeros` is empty where no value is marked as zero.
  struct Sections {
    std::span<const std::byte> floats, signs, zeros;
  };

  virtual BlockLayout layout_of(std::size_t count) const = 0;
  // kCorrupt if encode() cannot have made `bytes`.
  virtual Result<Sections> checked(const BlockLayout& layout, std::span<const std::byte> bytes,
                                   std::size_t count) const = 0;
  // The values of block `b` by bit.
  virtual kernel::BitValues values_of(std::span<const std::byte> floats, std::size_t b) const = 0;

  const kernel::SignKernels& kernels_ = kernel::sign_kernels();
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

float mean_of_side(double sum, std::size_t count) {
  return count == 0 ? 0.0F : static_cast<float>(sum / static_cast<double>(count));
}

// 1-bit SGD (Seide, Fu, Droppo, Li, Yu 2014), with zero as the threshold: for each block the mean
// of its negative values and the mean of the others, then the bitmap. The mean of no values is
// zero.
class Onebit final : public BitmapCodec {
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
      const kernel::SideSums sums = pack_signs(kernels_, block, bits.data());
      const bool finite = std::isfinite(sums.negative) && std::isfinite(sums.other);
      const std::size_t negative = count_set(bits);
      store_float(out, 2 * b, finite ? mean_of_side(sums.negative, negative) : kNotFinite);
      store_float(out, 2 * b + 1,
                  finite ? mean_of_side(sums.other, block.size() - negative) : kNotFinite);
    }
    return layout.bytes();
  }

 private:
  BlockLayout layout_of(std::size_t count) const override {
    return {count, block_, /*floats=*/2, /*bits=*/1, missing_};
  }
  kernel::BitValues values_of(std::span<const std::byte> floats, std::size_t b) const override {
    return {.clear = load_float(floats, 2 * b + 1), .set = load_float(floats, 2 * b)};
  }
  Result<Sections> checked(const BlockLayout& layout, std::span<const std::byte> bytes,
                           std::size_t count) const override {
    TALLY_TRY(check_size("onebit", bytes, layout.bytes(), count));
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const kernel::BitValues means = values_of(bytes, b);
      if (std::isnan(means.set) != std::isnan(means.clear) || !is_scale(-means.set))
        return wrong_scale("onebit", b, means.set);
      if (!is_scale(means.clear)) return wrong_scale("onebit", b, means.clear);
    }
    const auto signs = bytes.subspan(layout.head_bytes());
    if (!layout.ends_clear(signs)) return wrong_ends("onebit");
    return Sections{.floats = bytes, .signs = signs, .zeros = {}};
  }

  const std::size_t block_;
  const std::size_t missing_;  // of the first block
};

float mean_magnitude(const kernel::SideSums& sums, std::size_t count) {
  const double sum = sums.other - sums.negative;
  return std::isfinite(sum) ? static_cast<float>(sum / static_cast<double>(count)) : kNotFinite;
}

// For each block the mean magnitude, then the bitmap (signs.h).
class Sign final : public BitmapCodec {
 public:
  explicit Sign(std::size_t block) : block_(block) {}

  Traits traits() const override { return {.fixed_size = true}; }
  std::size_t max_bytes(std::size_t count) const override { return layout_of(count).bytes(); }

  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    const BlockLayout layout = layout_of(values.size());
    const auto bits = out.subspan(layout.head_bytes());
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const auto block = values.subspan(layout.first(b), layout.length(b));
      const auto sums = pack_signs(kernels_, block, bits.subspan(layout.codes_at(b)).data());
      store_float(out, b, mean_magnitude(sums, block.size()));
    }
    return layout.bytes();
  }

 private:
  BlockLayout layout_of(std::size_t count) const override { return sign_layout(count, block_); }
  kernel::BitValues values_of(std::span<const std::byte> floats, std::size_t b) const override {
    const float scale = load_float(floats, b);
    return {.clear = scale, .set = -scale};
  }
  Result<Sections> checked(const BlockLayout& layout, std::span<const std::byte> bytes,
                           std::size_t count) const override {
    TALLY_TRY(check_signs(layout, bytes, count));
    return Sections{.floats = bytes, .signs = bytes.subspan(layout.head_bytes()), .zeros = {}};
  }

  const std::size_t block_;
};

bool any_set(std::span<const std::byte> bits) {
  return std::any_of(bits.begin(), bits.end(), [](std::byte byte) { return byte != std::byte{0}; });
}

// Three values per block: -s, 0 and s, where s is the block's largest magnitude. One byte tells
// whether there are zeros; then follow s of each block, the bitmap of negative values and, if there
// are zeros, the bitmap of these.
class Majority final : public BitmapCodec {
 public:
  explicit Majority(std::size_t block) : block_(block) {}

  Traits traits() const override { return {}; }
  std::size_t max_bytes(std::size_t count) const override {
    const BlockLayout layout = layout_of(count);
    return count == 0 ? 0 : 1 + layout.bytes() + layout.code_bytes();
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
      const float most = kernel::stochastic_kernels().max_magnitude(block.data(), block.size());
      store_float(scales, b, std::isfinite(most) ? most : kNotFinite);
      kernels_.sign_bits(block.data(), block.size(), signs.subspan(layout.codes_at(b)).data());
      kernels_.zero_bits(block.data(), block.size(), zeros.subspan(layout.codes_at(b)).data());
    }
    out[0] = any_set(zeros) ? kZeros : kNoZeros;
    return 1 + layout.bytes() + (out[0] == kZeros ? layout.code_bytes() : 0);
  }

 private:
  static constexpr std::byte kNoZeros{0};
  static constexpr std::byte kZeros{1};

  BlockLayout layout_of(std::size_t count) const override { return sign_layout(count, block_); }
  kernel::BitValues values_of(std::span<const std::byte> floats, std::size_t b) const override {
    const float scale = load_float(floats, b);
    return {.clear = scale, .set = -scale, .zero = std::isnan(scale) ? scale : 0.0F};
  }
  Result<Sections> checked(const BlockLayout& layout, std::span<const std::byte> bytes,
                           std::size_t count) const override {
    if (count == 0) {
      TALLY_TRY(check_size("majority", bytes, 0, 0));
      return Sections{};
    }
    const bool has_zeros = !bytes.empty() && bytes[0] == kZeros;
    if (!has_zeros && !bytes.empty() && bytes[0] != kNoZeros) return wrong_codes("majority", 0);
    TALLY_TRY(check_size("majority", bytes,
                         1 + layout.bytes() + (has_zeros ? layout.code_bytes() : 0), count));
    const Sections sections = {
        .floats = bytes.subspan(1, layout.head_bytes()),
        .signs = bytes.subspan(1 + layout.head_bytes(), layout.code_bytes()),
        .zeros = has_zeros ? bytes.last(layout.code_bytes()) : std::span<const std::byte>()};
    for (std::size_t b = 0; b < layout.blocks(); ++b)
      if (const float scale = load_float(sections.floats, b); !is_scale(scale))
        return wrong_scale("majority", b, scale);
    if (!layout.ends_clear(sections.signs)) return wrong_ends("majority");
    if (!has_zeros) return sections;
    if (!layout.ends_clear(sections.zeros)) return wrong_ends("majority");
    if (!any_set(sections.zeros)) return wrong_codes("majority", 0);
    for (std::size_t i = 0; i < sections.zeros.size(); ++i)
      if ((sections.signs[i] & sections.zeros[i]) != std::byte{0})
        return wrong_codes("majority", i / layout.code_bytes(0));
    return sections;
  }

  const std::size_t block_;
};

// Sums one value after the other in double, which does not overflow.
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
  TALLY_TRY(check_size("sign", bytes, layout.bytes(), count));
  for (std::size_t b = 0; b < layout.blocks(); ++b)
    if (const float scale = load_float(bytes, b); !is_scale(scale))
      return wrong_scale("sign", b, scale);
  if (!layout.ends_clear(bytes.subspan(layout.head_bytes()))) return wrong_ends("sign");
  return {};
}

std::unique_ptr<Codec> make_onebit(std::size_t block, std::size_t missing) {
  return std::make_unique<Onebit>(block, missing);
}
std::unique_ptr<Codec> make_sign(std::size_t block) { return std::make_unique<Sign>(block); }
std::unique_ptr<Codec> make_majority(std::size_t block) {
  return std::make_unique<Majority>(block);
}

}  // namespace tally::codec
