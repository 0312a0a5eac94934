// Codecs without scales: float32 as it is, fp16 and bf16. As kernel::Kernels::narrow() and widen().
#include <cuda_fp16.h>

#include "adapters/cuda/codec/codec_families.h"
#include "adapters/cuda/codec/codec_math.cuh"
#include "adapters/cuda/codec/launch.cuh"

namespace tally::cuda {
namespace {

// A format turns values into codes of kBytes each; Four has the codes of four values.
struct Float32 {
  static constexpr std::size_t kBytes = 4;
  using Code = std::uint32_t;
  using Four = uint4;
  __device__ static Code code_of(float value) { return __float_as_uint(value); }
  __device__ static float value_of(Code code) { return __uint_as_float(code); }
  __device__ static Four packed(Code a, Code b, Code c, Code d) { return {a, b, c, d}; }
  __device__ static Code part(const Four& four, int i) {
    return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
  }
};

// Two codes of 16 bits per word.
struct Halves {
  static constexpr std::size_t kBytes = 2;
  using Code = std::uint16_t;
  using Four = uint2;
  __device__ static Four packed(Code a, Code b, Code c, Code d) {
    return {a | static_cast<std::uint32_t>(b) << 16, c | static_cast<std::uint32_t>(d) << 16};
  }
  __device__ static Code part(const Four& four, int i) {
    const std::uint32_t word = i < 2 ? four.x : four.y;
    return static_cast<Code>(i % 2 == 0 ? word : word >> 16);
  }
};

struct BFloat16 : Halves {
  __device__ static Code code_of(float value) {
    const std::uint32_t bits = __float_as_uint(value);
    if ((bits & kMagnitude) > kInfinityBits) return static_cast<Code>((bits >> 16) | 0x40U);
    return static_cast<Code>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
  __device__ static float value_of(Code code) {
    return __uint_as_float(static_cast<std::uint32_t>(code) << 16);
  }
};

struct Float16 : Halves {
  __device__ static Code code_of(float value) {
    const std::uint32_t bits = __float_as_uint(value);
    // The conversion of the GPU would lose the sign and the payload of a NaN.
    if ((bits & kMagnitude) > kInfinityBits)
      return static_cast<Code>(((bits >> 16) & 0x8000U) | 0x7E00U | ((bits >> 13) & 0x3FFU));
    return __half_as_ushort(__float2half_rn(value));
  }
  __device__ static float value_of(Code code) { return __half2float(__ushort_as_half(code)); }
};

template <typename Format>
__device__ typename Format::Four load_codes(const std::byte* bytes, std::size_t i,
                                            std::size_t count) {
  using Code = typename Format::Code;
  const auto* codes = reinterpret_cast<const Code*>(bytes);
  if (i + 4 <= count) return *reinterpret_cast<const typename Format::Four*>(codes + i);
  const auto at = [&](std::size_t k) { return k < count ? codes[k] : Code{0}; };
  return Format::packed(at(i), at(i + 1), at(i + 2), at(i + 3));
}

// The residual of a value after its code was sent.
template <typename Format>
__device__ float left_of(float value, typename Format::Code code) {
  return finite_or_zero(__fsub_rn(value, Format::value_of(code)));
}

template <typename Format, bool kFeedback, bool kVectors>
__global__ void __launch_bounds__(kCodecThreads)
    encode_casts(const float* gradient, float* residual, std::size_t count, std::byte* out) {
  const std::size_t first = warp_index() * kTileValues + lane_index() * 4;
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
  using Code = typename Format::Code;
  auto* const codes = reinterpret_cast<Code*>(out);
#pragma unroll
  for (int row = 0; row < kTileRows; ++row) {
    const std::size_t i = first + row * kRowValues;
    const float4 v = values[row];
    const Code a = Format::code_of(v.x), b = Format::code_of(v.y);
    const Code c = Format::code_of(v.z), d = Format::code_of(v.w);
    if (i + 4 <= count) {
      *reinterpret_cast<typename Format::Four*>(codes + i) = Format::packed(a, b, c, d);
    } else {
      if (i < count) codes[i] = a;
      if (i + 1 < count) codes[i + 1] = b;
      if (i + 2 < count) codes[i + 2] = c;
    }
    if constexpr (kFeedback)
      store_four<kVectors>(residual, i, count,
                           {left_of<Format>(v.x, a), left_of<Format>(v.y, b),
                            left_of<Format>(v.z, c), left_of<Format>(v.w, d)});
  }
}

template <typename Format, Give kGive, bool kVectors>
__global__ void __launch_bounds__(kCodecThreads)
    decode_casts(Senders senders, float* out, std::size_t count) {
  const std::size_t first = warp_index() * kTileValues + lane_index() * 4;
  float4 values[kTileRows];
#pragma unroll
  for (int row = 0; row < kTileRows; ++row) {
    if constexpr (kGive == Give::kAdd) {
      values[row] = load_four<kVectors>(out, first + row * kRowValues, count);
    } else {
      values[row] = {0, 0, 0, 0};
    }
  }
  // More senders at once would take more registers than their loads are worth.
#pragma unroll 1
  for (int s = 0; s < (kGive == Give::kValues ? 1 : senders.count); ++s) {
    typename Format::Four codes[kTileRows];
#pragma unroll
    for (int row = 0; row < kTileRows; ++row)
      codes[row] = load_codes<Format>(senders.bytes[s], first + row * kRowValues, count);
    const float weight = senders.weights[s];
    const auto give = [weight](float& to, typename Format::Code code) {
      const float value = Format::value_of(code);
      to = kGive == Give::kValues ? value : __fadd_rn(to, __fmul_rn(weight, value));
    };
#pragma unroll
    for (int row = 0; row < kTileRows; ++row) {
      give(values[row].x, Format::part(codes[row], 0));
      give(values[row].y, Format::part(codes[row], 1));
      give(values[row].z, Format::part(codes[row], 2));
      give(values[row].w, Format::part(codes[row], 3));
    }
  }
#pragma unroll
  for (int row = 0; row < kTileRows; ++row)
    store_four<kVectors>(out, first + row * kRowValues, count, values[row]);
}

template <typename Format>
class Casts final : public FixedCodec {
 public:
  explicit Casts(const CodecUse& use) : FixedCodec(use) {}
  std::size_t max_bytes(std::size_t count) const override { return count * Format::kBytes; }

