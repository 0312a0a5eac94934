// int8 and fp8: one byte per value and one scale per block, as kernel/quantize/quantize.h has them.
//
// Blocks of 128, 256 and 512 values lie in the tile of one warp, which keeps the tile in registers
// between the search for the largest magnitude and the rounding. For other blocks a warp reads its
// block twice.
#include <cfloat>

#include "adapters/cuda/codec/codec_families.h"
#include "adapters/cuda/codec/codec_math.cuh"
#include "adapters/cuda/codec/launch.cuh"

namespace tally::cuda {
namespace {

constexpr float kLeastScale = 0x1p-126F;

// The largest scale with which nothing overflows.
template <typename Format>
__host__ __device__ constexpr float largest_scale() {
  const float scale = FLT_MAX / Format::kTop;
  const bool fits = static_cast<double>(scale) * Format::kTop <= FLT_MAX;
  return fits ? scale : __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, scale) - 1);
}

struct Int8 {
  static constexpr float kTop = 127;
  // Adding a number whose last bit has the weight 1 rounds to an integer, which is in the low bits.
  __device__ static std::uint32_t code_of(float scaled) {
    return __float_as_uint(__fadd_rn(scaled, 0x1.8p23F)) & 0xFFU;
  }
  __device__ static float value_of(std::uint32_t code) {
    return static_cast<float>(static_cast<std::int8_t>(code));
  }
  __device__ static bool is_unused(std::uint32_t code) { return code == 0x80; }
};

// A small float format: kExponent and kMantissa bits of a byte, biased as in IEEE 754.
template <int kExponent, int kMantissa, int kLargestCode>
struct Float8 {
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr float kTop = kExponent == 4 ? 448 : 57344;
  static constexpr int kDropped = 23 - kMantissa;

  // As Float8::code_of() in kernel/quantize/quantize_loops.inc, which explains it.
  __device__ static std::uint32_t code_of(float scaled) {
    constexpr std::uint32_t kSmallestNormal = (127 - kBias + 1) << 23;
    const std::uint32_t all = __float_as_uint(scaled);
    const std::uint32_t own = all & kInfinityBits;
    const std::uint32_t exponent = own > kSmallestNormal ? own : kSmallestNormal;
    const float magnitude = __uint_as_float(all & kMagnitude);
    const float rounder = __uint_as_float(exponent + (std::uint32_t{kDropped} << 23));
    const std::uint32_t steps = __float_as_uint(__fadd_rn(magnitude, rounder));
    const std::uint32_t code = steps + ((exponent - kSmallestNormal) >> kDropped);
    return ((all >> 24) & 0x80U) | (code & 0x7FU);
  }
  // The bits of the byte are those of a float32 with a smaller bias, also for subnormal numbers.
  __device__ static float value_of(std::uint32_t code) {
    constexpr float kUnit = kExponent == 4 ? 0x1p120F : 0x1p112F;
    const float magnitude = __fmul_rn(__uint_as_float((code & 0x7FU) << kDropped), kUnit);
    return __uint_as_float(__float_as_uint(magnitude) | (code & 0x80U) << 24);
  }
  __device__ static bool is_unused(std::uint32_t code) { return (code & 0x7F) > kLargestCode; }
};
using E4m3 = Float8<4, 3, 0x7E>;
using E5m2 = Float8<5, 2, 0x7B>;

// `magnitude` has the bits of the largest one in the block.
template <typename Format>
__device__ float scale_of(std::uint32_t magnitude) {
  if (magnitude >= kInfinityBits) return not_finite();
  if (magnitude == 0) return 0;
  const float scale = __fdiv_rn(__uint_as_float(magnitude), Format::kTop);
  constexpr float kMost = largest_scale<Format>();
  return scale < kLeastScale ? kLeastScale : scale > kMost ? kMost : scale;
}

