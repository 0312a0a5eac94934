#include <algorithm>
#include <array>
#include <cmath>

#include "codec/block_layout.h"
#include "codec/families.h"
#include "codec/quantize/level_codes.h"
#include "kernel/quantize/stochastic.h"

// QSGD (Alistarh, Grubic, Li, Tomioka, Vojnovic 2017), scaled by the maximum as in its authors'
// experiments: each block is divided by its largest magnitude, and each value is rounded
// stochastically, without bias, to one of 2^bits - 1 levels. The variance of a value is at most
// (scale / levels)^2 / 4. An encoding has all scales first, then the levels, packed by
// level_codes.h.
namespace tally::codec {
namespace {

// Levels are packed in pieces of this size, which stay in the L1 cache.
constexpr std::size_t kQsgdPiece = 512;
using Piece = std::array<std::int8_t, kQsgdPiece>;

// The largest level is the scale itself.
static_assert(7 * (1.0F / 7) == 1 && 127 * (1.0F / 127) == 1);

class Qsgd final : public Codec {
 public:
  Qsgd(int bits, std::size_t block)
      : bits_(bits), levels_(static_cast<float>((1 << (bits - 1)) - 1)), block_(block) {
    TALLY_CHECK(bits == 2 || bits == 4 || bits == 8);
  }

  Traits traits() const override { return {.unbiased = true, .fixed_size = true}; }
  std::size_t max_bytes(std::size_t count) const override { return layout_of(count).bytes(); }

  std::size_t encode(std::span<const float> values, const Draw& draw,
                     std::span<std::byte> out) const override {
    const BlockLayout layout = layout_of(values.size());
    const auto codes = out.subspan(layout.head_bytes());
    kernel::StochasticRounding rounding = {.levels = levels_, .key = key_of(draw)};
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const auto block = values.subspan(layout.first(b), layout.length(b));
      rounding.scale = kernels_.max_magnitude(block.data(), block.size());
      rounding.first = static_cast<std::uint32_t>(layout.first(b));
      const auto into = codes.subspan(layout.codes_at(b), layout.code_bytes(b));
      if (std::isfinite(rounding.scale) && rounding.scale > 0) {
        encode_block(block, rounding, into);
      } else {
        std::fill(into.begin(), into.end(), std::byte{0});
      }
      store_float(out, b, std::isfinite(rounding.scale) ? rounding.scale : kNotFinite);
    }
    return layout.bytes();
  }

  Result<void> read(std::span<const std::byte> bytes, const float* weight,
                    std::span<float> out) const override {
    const BlockLayout layout = layout_of(out.size());
    TALLY_TRY(check_size("qsgd", bytes, layout.bytes(), out.size()));
    const auto codes = bytes.subspan(layout.head_bytes());
    if (!layout.ends_clear(codes)) return wrong_ends("qsgd");
    Piece levels;
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const float scale = load_float(bytes, b);
      if (!is_scale(scale)) return wrong_scale("qsgd", b, scale);
      const std::byte* from = codes.subspan(layout.codes_at(b)).data();
      for (std::size_t at = 0; at < layout.length(b); at += kQsgdPiece, from += piece_bytes()) {
        const auto piece = std::span(levels).first(std::min(kQsgdPiece, layout.length(b) - at));
        if (!unpack_levels(from, bits_, piece)) return wrong_codes("qsgd", b);
        kernels_.widen(piece.data(), piece.size(), {.unit = 1.0F / levels_, .scale = scale}, weight,
                       out.subspan(layout.first(b) + at).data());
      }
    }
    return {};
  }

 private:
  BlockLayout layout_of(std::size_t count) const {
    return {count, block_, /*floats=*/1, static_cast<std::size_t>(bits_)};
  }
  std::size_t piece_bytes() const { return kQsgdPiece * static_cast<std::size_t>(bits_) / 8; }

  void encode_block(std::span<const float> values, kernel::StochasticRounding rounding,
                    std::span<std::byte> codes) const {
    Piece levels;
    while (!values.empty()) {
      const std::size_t some = std::min(kQsgdPiece, values.size());
      kernels_.round(values.data(), some, rounding, levels.data());
      pack_levels(std::span(levels).first(some), bits_, codes.data());
      rounding.first += static_cast<std::uint32_t>(some);
      values = values.subspan(some);
      codes = codes.subspan(std::min(piece_bytes(), codes.size()));
    }
  }

  const int bits_;
  const float levels_;
  const std::size_t block_;
  const kernel::StochasticKernels kernels_ = kernel::stochastic_kernels();
};

}  // namespace

std::unique_ptr<Codec> make_qsgd(int bits, std::size_t block) {
  return std::make_unique<Qsgd>(bits, block);
}

}  // namespace tally::codec
