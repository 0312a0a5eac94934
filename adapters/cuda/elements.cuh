#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/check.h"
#include "exchange/device/device.h"
#include "kernels.h"
#include "launch_kernel.cuh"

// Shared by the kernels over buckets: the types of elements, access to a cell, and the change of a
// gradient.
namespace tally::cuda {

// Threads of a block. A block works on one cell.
inline constexpr std::uint32_t kCellThreads = 256;

// A type of elements: how it is stored, and what it is computed in.
template <typename T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static __device__ T widen(T stored) { return stored; }
  static __device__ T narrow(T value) { return value; }
};
struct Float16 {
  using Stored = std::uint16_t;
  using Computed = float;
  static __device__ float widen(Stored stored) { return __half2float(__ushort_as_half(stored)); }
  static __device__ Stored narrow(float value) { return __half_as_ushort(__float2half_rn(value)); }
};
struct BFloat16 {
  using Stored = std::uint16_t;
  using Computed = float;
  static __device__ float widen(Stored stored) {
    return __uint_as_float(static_cast<std::uint32_t>(stored) << 16);
  }
  static __device__ Stored narrow(float value) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
  }
};
template <typename Type>
inline constexpr bool kIsHalf = sizeof(typename Type::Stored) < sizeof(typename Type::Computed);

// Calls visit(Type()) with the description of `type`.
template <typename Visit>
void with_type(DataType type, const Visit& visit) {
  switch (type) {
    case DataType::kFloat32:
      return visit(Plain<float>());
    case DataType::kFloat64:
      return visit(Plain<double>());
    case DataType::kFloat16:
      return visit(Float16());
    case DataType::kBFloat16:
      return visit(BFloat16());
    default:
      TALLY_UNREACHABLE();
  }
}

// Elements that are loaded or stored by one instruction.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T at[kCount];
};
template <int kCount, typename T>
__device__ Vector<T, kCount> load_vector(const T* from) {
  return *reinterpret_cast<const Vector<T, kCount>*>(from);
}
template <int kCount, typename T>
__device__ void store_vector(T* to, const Vector<T, kCount>& vector) {
  *reinterpret_cast<Vector<T, kCount>*>(to) = vector;
}
// The elements of a vector whose values in registers have 16 bytes.
template <typename C>
inline constexpr int kVectorCount = 16 / static_cast<int>(sizeof(C));

// Whether vectors of kCount elements can be loaded from there. Null is aligned.
template <int kCount, typename T>
__device__ bool is_aligned(const T* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % (sizeof(T) * kCount) == 0;
}

// exchange::GradientChange in the type of the computation.
template <typename C>
struct Change {
  C factor;
  C limit;  // infinite: no clamp
  C scale;

  explicit Change(const exchange::GradientChange& change)
      : factor(static_cast<C>(change.factor)),
        limit(change.limit > 0 ? static_cast<C>(change.limit) : std::numeric_limits<C>::infinity()),
        scale(static_cast<C>(change.scale)) {}

  // A factor of 1 and an infinite limit change no bit. A NaN stays.
  __device__ C operator()(C gradient) const {
    const C product = gradient * factor;
    const C low = product > limit ? limit : product;
    const C clamped = low < -limit ? -limit : low;
    return clamped * scale;
  }
};

// The arrays of a bucket.
template <typename Type>
struct Bucket {
  using Stored = typename Type::Stored;
  using C = typename Type::Computed;
  Stored* values;
  C* master;
  C* first;  // arrays of the optimizer
  C* second;
  C* sums;
  const exchange::DevicePiece* pieces;
  const exchange::DeviceCell* cells;

  explicit Bucket(const exchange::DeviceBucket& bucket)
      : values(reinterpret_cast<Stored*>(bucket.values)),
        master(reinterpret_cast<C*>(bucket.master)),
        first(reinterpret_cast<C*>(bucket.state[0])),
        second(reinterpret_cast<C*>(bucket.state[1])),
        sums(reinterpret_cast<C*>(bucket.sums)),
        pieces(bucket.pieces),
        cells(bucket.cells) {}
};

