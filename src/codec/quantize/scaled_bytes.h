#pragma once
#include "codec/codec.h"
#include "kernel/quantize/quantize.h"

namespace tally::codec {

// A byte for each value and a scale for each block, as kernel/quantize/quantize.h says: first all scales,
// then all bytes. A block that has a NaN or an infinity is decoded as NaN.
class ScaledBytes final : public Codec {
 public:
  // `loops` outlives it. At least one value in a block.
  ScaledBytes(const kernel::ScaledBytes& loops, std::size_t block);

  Traits traits() const override { return {.fixed_size = true}; }
  std::size_t max_bytes(std::size_t count) const override { return scale_bytes(count) + count; }
  std::size_t encode(std::span<const float> values, const Draw& draw,
                     std::span<std::byte> out) const override;
  Result<void> decode(std::span<const std::byte> bytes, std::span<float> out) const override;
  Result<void> decode_add(std::span<const std::byte> bytes, float weight,
                          std::span<float> sum) const override;

 private:
  std::size_t scale_bytes(std::size_t count) const {
    return (count / block_ + (count % block_ != 0 ? 1 : 0)) * sizeof(float);
  }
  Result<void> check_bytes(std::span<const std::byte> bytes, std::size_t count) const;

  const kernel::ScaledBytes& loops_;
  const std::size_t block_;
};

}  // namespace tally::codec