 private:
  static std::size_t blocks_of(std::size_t count) {
    return blocks_for((count + kTileValues - 1) / kTileValues);
  }

  Result<void> enqueue_encode(const float* gradient, float* residual, std::size_t count,
                              std::byte* out) override {
    return with_flag(is_aligned(gradient, 16) && is_aligned(residual, 16), [&]<bool kVectors>() {
      return with_flag(residual != nullptr, [&]<bool kFeedback>() {
        return launch(device(), encode_casts<Format, kFeedback, kVectors>, blocks_of(count),
                      gradient, residual, count, out);
      });
    });
  }
  Result<void> enqueue_decode(Give give, const Senders& senders, float* out,
                              std::size_t count) override {
    return with_flag(is_aligned(out, 16), [&]<bool kVectors>() {
      return with_give(give, [&]<Give kGive>() {
        return launch(device(), decode_casts<Format, kGive, kVectors>, blocks_of(count), senders,
                      out, count);
      });
    });
  }
};

}  // namespace

Result<std::unique_ptr<exchange::DeviceCodec>> make_casts(const plan::CodecSpec& spec,
                                                          const CodecUse& use) {
  if (spec.kind == plan::Codec::kFp16) return made<Casts<Float16>>(use);
  if (spec.kind == plan::Codec::kBf16) return made<Casts<BFloat16>>(use);
  return made<Casts<Float32>>(use);
}

}  // namespace tally::cuda
