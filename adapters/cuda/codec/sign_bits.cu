// sign and onebit: a bitmap of the negative values, and one or two means per block, as
// codec/sign/sign_codecs.cc has them.
//
// The CPU adds value i of each 512 values to float lane i % 32 of its side, adds the lanes by
// halves, and the sums of 512 values in double. A warp does the same: lane i has value i of each 32
// values, which are a word of the bitmap. Blocks of 128, 256 and 512 values lie in the tile of one
// warp, which reads them once.
#include "adapters/cuda/codec/codec_families.h"
#include "adapters/cuda/codec/codec_math.cuh"
#include "adapters/cuda/codec/launch.cuh"

namespace tally::cuda {
namespace {

constexpr std::size_t kWord = 32;
constexpr int kTileWords = kTileValues / kWord;
constexpr std::size_t kChunk = 512;  // kernel::kSignChunk

// The layout of codec::BlockLayout with codes of one bit.
struct Layout {
  std::size_t count, block, missing;
  int floats;  // per block: 1 for sign, 2 for onebit

  __host__ __device__ std::size_t blocks() const {
    return count == 0 ? 0 : (count + missing + block - 1) / block;
  }
  __host__ __device__ std::size_t first(std::size_t b) const {
    return b == 0 ? 0 : b * block - missing;
  }
  __host__ __device__ std::size_t length(std::size_t b) const {
    const std::size_t next = (b + 1) * block - missing;
    return (next < count ? next : count) - first(b);
  }
  __host__ __device__ std::size_t head_bytes() const { return blocks() * floats * sizeof(float); }
  __host__ __device__ std::size_t codes_at(std::size_t b) const {
    return b == 0 ? 0 : (block - missing + 7) / 8 + (b - 1) * ((block + 7) / 8);
  }
  __host__ __device__ std::size_t code_bytes(std::size_t b) const { return (length(b) + 7) / 8; }
  __host__ __device__ std::size_t bytes() const {
    if (count == 0) return 0;
    return head_bytes() + codes_at(blocks() - 1) + code_bytes(blocks() - 1);
  }
};

__device__ inline double not_finite_sum() { return __longlong_as_double(0x7FF8000000000000LL); }
__device__ inline bool is_finite_sum(double sum) {
  return ((__double_as_longlong(sum) >> 52) & 0x7FF) != 0x7FF;
}

struct Sides {
  double negative = 0, other = 0;
  unsigned negatives = 0;  // their number
};

// Adds the lanes of both sides by halves; every lane gets both sums. Lanes below 16 go on with the
// negative side, the others with the other side.
__device__ inline void add_lanes(float negative, float other, float& negative_sum,
                                 float& other_sum) {
  const bool low = lane_index() < 16;
  float own = low ? negative : other;
  const float sent = low ? other : negative;
  own = __fadd_rn(own, __shfl_xor_sync(kAllLanes, sent, 16));
#pragma unroll
  for (int half = 8; half > 0; half /= 2)
    own = __fadd_rn(own, __shfl_xor_sync(kAllLanes, own, half));
  negative_sum = __shfl_sync(kAllLanes, own, 0);
  other_sum = __shfl_sync(kAllLanes, own, 16);
}

// The numbers of a block: the mean magnitude for sign; for onebit the means of the two sides.
struct Means {
  float clear, set;  // the values of bits
};
template <bool kTwo>
__device__ Means means_of(const Sides& sides, std::size_t length) {
  if constexpr (kTwo) {
    if (!is_finite_sum(sides.negative) || !is_finite_sum(sides.other))
      return {not_finite(), not_finite()};
    const auto mean = [](double sum, std::size_t values) {
      return values == 0 ? 0.0F : __double2float_rn(__ddiv_rn(sum, static_cast<double>(values)));
    };
    return {mean(sides.other, length - sides.negatives), mean(sides.negative, sides.negatives)};
  } else {
    const double sum = __dsub_rn(sides.other, sides.negative);
    const float mean = is_finite_sum(sum)
                           ? __double2float_rn(__ddiv_rn(sum, static_cast<double>(length)))
                           : not_finite();
    return {mean, -mean};
  }
}
template <bool kTwo>
__device__ void store_means(std::byte* out, std::size_t b, const Means& means) {
  auto* const floats = reinterpret_cast<float*>(out);
  if constexpr (kTwo) {
    floats[2 * b] = means.set;
    floats[2 * b + 1] = means.clear;
  } else {
    floats[b] = means.clear;
  }
}

__device__ inline float left_of(float value, const Means& means) {
  return finite_or_zero(__fsub_rn(value, value < 0 ? means.set : means.clear));
}

// Sums of finite values whose float lanes overflow, one value after the other. `residual` may be
// null. Not inlined: such sums are rare, and the registers of the usual path decide how many loads
// are in flight.
struct DoubleSums {
  double negative, other;
};
__device__ __noinline__ DoubleSums sums_in_double(const float* gradient, const float* residual,
                                                  std::size_t length) {
  DoubleSums sums = {0, 0};
  for (std::size_t i = 0; i < length; ++i) {
    const float value = residual == nullptr ? gradient[i] : __fadd_rn(residual[i], gradient[i]);
    double& side = value < 0 ? sums.negative : sums.other;
    side = __dadd_rn(side, static_cast<double>(value));
  }
  return sums;
}

// Loads the values of a lane: one of each word. Those behind the end are 0. Whole tiles are loaded
// unconditionally, so that all loads are in flight at once.
__device__ inline void load_lane(const float* from, unsigned lane, unsigned left,
                                 float (&values)[kTileWords]) {
  if (left == kTileValues) {
#pragma unroll
    for (int w = 0; w < kTileWords; ++w) values[w] = from[w * kWord];
  } else {
#pragma unroll
    for (int w = 0; w < kTileWords; ++w)
      values[w] = w * kWord + lane < left ? from[w * kWord] : 0.0F;
  }
}

template <bool kTwo, int kBlock, bool kFeedback>
__global__ void __launch_bounds__(kCodecThreads)
    encode_sign_tiles(const float* gradient, float* residual, Layout layout, std::byte* out) {
  constexpr int kWords = kBlock / static_cast<int>(kWord);  // of a block
  constexpr int kBlocks = kTileWords / kWords;
  static_assert(kBlock <= kChunk && kTileWords % kWords == 0);
  const std::size_t count = layout.count;
  const std::size_t tile = warp_index() * kTileValues;
  if (tile >= count) return;
  const unsigned lane = lane_index();
  // In 32 bits, and with pointers to the first value of the lane: otherwise address arithmetic
  // would outweigh memory traffic.
  const unsigned left = count - tile < kTileValues ? static_cast<unsigned>(count - tile)
                                                   : static_cast<unsigned>(kTileValues);
  const auto has = [left, lane](int w) { return w * kWord + lane < left; };
  float* const own_residual = kFeedback ? residual + tile + lane : nullptr;
  float values[kTileWords];
  load_lane(gradient + tile + lane, lane, left, values);
  if constexpr (kFeedback) {
    float kept[kTileWords];
    load_lane(own_residual, lane, left, kept);
#pragma unroll
    for (int w = 0; w < kTileWords; ++w) values[w] = __fadd_rn(kept[w], values[w]);
  }

  std::uint32_t word = 0;  // word `lane` of the tile's bitmap
  Sides sides;             // of block `lane` of the tile
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    float negative = 0, other = 0;
    Sides own;
#pragma unroll
    for (int w = block * kWords; w < (block + 1) * kWords; ++w) {
      const bool below = values[w] < 0;
      const std::uint32_t bits = __ballot_sync(kAllLanes, below);
      if (lane == static_cast<unsigned>(w)) word = bits;
      own.negatives += static_cast<unsigned>(__popc(bits));
      negative = __fadd_rn(negative, below ? values[w] : 0.0F);
      other = __fadd_rn(other, below ? 0.0F : values[w]);
    }
    float negative_sum, other_sum;
    add_lanes(negative, other, negative_sum, other_sum);
    own.negative = static_cast<double>(negative_sum);
    own.other = static_cast<double>(other_sum);
    if (!is_finite(negative_sum) || !is_finite(other_sum)) {
      bool finite = true;
#pragma unroll
      for (int w = block * kWords; w < (block + 1) * kWords; ++w)
        finite = finite && is_finite(values[w]);
      if (__all_sync(kAllLanes, finite)) {
        const std::size_t begin = tile + static_cast<std::size_t>(block) * kBlock;
        const std::size_t length = count - begin < kBlock ? count - begin : kBlock;
        const DoubleSums sums =
            sums_in_double(gradient + begin, kFeedback ? residual + begin : nullptr, length);
        own.negative = sums.negative;
        own.other = sums.other;
      } else {
        own.negative = own.other = not_finite_sum();
      }
    }
    if (lane == static_cast<unsigned>(block)) sides = own;
  }

