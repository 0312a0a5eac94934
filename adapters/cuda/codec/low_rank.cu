// PowerSGD for one matrix. Every kernel reads the matrix in vectors of four columns per lane, 128
// per warp, and keeps the sums for up to kColumnsAtOnce columns of a factor in registers.
//
//   project        a warp, or a block where there are few rows, has four rows of the matrix
//   orthonormalise one block; modified Gram-Schmidt in double as in codec/lowrank/powersgd.cc,
//                  where each pass subtracts one projection and computes the next
//   correlate      a warp has 128 columns and every eighth four rows of a run; the sums of the runs
//                  are added in a second kernel, in their order, so that results are repeatable
//   finish         the right factor's magnitudes, then the product, then the next Q
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "adapters/cuda/codec/codec_math.cuh"
#include "adapters/cuda/codec/launch.cuh"
#include "adapters/cuda/codec/low_rank_kernels.h"

namespace tally::cuda {
namespace {

constexpr int kRowsAtOnce = 4;
constexpr int kComponents = 4;  // of a vector

// As codec::powersgd: a column whose remainder is below this share of its norm is dependent.
constexpr double kLeastShare = 1e-8;

__device__ inline float component(const float4& four, int c) {
  return c == 0 ? four.x : c == 1 ? four.y : c == 2 ? four.z : four.w;
}
__device__ inline float4 sum_of(const float4& a, const float4& b) {
  return {__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z), __fadd_rn(a.w, b.w)};
}

template <typename T>
__device__ T warp_total(T value) {
  for (int half = 16; half > 0; half /= 2) value += __shfl_xor_sync(kAllLanes, value, half);
  return value;
}
// The sum over the block, for every thread; `partial` has kWarps elements.
__device__ inline double block_total(double value, double* partial) {
  const double own = warp_total(value);
  __syncthreads();
  if (lane_index() == 0) partial[threadIdx.x / 32] = own;
  __syncthreads();
  double sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += partial[w];
  return sum;
}

// kSplit warps share four rows. kAdds: adds the gradient first.
template <int kRank, int kSplit, bool kAdds, bool kVectors>
__global__ void __launch_bounds__(kCodecThreads) project_rows(LowRankProject task) {
  __shared__ float partial[kWarps][kRowsAtOnce * kRank];
  const std::size_t rows = task.shape.rows, columns = task.shape.columns;
  const std::size_t first = warp_index() / kSplit * kRowsAtOnce;
  if (first >= rows) return;
  const unsigned lane = lane_index(), warp = threadIdx.x / 32;
  float sums[kRowsAtOnce][kRank] = {};
  for (std::size_t begin = warp % kSplit * kRowValues; begin < columns;
       begin += kSplit * kRowValues) {
    const std::size_t j = begin + lane * kComponents;
    float4 values[kRowsAtOnce];
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r)
      values[r] = first + r < rows
                      ? load_four<kVectors>(task.matrix + (first + r) * columns, j, columns)
                      : float4{0, 0, 0, 0};
    if constexpr (kAdds) {
      float4 added[kRowsAtOnce];
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r)
        added[r] = first + r < rows
                       ? load_four<kVectors>(task.gradient + (first + r) * columns, j, columns)
                       : float4{0, 0, 0, 0};
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        values[r] = sum_of(values[r], added[r]);
        if (first + r < rows)
          store_four<kVectors>(task.matrix + (first + r) * columns, j, columns, values[r]);
      }
    }
#pragma unroll
    for (int k = 0; k < kRank; ++k) {
      const float4 right = load_four<kVectors>(task.right + k * columns, j, columns);
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r)
#pragma unroll
        for (int c = 0; c < kComponents; ++c)
          sums[r][k] = __fmaf_rn(component(values[r], c), component(right, c), sums[r][k]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsAtOnce; ++r)
#pragma unroll
    for (int k = 0; k < kRank; ++k) {
      const float sum = warp_total(sums[r][k]);
      if (lane == 0) partial[warp][r * kRank + k] = sum;
    }
  // With kSplit = kWarps all warps of the block are here.
  if constexpr (kSplit == 1) {
    __syncwarp();
  } else {
    static_assert(kSplit == kWarps);
    __syncthreads();
    if (warp != 0) return;
  }
  for (unsigned e = lane; e < kRowsAtOnce * kRank; e += 32) {
    float sum = partial[warp][e];
    for (int w = 1; w < kSplit; ++w) sum = __fadd_rn(sum, partial[w][e]);
    const std::size_t row = first + e / kRank;
    if (row < rows) task.left[e % kRank * rows + row] = __fmul_rn(task.weight, sum);
  }
}

