#include <algorithm>
#include <array>
#include <cmath>

#include "codec/block_layout.h"
#include "codec/draw.h"
#include "codec/families.h"
#include "codec/quantize/level_codes.h"
#include "kernel/quantize/dither.h"

// QSGD (Alistarh, Grubic, Li, Tomioka, Vojnovic 2017) as its authors ran it: each block is scaled
// by its largest magnitude, and values are rounded by chance to one of 2^bits - 1 levels, so that
// their mean is right. The error of a value has a variance of at most (scale / levels)^2 / 4.
// Scales first, then the levels, as level_codes.h packs them.
namespace tally::codec {
namespace {

// Levels that are packed at a time: they stay in the nearest cache.
constexpr std::size_t kPiece = 512;
using Piece = std::array<std::int8_t, kPiece>;

// The largest level stands for the scale itself.
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
    kernel::Dither dither = {.levels = levels_, .key = key_of(draw)};
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const auto block = values.subspan(layout.first(b), layout.length(b));
      dither.scale = kernels_.max_magnitude(block.data(), block.size());
      dither.first = static_cast<std::uint32_t>(layout.first(b));
      const auto into = codes.subspan(layout.codes_at(b), layout.code_bytes(b));
      if (std::isfinite(dither.scale) && dither.scale > 0) {
        encode_block(block, dither, into);
      } else {
        std::fill(into.begin(), into.end(), std::byte{0});
      }
      store_float(out, b, std::isfinite(dither.scale) ? dither.scale : kNotFinite);
    }
    return layout.bytes();
  }

  Result<void> decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    return for_pieces(bytes, out.size(),
                      [&](std::size_t first, std::span<const std::int8_t> levels, float scale) {
                        kernels_.widen(levels.data(), levels.size(), values_of(scale),
                                       out.subspan(first).data());
                      });
  }
  Result<void> decode_add(std::span<const std::byte> bytes, float weight,
                          std::span<float> sum) const override {
    return for_pieces(bytes, sum.size(),
                      [&](std::size_t first, std::span<const std::int8_t> levels, float scale) {
                        kernels_.add(levels.data(), levels.size(), values_of(scale), weight,
                                     sum.subspan(first).data());
                      });
  }

 private:
  BlockLayout layout_of(std::size_t count) const {
    return {count, block_, /*floats=*/1, static_cast<std::size_t>(bits_)};
  }
  kernel::LevelValues values_of(float scale) const {
    return {.unit = 1.0F / levels_, .scale = scale};
  }
  std::size_t piece_bytes() const { return kPiece * static_cast<std::size_t>(bits_) / 8; }

  void encode_block(std::span<const float> values, kernel::Dither dither,
                    std::span<std::byte> codes) const {
    Piece levels;
    while (!values.empty()) {
      const std::size_t some = std::min(kPiece, values.size());
      kernels_.round(values.data(), some, dither, levels.data());
      pack_levels(std::span(levels).first(some), bits_, codes.data());
      dither.first += static_cast<std::uint32_t>(some);
      values = values.subspan(some);
      codes = codes.subspan(std::min(piece_bytes(), codes.size()));
    }
  }

  // Calls use(first value, levels, scale) for pieces of blocks.
  template <typename Use>
  Result<void> for_pieces(std::span<const std::byte> bytes, std::size_t count, Use use) const {
    const BlockLayout layout = layout_of(count);
    if (bytes.size() != layout.bytes())
      return wrong_size("qsgd", bytes.size(), layout.bytes(), count);
    const auto codes = bytes.subspan(layout.head_bytes());
    if (!layout.ends_clear(codes)) return wrong_ends("qsgd");
    Piece levels;
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      const float scale = load_float(bytes, b);
      if (!is_scale(scale)) return wrong_scale("qsgd", b, scale);
      const std::byte* from = codes.subspan(layout.codes_at(b)).data();
      for (std::size_t at = 0; at < layout.length(b); at += kPiece, from += piece_bytes()) {
        const auto piece = std::span(levels).first(std::min(kPiece, layout.length(b) - at));
        if (!unpack_levels(from, bits_, piece)) return wrong_codes("qsgd", b);
        use(layout.first(b) + at, piece, scale);
      }
    }
    return {};
  }

  const int bits_;
  const float levels_;
  const std::size_t block_;
  const kernel::DitherKernels kernels_ = kernel::dither_kernels();
};

}  // namespace

std::unique_ptr<Codec> make_qsgd(int bits, std::size_t block) {
  return std::make_unique<Qsgd>(bits, block);
}

}  // namespace tally::codec