  // Lane b divides for block b of the tile.
  Means means = {0, 0};
  if (lane < kBlocks && tile + lane * kBlock < count) {
    const std::size_t b = tile / kBlock + lane;
    means = means_of<kTwo>(sides, layout.length(b));
    store_means<kTwo>(out, b, means);
  }
  if (lane < kTileWords)
    store_word(out + layout.head_bytes(), tile / 8 + lane * 4, (count + 7) / 8, word);

  if constexpr (kFeedback) {
    __syncwarp();
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const Means own = {__shfl_sync(kAllLanes, means.clear, block),
                         __shfl_sync(kAllLanes, means.set, block)};
#pragma unroll
      for (int w = block * kWords; w < (block + 1) * kWords; ++w)
        if (has(w)) own_residual[w * kWord] = left_of(values[w], own);
    }
  }
}

// One warp per block of any size.
template <bool kTwo, bool kFeedback>
__global__ void __launch_bounds__(kCodecThreads)
    encode_sign_blocks(const float* gradient, float* residual, Layout layout, std::byte* out) {
  const std::size_t b = warp_index();
  if (b >= layout.blocks()) return;
  const std::size_t first = layout.first(b);
  const std::size_t length = layout.length(b);
  const unsigned lane = lane_index();
  std::byte* const codes = out + layout.head_bytes() + layout.codes_at(b);
  const float* const values = kFeedback ? residual + first : gradient + first;
  bool finite = true;
  Sides sides;
  for (std::size_t chunk = 0; chunk < length; chunk += kChunk) {
    float negative = 0, other = 0;
#pragma unroll 4
    for (std::size_t at = chunk; at < chunk + kChunk; at += kWord) {
      const std::size_t i = at + lane;
      float value = i < length ? gradient[first + i] : 0.0F;
      if constexpr (kFeedback) {
        if (i < length) {
          value = __fadd_rn(residual[first + i], value);
          residual[first + i] = value;
        }
      }
      const bool below = value < 0;
      const std::uint32_t bits = __ballot_sync(kAllLanes, below);
      if (lane < 4 && at + lane * 8 < length)
        codes[at / 8 + lane] = static_cast<std::byte>(bits >> (8 * lane));
      sides.negatives += static_cast<unsigned>(__popc(bits));
      negative = __fadd_rn(negative, below ? value : 0.0F);
      other = __fadd_rn(other, below ? 0.0F : value);
      finite = finite && is_finite(value);
    }
    float negative_sum, other_sum;
    add_lanes(negative, other, negative_sum, other_sum);
    sides.negative = __dadd_rn(sides.negative, static_cast<double>(negative_sum));
    sides.other = __dadd_rn(sides.other, static_cast<double>(other_sum));
  }
  finite = __all_sync(kAllLanes, finite);
  if (!finite) {
    sides.negative = sides.other = not_finite_sum();
  } else if (!is_finite_sum(sides.negative) || !is_finite_sum(sides.other)) {
    __syncwarp();
    const DoubleSums sums = sums_in_double(values, nullptr, length);
    sides.negative = sums.negative;
    sides.other = sums.other;
  }
  const Means means = means_of<kTwo>(sides, length);
  if (lane == 0) store_means<kTwo>(out, b, means);
  if constexpr (kFeedback) {
    __syncwarp();
#pragma unroll 4
    for (std::size_t i = lane; i < length; i += 32)
      residual[first + i] = left_of(residual[first + i], means);
  }
}