// A cell of a bucket, with pointers to its first element. Arrays that the bucket does not have are
// null.
template <typename Type>
struct Cell {
  using Stored = typename Type::Stored;
  using C = typename Type::Computed;
  static constexpr int kCount = kVectorCount<C>;
  const exchange::DevicePiece* piece;
  std::uint32_t count;
  Stored* values;
  C* master;
  C* first;
  C* second;
  C* sums;
  const Stored* gradient;  // null: in `sums`, which have another type

  __device__ Cell(const Bucket<Type>& bucket, std::uint32_t number) {
    const exchange::DeviceCell cell = bucket.cells[number];
    piece = bucket.pieces + cell.piece;
    count = cell.count;
    const std::uint64_t at = cell.first;
    const auto from = [at](auto* array) { return array == nullptr ? nullptr : array + at; };
    values = from(bucket.values);
    master = from(bucket.master);
    first = from(bucket.first);
    second = from(bucket.second);
    sums = from(bucket.sums);
    gradient = nullptr;
    if (piece->gradient != nullptr)
      gradient = reinterpret_cast<const Stored*>(piece->gradient) + (at - piece->first);
    else if constexpr (!kIsHalf<Type>)
      gradient = sums;
  }

  __device__ bool is_used() const { return piece->used != 0; }

  // The values that are updated.
  __device__ C* updated() const {
    if constexpr (kIsHalf<Type>)
      return master;
    else
      return values;
  }

  // Whether all arrays but the gradient are aligned for vectors.
  __device__ bool is_aligned() const {
    return cuda::is_aligned<kCount>(values) && cuda::is_aligned<kCount>(master) &&
           cuda::is_aligned<kCount>(first) && cuda::is_aligned<kCount>(second) &&
           cuda::is_aligned<kCount>(sums);
  }
};

// The gradient of a cell, which has the bucket's type, or that of the sums.
template <typename Type>
__device__ typename Type::Computed widened(typename Type::Stored stored) {
  return Type::widen(stored);
}
template <typename Type>
requires kIsHalf<Type> __device__ float widened(float sum) { return sum; }

// Calls visit(gradient) with a pointer to the gradient of the cell: the kernels are compiled for
// both types that it may have.
template <typename Type, typename Visit>
__device__ void with_gradient(const Cell<Type>& cell, const Visit& visit) {
  if (cell.gradient != nullptr) {
    const typename Type::Stored* const gradient = cell.gradient;
    // Without this a pointer that is loaded may be one to any kind of memory.
    __builtin_assume(__isGlobal(gradient));
    visit(gradient);
  } else if constexpr (kIsHalf<Type>) {
    visit(static_cast<const float*>(cell.sums));
  }
}

// Runs one block over `count` elements: vectors of kCount, kUnroll of them at once per thread, and
// then the last elements one by one. task.load<n>(i) reads n elements from element i on, and
// task.finish<n>(i, loaded) writes there. All loads of a round come before its first store, so that
// they overlap.
template <int kUnroll, int kCount, typename Task>
__device__ void for_elements(std::uint32_t count, bool aligned, const Task& task) {
  const std::uint32_t vectors = aligned ? count / kCount : 0;
  std::uint32_t v = threadIdx.x;
  for (; v + (kUnroll - 1) * kCellThreads < vectors; v += kUnroll * kCellThreads) {
    typename Task::template Loaded<kCount> loaded[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      loaded[u] = task.template load<kCount>((v + u * kCellThreads) * kCount);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      task.template finish<kCount>((v + u * kCellThreads) * kCount, loaded[u]);
  }
#pragma unroll 1
  for (; v < vectors; v += kCellThreads) {
    auto loaded = task.template load<kCount>(v * kCount);
    task.template finish<kCount>(v * kCount, loaded);
  }
#pragma unroll 1
  for (std::uint32_t i = vectors * kCount + threadIdx.x; i < count; i += kCellThreads) {
    auto loaded = task.template load<1>(i);
    task.template finish<1>(i, loaded);
  }
}

}  // namespace tally::cuda