__global__ void __launch_bounds__(kCodecThreads)
    orthonormalise_columns(std::size_t rows, int rank, float share, float* left, double* wide) {
  __shared__ double partial[kWarps];
  for (int k = 0; k < rank; ++k) {
    double* const own = wide + k * rows;
    float* const column = left + k * rows;
    // The squares of the column, and the products with the first one before it.
    double square = 0, product = 0;
    for (std::size_t i = threadIdx.x; i < rows; i += kCodecThreads) {
      const auto value = static_cast<double>(__fmul_rn(share, column[i]));
      own[i] = value;
      square += value * value;
      if (k > 0) product += wide[i] * value;
    }
    square = block_total(square, partial);
    const double before = __dsqrt_rn(square);
    if (k > 0) product = block_total(product, partial);
    // Each thread reads and writes the same elements in all passes.
    for (int other = 0; other < k; ++other) {
      const double* const basis = wide + other * rows;
      const double* const next = other + 1 < k ? basis + rows : own;
      double sum = 0;
      for (std::size_t i = threadIdx.x; i < rows; i += kCodecThreads) {
        const double value = own[i] - product * basis[i];
        own[i] = value;
        sum += (other + 1 < k ? next[i] : value) * value;
      }
      product = block_total(sum, partial);
      if (other + 1 == k) square = product;
    }
    const double length = __dsqrt_rn(square);
    const bool is_number = std::isfinite(length) && std::isfinite(before);
    const double factor = length > before * kLeastShare ? 1 / length : 0;
    for (std::size_t i = threadIdx.x; i < rows; i += kCodecThreads) {
      own[i] = is_number ? own[i] * factor : __longlong_as_double(0x7FF8000000000000LL);
      column[i] = __double2float_rn(own[i]);
    }
  }
}

// Sums of a run of rows for 128 columns: sums[(part * rank + k) * columns + j].
template <int kRank, bool kVectors>
__global__ void __launch_bounds__(kCodecThreads)
    correlate_columns(LowRankCorrelate task, int first_of_rank, std::size_t tiles) {
  __shared__ float partial[kWarps][kRowValues];
  const std::size_t rows = task.shape.rows, columns = task.shape.columns;
  const std::size_t tile = blockIdx.x % tiles, part = blockIdx.x / tiles;
  const std::size_t each = (rows + task.parts - 1) / task.parts;
  const std::size_t begin = part * each;
  const std::size_t end = begin + each < rows ? begin + each : rows;
  const unsigned lane = lane_index(), warp = threadIdx.x / 32;
  const std::size_t j = tile * kRowValues + lane * kComponents;
  const float* const left = task.left + first_of_rank * rows;
  float sums[kRank][kComponents] = {};
  for (std::size_t i = begin + warp * kRowsAtOnce; i < end; i += kWarps * kRowsAtOnce) {
    float4 values[kRowsAtOnce];
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r)
      values[r] = i + r < end ? load_four<kVectors>(task.matrix + (i + r) * columns, j, columns)
                              : float4{0, 0, 0, 0};
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r)
#pragma unroll
      for (int k = 0; k < kRank; ++k) {
        const float factor = i + r < end ? left[k * rows + i + r] : 0.0F;
#pragma unroll
        for (int c = 0; c < kComponents; ++c)
          sums[k][c] = __fmaf_rn(component(values[r], c), factor, sums[k][c]);
      }
  }
#pragma unroll
  for (int k = 0; k < kRank; ++k) {
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kComponents; ++c) partial[warp][lane * kComponents + c] = sums[k][c];
    __syncthreads();
    const std::size_t column = tile * kRowValues + threadIdx.x;
    if (threadIdx.x < kRowValues && column < columns) {
      float sum = partial[0][threadIdx.x];
      for (int w = 1; w < kWarps; ++w) sum = __fadd_rn(sum, partial[w][threadIdx.x]);
      const auto number = static_cast<std::size_t>(first_of_rank + k);
      task.sums[(part * static_cast<std::size_t>(task.shape.rank) + number) * columns + column] =
          sum;
    }
  }
}

__global__ void __launch_bounds__(kCodecThreads)
    add_parts(const float* sums, std::size_t parts, std::size_t count, float weight, float* right) {
  const std::size_t i = std::size_t{blockIdx.x} * kCodecThreads + threadIdx.x;
  if (i >= count) return;
  float sum = sums[i];
  for (std::size_t part = 1; part < parts; ++part) sum = __fadd_rn(sum, sums[part * count + i]);
  right[i] = __fmul_rn(weight, sum);
}