// Whether an encoder may write these means; as BitmapCodec::checked().
template <bool kTwo>
__device__ bool is_means(const Means& means) {
  const auto is_scale = [](float scale) {
    return (__float_as_uint(scale) & kMagnitude) > kInfinityBits ||
           (is_finite(scale) && scale >= 0);
  };
  const auto is_nan = [](float value) {
    return (__float_as_uint(value) & kMagnitude) > kInfinityBits;
  };
  if (kTwo && (is_nan(means.set) != is_nan(means.clear) || !is_scale(-means.set))) return false;
  return is_scale(means.clear);
}
template <bool kTwo>
__device__ Means load_means(const std::byte* bytes, std::size_t b) {
  const auto* const floats = reinterpret_cast<const float*>(bytes);
  if constexpr (kTwo) return {floats[2 * b + 1], floats[2 * b]};
  return {floats[b], -floats[b]};
}

// Blocks that are a multiple of a row of 128 values: the bitmap has no gaps, and each row lies in
// one block.
template <bool kTwo, Give kGive, bool kVectors>
__global__ void __launch_bounds__(kCodecThreads, 4)
    decode_sign_tiles(Senders senders, Layout layout, int shift, float* out,
                      std::uint32_t* damaged) {
  const std::size_t count = layout.count;
  const std::size_t tile = warp_index() * kTileValues;
  if (tile >= count) return;
  const unsigned lane = lane_index();
  const std::size_t first = tile + lane * 4;
  const std::size_t head = layout.head_bytes();
  const std::size_t bits_size = (count + 7) / 8;
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
    const std::byte* const bytes = senders.bytes[s];
    std::uint32_t words[kTileRows];
    Means means[kTileRows];
#pragma unroll
    for (int row = 0; row < kTileRows; ++row) {
      // Eight lanes share a word of 32 bits.
      const std::size_t word_at = (tile + row * kRowValues) / 8 + lane / 8 * 4;
      words[row] = load_word(bytes + head, word_at, bits_size) >> (lane % 8 * 4);
      const std::size_t i = tile + row * kRowValues;
      const std::size_t at = i < count ? i : count - 1;
      means[row] = load_means<kTwo>(bytes, shift >= 0 ? at >> shift : at / layout.block);
    }
#pragma unroll
    for (int row = 0; row < kTileRows; ++row) {
      wrong |= !is_means<kTwo>(means[row]);
      const float weight = senders.weights[s];
      const float clear =
          kGive == Give::kValues ? means[row].clear : __fmul_rn(weight, means[row].clear);
      const float set = kGive == Give::kValues ? means[row].set : __fmul_rn(weight, means[row].set);
      const auto give = [&](float& to, int part) {
        const float value = (words[row] >> part) & 1U ? set : clear;
        to = kGive == Give::kValues ? value : __fadd_rn(to, value);
      };
      give(values[row].x, 0);
      give(values[row].y, 1);
      give(values[row].z, 2);
      give(values[row].w, 3);
      // Bits behind the last value are clear.
      if (tile + kTileValues > count) {
        for (unsigned part = 0; part < 4; ++part)
          wrong |= ((words[row] >> part) & 1U) != 0 && first + row * kRowValues + part >= count;
      }
    }
  }
  if (wrong) *damaged = 1;
