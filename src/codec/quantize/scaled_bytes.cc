// int8 and fp8: one byte per value and one scale per block (kernel/quantize/quantize.h). An
// encoding has all scales first, then all bytes. A block with a NaN or an infinity is decoded as
// NaN.
#include "base/check.h"
#include "base/errors.h"
#include "codec/block_layout.h"
#include "codec/families.h"
#include "kernel/quantize/quantize.h"

namespace tally::codec {
namespace {

class ScaledBytes final : public Codec {
 public:
  ScaledBytes(const kernel::ScaledBytes& loops, std::size_t block) : loops_(loops), block_(block) {
    TALLY_CHECK(block > 0);
  }

  Traits traits() const override { return {.fixed_size = true}; }
  std::size_t max_bytes(std::size_t count) const override { return scale_bytes(count) + count; }

  std::size_t encode(std::span<const float> values, const Draw& /*draw*/,
                     std::span<std::byte> out) const override {
    TALLY_CHECK(out.size() >= max_bytes(values.size()));
    std::byte* codes = out.data() + scale_bytes(values.size());
    loops_.encode(values.data(), values.size(), block_, out.data(), codes);
    return max_bytes(values.size());
  }
  Result<void> read(std::span<const std::byte> bytes, const float* weight,
                    std::span<float> out) const override {
    TALLY_TRY(check_bytes(bytes, out.size()));
    const std::byte* codes = bytes.data() + scale_bytes(out.size());
    loops_.decode(bytes.data(), codes, out.size(), block_, weight, out.data());
    return {};
  }

 private:
  std::size_t scale_bytes(std::size_t count) const {
    return (count / block_ + (count % block_ != 0 ? 1 : 0)) * sizeof(float);
  }
  Result<void> check_bytes(std::span<const std::byte> bytes, std::size_t count) const {
    TALLY_TRY(check_size("8-bit codec", bytes, max_bytes(count), count));
    if (loops_.valid(bytes.data(), bytes.data() + scale_bytes(count), count, block_)) return {};
    return corrupt("8-bit codec: a scale or a byte that no encoder writes");
  }

  const kernel::ScaledBytes& loops_;
  const std::size_t block_;
};

}  // namespace

std::unique_ptr<Codec> make_int8(std::size_t block) {
  return std::make_unique<ScaledBytes>(kernel::quantize_kernels().int8, block);
}

std::unique_ptr<Codec> make_fp8(plan::Fp8Format format, std::size_t block) {
  const kernel::QuantizeKernels& loops = kernel::quantize_kernels();
  return std::make_unique<ScaledBytes>(format == plan::Fp8Format::kE4m3 ? loops.e4m3 : loops.e5m2,
                                       block);
}

}  // namespace tally::codec