template <typename Format>
__device__ bool is_scale(float scale) {
  const std::uint32_t bits = __float_as_uint(scale);
  constexpr float kMost = largest_scale<Format>();
  return (scale >= kLeastScale && scale <= kMost) || bits == 0 || bits == kNotFiniteBits;
}

// The scale and its reciprocal; 0 for a block without codes.
struct Scale {
  float scale, inverse;
};
template <typename Format>
__device__ Scale scale_with_inverse(std::uint32_t magnitude) {
  const float scale = scale_of<Format>(magnitude);
  return {scale, scale > 0 ? __fdiv_rn(1.0F, scale) : 0.0F};
}

template <typename Format>
__device__ std::uint32_t code_at(float value, const Scale& scale) {
  return scale.inverse > 0 ? Format::code_of(__fmul_rn(value, scale.inverse)) : 0U;
}
template <typename Format>
__device__ float left_of(float value, std::uint32_t code, float scale) {
  return finite_or_zero(__fsub_rn(value, __fmul_rn(Format::value_of(code), scale)));
}

__device__ inline std::uint32_t magnitude_of(float value) {
  return __float_as_uint(value) & kMagnitude;
}
__device__ inline std::uint32_t larger(std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }
__device__ inline std::uint32_t largest_of(const float4& four) {
  return larger(larger(magnitude_of(four.x), magnitude_of(four.y)),
                larger(magnitude_of(four.z), magnitude_of(four.w)));
}

__device__ inline std::size_t scale_bytes(std::size_t count, std::size_t block) {
  return (count + block - 1) / block * sizeof(float);
}

template <typename Format, int kBlock, bool kFeedback, bool kVectors>
__global__ void __launch_bounds__(kCodecThreads)
    encode_tiles(const float* gradient, float* residual, std::size_t count, std::byte* out) {
  constexpr int kRows = kBlock / static_cast<int>(kRowValues);  // of a block
  static_assert(kRows >= 1 && kTileRows % kRows == 0);
  const std::size_t tile = warp_index() * kTileValues;
  if (tile >= count) return;
  const std::size_t first = tile + lane_index() * 4;
  float4 values[kTileRows];
#pragma unroll
  for (int row = 0; row < kTileRows; ++row)
    values[row] = load_four<kVectors>(gradient, first + row * kRowValues, count);
  if constexpr (kFeedback) {
    float4 kept[kTileRows];
#pragma unroll
    for (int row = 0; row < kTileRows; ++row)
      kept[row] = load_four<kVectors>(residual, first + row * kRowValues, count);
#pragma unroll
    for (int row = 0; row < kTileRows; ++row)
      values[row] = {__fadd_rn(kept[row].x, values[row].x), __fadd_rn(kept[row].y, values[row].y),
                     __fadd_rn(kept[row].z, values[row].z), __fadd_rn(kept[row].w, values[row].w)};
  }

  Scale scales[kTileRows / kRows];
#pragma unroll
  for (int block = 0; block < kTileRows / kRows; ++block) {
    std::uint32_t largest = 0;
#pragma unroll
    for (int row = 0; row < kRows; ++row)
      largest = larger(largest, largest_of(values[block * kRows + row]));
    scales[block] = scale_with_inverse<Format>(warp_max(largest));
    const std::size_t at = tile + static_cast<std::size_t>(block) * kBlock;
    if (lane_index() == 0 && at < count)
      reinterpret_cast<float*>(out)[at / kBlock] = scales[block].scale;
  }

  std::byte* const codes = out + scale_bytes(count, kBlock);
#pragma unroll
  for (int row = 0; row < kTileRows; ++row) {
    const std::size_t i = first + row * kRowValues;
    const Scale scale = scales[row / kRows];
    const float4 v = values[row];
    const std::uint32_t a = code_at<Format>(v.x, scale), b = code_at<Format>(v.y, scale);
    const std::uint32_t c = code_at<Format>(v.z, scale), d = code_at<Format>(v.w, scale);
    store_word(codes, i, count, a | b << 8 | c << 16 | d << 24);
    if constexpr (kFeedback)
      store_four<kVectors>(
          residual, i, count,
          {left_of<Format>(v.x, a, scale.scale), left_of<Format>(v.y, b, scale.scale),
           left_of<Format>(v.z, c, scale.scale), left_of<Format>(v.w, d, scale.scale)});
  }
}

