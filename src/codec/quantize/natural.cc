#include "base/check.h"
#include "base/errors.h"
#include "codec/block_layout.h"
#include "codec/families.h"
#include "kernel/quantize/quantize.h"

namespace tally::codec {
namespace {

// Natural compression (Horváth and others 2019): each value is rounded stochastically to a power
// of two (kernel/quantize/quantize.h). An encoding has one exponent byte per value, then the signs.
// It is unbiased except for magnitudes above 2^127. The variance of a decoded value x is at most
// x^2 / 8, unless x is subnormal.
class Natural final : public Codec {
 public:
  Traits traits() const override { return {.unbiased = true, .fixed_size = true}; }
  std::size_t max_bytes(std::size_t count) const override {
    return count + count / 8 + (count % 8 != 0 ? 1 : 0);
  }

  std::size_t encode(std::span<const float> values, const Draw& draw,
                     std::span<std::byte> out) const override {
    TALLY_CHECK(out.size() >= max_bytes(values.size()));
    kernel::quantize_kernels().natural.encode(values.data(), values.size(), key_of(draw),
                                              out.data(), out.data() + values.size());
    return max_bytes(values.size());
  }

  // All bytes are valid exponents and all bits valid signs, except those behind the last value.
  Result<void> read(std::span<const std::byte> bytes, const float* weight,
                    std::span<float> out) const override {
    TALLY_TRY(check_size("natural", bytes, max_bytes(out.size()), out.size()));
    const auto used = static_cast<int>(out.size() % 8);
    if (used != 0 && std::to_integer<int>(bytes.back()) >> used != 0)
      return corrupt("a sign behind the last value");
    kernel::quantize_kernels().natural.decode(bytes.data(), bytes.data() + out.size(), out.size(),
                                              weight, out.data());
    return {};
  }
};

}  // namespace

std::unique_ptr<Codec> make_natural() { return std::make_unique<Natural>(); }

}  // namespace tally::codec