// Block k: scales column k of the right factor, and writes the bits of its largest magnitude; block
// rank + k: those of column k of the left factor.
__global__ void __launch_bounds__(kCodecThreads) scale_right(LowRankFinish task) {
  __shared__ std::uint32_t partial[kWarps];
  const auto rank = static_cast<std::size_t>(task.shape.rank);
  const bool is_right = blockIdx.x < rank;
  const std::size_t count = is_right ? task.shape.columns : task.shape.rows;
  std::uint32_t largest = 0;
  for (std::size_t i = threadIdx.x; i < count; i += kCodecThreads) {
    float value;
    if (is_right) {
      float& element = task.right[blockIdx.x * count + i];
      value = element = __fmul_rn(task.share, element);
    } else {
      value = task.left[(blockIdx.x - rank) * count + i];
    }
    const std::uint32_t magnitude = __float_as_uint(value) & kMagnitude;
    if (magnitude > largest) largest = magnitude;
  }
  largest = warp_max(largest);
  if (lane_index() == 0) partial[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kWarps; ++w)
    if (partial[w] > largest) largest = partial[w];
  task.largest[blockIdx.x] = largest;
}

__device__ inline bool is_finite_product(const LowRankFinish& task) {
  bool is_number = true;
  for (int k = 0; k < 2 * task.shape.rank; ++k)
    is_number = is_number && task.largest[k] < kInfinityBits;
  return is_number;
}

// A warp has 128 columns of kProductRows rows. kRank 0: any rank, with the right factor in the
// cache instead of registers.
constexpr int kProductRows = 32;

template <int kRank>
struct RightColumns {
  float4 at[kRank == 0 ? 1 : kRank];
};

template <int kRank, bool kVectors>
__global__ void __launch_bounds__(kCodecThreads)
    multiply_factors(LowRankFinish task, std::size_t tiles) {
  const std::size_t rows = task.shape.rows, columns = task.shape.columns;
  const std::size_t first = warp_index() / tiles * kProductRows;
  if (first >= rows) return;
  const std::size_t j = warp_index() % tiles * kRowValues + lane_index() * kComponents;
  const bool is_number = is_finite_product(task);
  const int rank = kRank == 0 ? task.shape.rank : kRank;
  RightColumns<kRank> right;
  if constexpr (kRank > 0) {
#pragma unroll
    for (int k = 0; k < kRank; ++k)
      right.at[k] = load_four<kVectors>(task.right + k * columns, j, columns);
  }
  const std::size_t end = first + kProductRows < rows ? first + kProductRows : rows;
#pragma unroll 4
  for (std::size_t i = first; i < end; ++i) {
    float4 kept = {0, 0, 0, 0};
    if (task.has_sent) kept = load_four<kVectors>(task.matrix + i * columns, j, columns);
    float4 product = {0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k < rank; ++k) {
      const float left = task.left[k * rows + i];
      float4 own;
      if constexpr (kRank > 0) {
        own = right.at[k];
      } else {
        own = load_four<kVectors>(task.right + k * columns, j, columns);
      }
      own = {__fmul_rn(left, own.x), __fmul_rn(left, own.y), __fmul_rn(left, own.z),
             __fmul_rn(left, own.w)};
      product = k == 0 ? own : sum_of(product, own);
    }
    const float none = not_finite();
    if (!is_number) product = {none, none, none, none};
    store_four<kVectors>(task.mean + i * columns, j, columns, product);
    if (!task.has_sent && task.feedback) continue;
    const auto left_out = [&](float value, float sent) {
      if (!task.feedback) return 0.0F;
      return is_number ? __fsub_rn(value, sent) : finite_or_zero(value);
    };
    store_four<kVectors>(task.matrix + i * columns, j, columns,
                         {left_out(kept.x, product.x), left_out(kept.y, product.y),
                          left_out(kept.z, product.z), left_out(kept.w, product.w)});
  }
}

// The exponent of a float that is not zero: that of std::ilogb().
__device__ inline int exponent_of(std::uint32_t magnitude) {
  if (magnitude >= 1U << 23) return static_cast<int>(magnitude >> 23) - 127;
  return -118 - __clz(static_cast<int>(magnitude));
}

// Keeps the columns of the right factor that are not zero, scaled by a power of two.
__global__ void __launch_bounds__(kCodecThreads) take_over(LowRankFinish task) {
  const std::size_t columns = task.shape.columns;
  const std::size_t i = std::size_t{blockIdx.x} * kCodecThreads + threadIdx.x;
  if (i >= columns * static_cast<std::size_t>(task.shape.rank)) return;
  const std::uint32_t largest = task.largest[i / columns];
  if (largest == 0 || !is_finite_product(task)) return;
  const auto bits = static_cast<long long>(1023 - exponent_of(largest)) << 52;
  task.q[i] =
      __double2float_rn(__dmul_rn(static_cast<double>(task.right[i]), __longlong_as_double(bits)));
}

bool has_vectors(const MatrixShape& shape, const float* a, const float* b, const float* c) {
  const auto is_aligned = [](const float* at) {
    return reinterpret_cast<std::uintptr_t>(at) % sizeof(float4) == 0;
  };
  return shape.columns % kComponents == 0 && is_aligned(a) && is_aligned(b) && is_aligned(c);
}

