#include <algorithm>
#include <array>
#include <cmath>

#include "codec/block_layout.h"
#include "codec/families.h"
#include "codec/quantize/level_codes.h"
#include "kernel/array/norm.h"
#include "kernel/quantize/stochastic.h"

// TernGrad (Wen, Xu, Yan, Wu, Wang, Chen, Li 2017): magnitudes are clipped to `clip` standard
// deviations, and each value is rounded stochastically, without bias, to -s, 0 or s, where s is the
// largest remaining magnitude. The deviation is taken from zero, not from the mean, because the
// distance from zero is clipped and a run of equal values must not be clipped to nothing.
//
// An encoding has s, then five values per byte (level_codes.h). A run of n values is cut into five
// planes of ceil(n / 5) values; byte j has value j of each plane, so that loops need not move
// values between lanes.
namespace tally::codec {
namespace {

constexpr std::size_t kTernaryPiece = 512;

// One piece of each plane.
struct Trits {
  std::array<std::array<std::int8_t, kTernaryPiece>, kTritPlanes> planes;

  std::array<std::int8_t*, kTritPlanes> pointers() {
    std::array<std::int8_t*, kTritPlanes> all = {};
    for (std::size_t p = 0; p < kTritPlanes; ++p) all[p] = planes[p].data();
    return all;
  }
};

struct Planes {
  std::size_t count = 0;

  std::size_t width() const { return (count + kTritPlanes - 1) / kTritPlanes; }
  // The index of the first value in the piece of plane p that begins at byte `at`, and the length
  // of that piece, at most `most`: the last planes may end early.
  std::size_t first(std::size_t p, std::size_t at) const { return p * width() + at; }
  std::size_t length(std::size_t p, std::size_t at, std::size_t most) const {
    return first(p, at) < count ? std::min(most, count - first(p, at)) : 0;
  }
};

class Ternary final : public Codec {
 public:
  explicit Ternary(double clip) : clip_(clip) {}

  Traits traits() const override { return {.unbiased = clip_ == 0, .fixed_size = true}; }
  std::size_t max_bytes(std::size_t count) const override {
    return count == 0 ? 0 : sizeof(float) + Planes{count}.width();
  }

  std::size_t encode(std::span<const float> values, const Draw& draw,
                     std::span<std::byte> out) const override {
    if (values.empty()) return 0;
    const float scale = scale_of(values);
    store_float(out, 0, scale);
    const auto codes = out.subspan(sizeof(float), Planes{values.size()}.width());
    if (scale > 0) {
      encode_codes(values, {.scale = scale, .levels = 1, .key = key_of(draw)}, codes);
    } else {
      std::fill(codes.begin(), codes.end(), std::byte{0});
    }
    return max_bytes(values.size());
  }

  Result<void> read(std::span<const std::byte> bytes, const float* weight,
                    std::span<float> out) const override {
    TALLY_TRY(check_size("ternary", bytes, max_bytes(out.size()), out.size()));
    if (out.empty()) return {};
    const float scale = load_float(bytes, 0);
    if (!is_scale(scale)) return wrong_scale("ternary", 0, scale);
    const auto codes = bytes.subspan(sizeof(float));
    const Planes planes{out.size()};
    Trits trits;
    const auto pointers = trits.pointers();
    for (std::size_t at = 0; at < codes.size(); at += kTernaryPiece) {
      const std::size_t some = std::min(kTernaryPiece, codes.size() - at);
      if (!unpack_trits(codes.subspan(at).data(), some, pointers.data()))
        return wrong_codes("ternary", 0);
      for (std::size_t p = 0; p < kTritPlanes; ++p) {
        const std::size_t length = planes.length(p, at, some);
        if (std::any_of(pointers[p] + length, pointers[p] + some,
                        [](std::int8_t level) { return level != 0; }))
          return wrong_ends("ternary");
        if (length != 0)
          kernels_.widen(pointers[p], length, {.scale = scale}, weight,
                         out.subspan(planes.first(p, at)).data());
      }
    }
    return {};
  }

 private:
  float scale_of(std::span<const float> values) const {
    const float most = kernels_.max_magnitude(values.data(), values.size());
    if (!std::isfinite(most)) return kNotFinite;
    if (clip_ == 0) return most;
    const double squares = kernel::square_sum(values);
    const double limit = clip_ * std::sqrt(squares / static_cast<double>(values.size()));
    return limit < static_cast<double>(most) ? static_cast<float>(limit) : most;
  }

  void encode_codes(std::span<const float> values, kernel::StochasticRounding rounding,
                    std::span<std::byte> codes) const {
    const Planes planes{values.size()};
    Trits trits;
    const auto pointers = trits.pointers();
    for (std::size_t at = 0; at < codes.size(); at += kTernaryPiece) {
      const std::size_t some = std::min(kTernaryPiece, codes.size() - at);
      for (std::size_t p = 0; p < kTritPlanes; ++p) {
        const std::size_t length = planes.length(p, at, some);
        std::fill(pointers[p] + length, pointers[p] + some, std::int8_t{0});
        if (length == 0) continue;
        rounding.first = static_cast<std::uint32_t>(planes.first(p, at));
        kernels_.round(values.subspan(planes.first(p, at)).data(), length, rounding, pointers[p]);
      }
      pack_trits(pointers.data(), some, codes.subspan(at).data());
    }
  }

  const double clip_;
  const kernel::StochasticKernels kernels_ = kernel::stochastic_kernels();
};

}  // namespace

std::unique_ptr<Codec> make_ternary(double clip) { return std::make_unique<Ternary>(clip); }

}  // namespace tally::codec