// One warp per block of any size.
template <typename Format, bool kFeedback>
__global__ void __launch_bounds__(kCodecThreads)
    encode_blocks(const float* gradient, float* residual, std::size_t count, std::size_t block,
                  std::byte* out) {
  const std::size_t number = warp_index();
  const std::size_t first = number * block;
  if (first >= count) return;
  const std::size_t length = count - first < block ? count - first : block;
  std::uint32_t largest = 0;
#pragma unroll 4
  for (std::size_t i = lane_index(); i < length; i += 32) {
    float value = gradient[first + i];
    if constexpr (kFeedback) {
      value = __fadd_rn(residual[first + i], value);
      residual[first + i] = value;
    }
    largest = larger(largest, magnitude_of(value));
  }
  const Scale scale = scale_with_inverse<Format>(warp_max(largest));
  if (lane_index() == 0) reinterpret_cast<float*>(out)[number] = scale.scale;
  std::byte* const codes = out + scale_bytes(count, block) + first;
#pragma unroll 4
  for (std::size_t i = lane_index(); i < length; i += 32) {
    // A lane reads the sums that it has written itself.
    const float value = kFeedback ? residual[first + i] : gradient[first + i];
    const std::uint32_t code = code_at<Format>(value, scale);
    codes[i] = static_cast<std::byte>(code);
    if constexpr (kFeedback) residual[first + i] = left_of<Format>(value, code, scale.scale);
  }
}

// kWholeRows: a row of a tile lies in one block. `shift` is the logarithm of `block`, or negative
// if `block` is no power of two.
template <typename Format, Give kGive, bool kWholeRows, bool kVectors>
__global__ void __launch_bounds__(kCodecThreads, 4)
    decode_tiles(Senders senders, std::size_t block, int shift, float* out, std::size_t count,
                 std::uint32_t* damaged) {
  const std::size_t tile = warp_index() * kTileValues;
  if (tile >= count) return;
  const std::size_t first = tile + lane_index() * 4;
  const std::size_t head = scale_bytes(count, block);
  const auto block_of = [block, shift](std::size_t i) {
    return shift >= 0 ? i >> shift : i / block;
  };
  float4 values[kTileRows];
#pragma unroll
  for (int row = 0; row < kTileRows; ++row) {
    if constexpr (kGive == Give::kAdd) {
      values[row] = load_four<kVectors>(out, first + row * kRowValues, count);
    } else {
      values[row] = {0, 0, 0, 0};
    }
  }
  bool wrong = false;
  // More senders at once would take more registers than their loads are worth.
#pragma unroll 1
  for (int s = 0; s < (kGive == Give::kValues ? 1 : senders.count); ++s) {
    const std::byte* const codes = senders.bytes[s] + head;
    const auto* const scales = reinterpret_cast<const float*>(senders.bytes[s]);
    // The scale of value i; for values behind the end that of the last one.
    const auto scale_at = [&](std::size_t i) {
      return scales[block_of(i < count ? i : count - 1)];
    };
    const float weight = senders.weights[s];
    std::uint32_t words[kTileRows];
    float row_scales[kTileRows];
#pragma unroll
    for (int row = 0; row < kTileRows; ++row) {
      words[row] = load_word(codes, first + row * kRowValues, count);
      if constexpr (kWholeRows) row_scales[row] = scale_at(tile + row * kRowValues);
    }
#pragma unroll
    for (int row = 0; row < kTileRows; ++row) {
      if constexpr (kWholeRows) wrong |= !is_scale<Format>(row_scales[row]);
      const auto give = [&](float& to, int part) {
        const std::uint32_t code = (words[row] >> (8 * part)) & 0xFFU;
        float scale;
        if constexpr (kWholeRows) {
          scale = row_scales[row];
        } else {
          scale = scale_at(first + row * kRowValues + part);
          wrong |= !is_scale<Format>(scale);
        }
        wrong |= Format::is_unused(code);
        const float value = __fmul_rn(Format::value_of(code), scale);
        to = kGive == Give::kValues ? value : __fadd_rn(to, __fmul_rn(weight, value));
      };
      give(values[row].x, 0);
      give(values[row].y, 1);
      give(values[row].z, 2);
      give(values[row].w, 3);
    }
  }
  if (wrong) *damaged = 1;
#pragma unroll
  for (int row = 0; row < kTileRows; ++row)
    store_four<kVectors>(out, first + row * kRowValues, count, values[row]);
}