#pragma unroll
  for (int row = 0; row < kTileRows; ++row)
    store_four<kVectors>(out, first + row * kRowValues, count, values[row]);
}

// One warp per block of any size.
template <bool kTwo, Give kGive>
__global__ void __launch_bounds__(kCodecThreads)
    decode_sign_blocks(Senders senders, Layout layout, float* out, std::uint32_t* damaged) {
  const std::size_t b = warp_index();
  if (b >= layout.blocks()) return;
  const std::size_t first = layout.first(b);
  const std::size_t length = layout.length(b);
  const std::size_t codes = layout.head_bytes() + layout.codes_at(b);
  bool wrong = false;
  for (int s = 0; s < senders.count; ++s) {
    wrong = wrong || !is_means<kTwo>(load_means<kTwo>(senders.bytes[s], b));
    if (length % 8 != 0) {
      const auto last = static_cast<unsigned>(senders.bytes[s][codes + length / 8]);
      wrong = wrong || last >> (length % 8) != 0;
    }
  }
  if (wrong) *damaged = 1;
  for (std::size_t i = lane_index(); i < length; i += 32) {
    float value = kGive == Give::kAdd ? out[first + i] : 0.0F;
    for (int s = 0; s < senders.count; ++s) {
      const std::byte* const bytes = senders.bytes[s];
      const Means means = load_means<kTwo>(bytes, b);
      const bool is_set = (static_cast<unsigned>(bytes[codes + i / 8]) >> (i % 8) & 1U) != 0;
      const float own = is_set ? means.set : means.clear;
      value = kGive == Give::kValues ? own : __fadd_rn(value, __fmul_rn(senders.weights[s], own));
    }
    out[first + i] = value;
  }
}