// Calls call.operator()<rank>() for a rank of 1 to kColumnsAtOnce.
template <int kRank = 1, typename Call>
Result<void> with_rank(int rank, const Call& call) {
  if constexpr (kRank < kColumnsAtOnce)
    if (rank != kRank) return with_rank<kRank + 1>(rank, call);
  return call.template operator()<kRank>();
}
template <typename Call>
Result<void> with_either(bool flag, const Call& call) {
  return flag ? call.template operator()<true>() : call.template operator()<false>();
}

std::size_t tiles_of(std::size_t columns) { return (columns + kRowValues - 1) / kRowValues; }

}  // namespace

Result<void> start_project(const LowRankProject& task, CudaDevice& device) {
  const std::size_t groups = (task.shape.rows + kRowsAtOnce - 1) / kRowsAtOnce;
  // Warps that keep all multiprocessors busy.
  const bool is_split = groups < static_cast<std::size_t>(device.multiprocessors()) * kWarps;
  const std::size_t blocks = is_split ? groups : blocks_for(groups);
  for (int first = 0; first < task.shape.rank; first += kColumnsAtOnce) {
    LowRankProject some = task;
    some.right += static_cast<std::size_t>(first) * task.shape.columns;
    some.left += static_cast<std::size_t>(first) * task.shape.rows;
    const int columns = std::min(task.shape.rank - first, kColumnsAtOnce);
    const bool vectors = has_vectors(task.shape, task.gradient, task.matrix, task.right);
    TALLY_TRY(with_rank(columns, [&]<int kRank>() {
      return with_either(first == 0, [&]<bool kAdds>() {
        return with_either(vectors, [&]<bool kVectors>() {
          return is_split
                     ? launch(device, project_rows<kRank, kWarps, kAdds, kVectors>, blocks, some)
                     : launch(device, project_rows<kRank, 1, kAdds, kVectors>, blocks, some);
        });
      });
    }));
  }
  return {};
}

Result<void> start_orthonormalise(const MatrixShape& shape, float share, float* left, double* wide,
                                  CudaDevice& device) {
  return launch(device, orthonormalise_columns, 1, shape.rows, shape.rank, share, left, wide);
}

std::size_t correlate_parts(const MatrixShape& shape, CudaDevice& device) {
  constexpr std::size_t kBlocksEach = 4;  // of a multiprocessor
  const std::size_t wanted = static_cast<std::size_t>(device.multiprocessors()) * kBlocksEach;
  const std::size_t most = (shape.rows + kWarps * kRowsAtOnce - 1) / (kWarps * kRowsAtOnce);
  return std::clamp<std::size_t>(wanted / tiles_of(shape.columns), 1, most);
}

Result<void> start_correlate(const LowRankCorrelate& task, CudaDevice& device) {
  const std::size_t tiles = tiles_of(task.shape.columns);
  const bool vectors = has_vectors(task.shape, task.matrix, nullptr, nullptr);
  for (int first = 0; first < task.shape.rank; first += kColumnsAtOnce)
    TALLY_TRY(with_rank(std::min(task.shape.rank - first, kColumnsAtOnce), [&]<int kRank>() {
      return with_either(vectors, [&]<bool kVectors>() {
        return launch(device, correlate_columns<kRank, kVectors>, tiles * task.parts, task, first,
                      tiles);
      });
    }));
  const std::size_t count = task.shape.columns * static_cast<std::size_t>(task.shape.rank);
  return launch(device, add_parts, (count + kCodecThreads - 1) / kCodecThreads, task.sums,
                task.parts, count, task.weight, task.right);
}

Result<void> start_finish(const LowRankFinish& task, CudaDevice& device) {
  const auto rank = static_cast<std::size_t>(task.shape.rank);
  TALLY_TRY(launch(device, scale_right, 2 * rank, task));
  const std::size_t tiles = tiles_of(task.shape.columns);
  const std::size_t groups = (task.shape.rows + kProductRows - 1) / kProductRows;
  const std::size_t blocks = blocks_for(tiles * groups);
  const bool vectors = has_vectors(task.shape, task.right, task.matrix, task.mean);
  TALLY_TRY(with_either(vectors, [&]<bool kVectors>() {
    if (task.shape.rank > kColumnsAtOnce)
      return launch(device, multiply_factors<0, kVectors>, blocks, task, tiles);
    return with_rank(task.shape.rank, [&]<int kRank>() {
      return launch(device, multiply_factors<kRank, kVectors>, blocks, task, tiles);
    });
  }));
  const std::size_t count = task.shape.columns * rank;
  return launch(device, take_over, (count + kCodecThreads - 1) / kCodecThreads, task);
}

}  // namespace tally::cuda