template <typename Format>
class ScaledBytes final : public FixedCodec {
 public:
  ScaledBytes(const CodecUse& use, std::size_t block) : FixedCodec(use), block_(block) {}
  std::size_t max_bytes(std::size_t count) const override {
    return (count + block_ - 1) / block_ * sizeof(float) + count;
  }

 private:
  static std::size_t blocks_of_tiles(std::size_t count) {
    return blocks_for((count + kTileValues - 1) / kTileValues);
  }

  Result<void> enqueue_encode(const float* gradient, float* residual, std::size_t count,
                              std::byte* out) override {
    if (block_ == 128) return encode_by_tiles<128>(gradient, residual, count, out);
    if (block_ == 256) return encode_by_tiles<256>(gradient, residual, count, out);
    if (block_ == 512) return encode_by_tiles<512>(gradient, residual, count, out);
    return with_flag(residual != nullptr, [&]<bool kFeedback>() {
      return launch(device(), encode_blocks<Format, kFeedback>,
                    blocks_for((count + block_ - 1) / block_), gradient, residual, count, block_,
                    out);
    });
  }
  template <int kBlock>
  Result<void> encode_by_tiles(const float* gradient, float* residual, std::size_t count,
                               std::byte* out) {
    return with_flag(is_aligned(gradient, 16) && is_aligned(residual, 16), [&]<bool kVectors>() {
      return with_flag(residual != nullptr, [&]<bool kFeedback>() {
        return launch(device(), encode_tiles<Format, kBlock, kFeedback, kVectors>,
                      blocks_of_tiles(count), gradient, residual, count, out);
      });
    });
  }
  Result<void> enqueue_decode(Give give, const Senders& senders, float* out,
                              std::size_t count) override {
    int shift = -1;
    for (int bits = 0; bits < 32; ++bits)
      if (std::size_t{1} << bits == block_) shift = bits;
    return with_flag(is_aligned(out, 16), [&]<bool kVectors>() {
      return with_flag(block_ % kRowValues == 0, [&]<bool kWholeRows>() {
        return with_give(give, [&]<Give kGive>() {
          return launch(device(), decode_tiles<Format, kGive, kWholeRows, kVectors>,
                        blocks_of_tiles(count), senders, block_, shift, out, count, damaged());
        });
      });
    });
  }

  const std::size_t block_;
};

}  // namespace

Result<std::unique_ptr<exchange::DeviceCodec>> make_scaled_bytes(const plan::CodecSpec& spec,
                                                                 const CodecUse& use) {
  if (spec.kind == plan::Codec::kInt8) return made<ScaledBytes<Int8>>(use, spec.block);
  if (spec.fp8 == plan::Fp8Format::kE4m3) return made<ScaledBytes<E4m3>>(use, spec.block);
  return made<ScaledBytes<E5m2>>(use, spec.block);
}

}  // namespace tally::cuda