template <bool kTwo>
class SignBits final : public FixedCodec {
 public:
  SignBits(const CodecUse& use, std::size_t block, std::size_t missing)
      : FixedCodec(use), block_(block), missing_(missing) {}
  std::size_t max_bytes(std::size_t count) const override { return layout_of(count).bytes(); }

 private:
  Layout layout_of(std::size_t count) const {
    return {.count = count, .block = block_, .missing = missing_, .floats = kTwo ? 2 : 1};
  }
  static std::size_t blocks_of_tiles(std::size_t count) {
    return blocks_for((count + kTileValues - 1) / kTileValues);
  }

  Result<void> enqueue_encode(const float* gradient, float* residual, std::size_t count,
                              std::byte* out) override {
    const Layout layout = layout_of(count);
    return with_flag(residual != nullptr, [&]<bool kFeedback>() {
      const auto by_tiles = [&](auto kernel) {
        return launch(device(), kernel, blocks_of_tiles(count), gradient, residual, layout, out);
      };
      if (missing_ == 0 && block_ == 128) return by_tiles(&encode_sign_tiles<kTwo, 128, kFeedback>);
      if (missing_ == 0 && block_ == 256) return by_tiles(&encode_sign_tiles<kTwo, 256, kFeedback>);
      if (missing_ == 0 && block_ == 512) return by_tiles(&encode_sign_tiles<kTwo, 512, kFeedback>);
      return launch(device(), encode_sign_blocks<kTwo, kFeedback>, blocks_for(layout.blocks()),
                    gradient, residual, layout, out);
    });
  }
  Result<void> enqueue_decode(Give give, const Senders& senders, float* out,
                              std::size_t count) override {
    const Layout layout = layout_of(count);
    int shift = -1;
    for (int bits = 0; bits < 32; ++bits)
      if (std::size_t{1} << bits == block_) shift = bits;
    if (missing_ != 0 || block_ % kRowValues != 0) {
      return with_give(give, [&]<Give kGive>() {
        return launch(device(), decode_sign_blocks<kTwo, kGive>, blocks_for(layout.blocks()),
                      senders, layout, out, damaged());
      });
    }
    return with_flag(is_aligned(out, 16), [&]<bool kVectors>() {
      return with_give(give, [&]<Give kGive>() {
        return launch(device(), decode_sign_tiles<kTwo, kGive, kVectors>, blocks_of_tiles(count),
                      senders, layout, shift, out, damaged());
      });
    });
  }

  const std::size_t block_;
  const std::size_t missing_;  // of the first block
};

}  // namespace

Result<std::unique_ptr<exchange::DeviceCodec>> make_sign_bits(const plan::CodecSpec& spec,
                                                              const CodecUse& use) {
  constexpr std::size_t kWhole = 0;  // the first block misses nothing
  if (spec.kind == plan::Codec::kSign) return made<SignBits<false>>(use, spec.block, kWhole);
  if (!spec.by_column || use.shape.columns == 0)
    return made<SignBits<true>>(use, spec.block, kWhole);
  const codec::Shape& shape = use.shape;
  if (shape.first >= shape.columns)
    return Error{.code = ErrorCode::kInvalid,
                 .message = "a run that begins behind the last column of its matrix"};
  return made<SignBits<true>>(use, shape.columns, shape.first);
}

}  // namespace tally::cuda
