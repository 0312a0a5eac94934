#include "elements.cuh"

// Kernels without an optimizer: gather, widen, squares and sum.
namespace tally::cuda {
namespace {

// sums = changed gradient.
template <typename Type, typename G>
struct Gather {
  using C = typename Type::Computed;
  template <int n>
  using Loaded = Vector<G, n>;
  const G* gradient;
  C* sums;
  Change<C> change;

  template <int n>
  __device__ Loaded<n> load(std::uint32_t i) const {
    return load_vector<n>(gradient + i);
  }
  template <int n>
  __device__ void finish(std::uint32_t i, const Loaded<n>& loaded) const {
    Vector<C, n> out;
#pragma unroll
    for (int k = 0; k < n; ++k) out.at[k] = change(widened<Type>(loaded.at[k]));
    store_vector(sums + i, out);
  }
};

template <typename Type>
__global__ void __launch_bounds__(kCellThreads)
    gather_kernel(Bucket<Type> bucket, Change<typename Type::Computed> change) {
  const Cell<Type> cell(bucket, blockIdx.x);
  if (!cell.is_used()) {
    for (std::uint32_t i = threadIdx.x; i < cell.count; i += kCellThreads) cell.sums[i] = 0;
    return;
  }
  with_gradient(cell, [&](const auto* gradient) {
    using G = std::remove_const_t<std::remove_pointer_t<decltype(gradient)>>;
    constexpr int kCount = Cell<Type>::kCount;
    const bool aligned = is_aligned<kCount>(cell.sums) && is_aligned<kCount>(gradient);
    for_elements<4, kCount>(cell.count, aligned, Gather<Type, G>{gradient, cell.sums, change});
  });
}

// master = values.
template <typename Type>
struct Widen {
  template <int n>
  using Loaded = Vector<typename Type::Stored, n>;
  const typename Type::Stored* values;
  float* master;

  template <int n>
  __device__ Loaded<n> load(std::uint32_t i) const {
    return load_vector<n>(values + i);
  }
  template <int n>
  __device__ void finish(std::uint32_t i, const Loaded<n>& loaded) const {
    Vector<float, n> out;
#pragma unroll
    for (int k = 0; k < n; ++k) out.at[k] = Type::widen(loaded.at[k]);
    store_vector(master + i, out);
  }
};

template <typename Type>
__global__ void __launch_bounds__(kCellThreads) widen_kernel(Bucket<Type> bucket) {
  // Not a Cell: the pieces may not be there yet.
  const exchange::DeviceCell cell = bucket.cells[blockIdx.x];
  const auto* const values = bucket.values + cell.first;
  float* const master = bucket.master + cell.first;
  constexpr int kCount = Cell<Type>::kCount;
  const bool aligned = is_aligned<kCount>(master) && is_aligned<kCount>(values);
  for_elements<4, kCount>(cell.count, aligned, Widen<Type>{values, master});
}

constexpr std::uint32_t kWarp = 32;
constexpr std::uint32_t kSquareThreads = 128;

// The sum of squares of read(0), ..., read(count - 1) in the order of kernel::square_sum(): element
// i goes to lane i % 32 of the warp, and the lanes are added pairwise by halves. The result is that
// of lane 0.
template <typename Read>
__device__ double square_sum(std::uint32_t count, const Read& read) {
  constexpr std::uint32_t kUnroll = 16;
  double sum = 0;
  std::uint32_t i = threadIdx.x % kWarp;
  for (; i + (kUnroll - 1) * kWarp < count; i += kUnroll * kWarp) {
    decltype(read(i)) values[kUnroll];
#pragma unroll
    for (std::uint32_t u = 0; u < kUnroll; ++u) values[u] = read(i + u * kWarp);
#pragma unroll
    for (std::uint32_t u = 0; u < kUnroll; ++u) {
      const auto value = static_cast<double>(values[u]);
      sum = sum + value * value;
    }
  }
  for (; i < count; i += kWarp) {
    const auto value = static_cast<double>(read(i));
    sum = sum + value * value;
  }
  for (std::uint32_t half = kWarp / 2; half > 0; half /= 2)
    sum = sum + __shfl_down_sync(0xFFFFFFFFU, sum, half);
  return sum;
}

// A warp sums the values of a cell, and the next one its gradient.
template <typename Type>
__global__ void __launch_bounds__(kSquareThreads)
    squares_kernel(Bucket<Type> bucket, std::uint32_t cells, Change<typename Type::Computed> change,
                   exchange::Squares* squares) {
  const std::uint32_t warp = (blockIdx.x * kSquareThreads + threadIdx.x) / kWarp;
  const std::uint32_t number = warp / 2;
  if (number >= cells) return;
  const Cell<Type> cell(bucket, number);
  double sum = 0;
  if (warp % 2 == 0) {
    sum = square_sum(cell.count, [&](std::uint32_t i) { return cell.updated()[i]; });
  } else if (cell.is_used()) {
    with_gradient(cell, [&](const auto* gradient) {
      sum = square_sum(cell.count,
                       [&](std::uint32_t i) { return change(widened<Type>(gradient[i])); });
    });
  }
  if (threadIdx.x % kWarp != 0) return;
  if (warp % 2 == 0)
    squares[number].values = sum;
  else
    squares[number].gradient = sum;
}

template <typename C>
struct Sources {
  const C* from[kSumSources];
  int count;
};

// A thread adds kSumVectors vectors; those of a block lie side by side.
constexpr int kSumVectors = 2;

// kSources: the number of sources, or 0: any.
template <typename C, int kSources, int n>
__device__ void add_sources(const C* const* from, int sources, C* to, std::uint64_t i) {
  Vector<C, n> sum = load_vector<n>(from[0] + i);
  if constexpr (kSources > 0) {
    Vector<C, n> others[kSources];
#pragma unroll
    for (int s = 1; s < kSources; ++s) others[s] = load_vector<n>(from[s] + i);
#pragma unroll
    for (int s = 1; s < kSources; ++s)
#pragma unroll
      for (int k = 0; k < n; ++k) sum.at[k] = sum.at[k] + others[s].at[k];
  } else {
    for (int s = 1; s < sources; ++s) {
      const Vector<C, n> other = load_vector<n>(from[s] + i);
#pragma unroll
      for (int k = 0; k < n; ++k) sum.at[k] = sum.at[k] + other.at[k];
    }
  }
  store_vector(to + i, sum);
}

template <typename C, int kSources>
__global__ void __launch_bounds__(kCellThreads)
    sum_kernel(__grid_constant__ const Sources<C> sources, C* to, std::uint64_t count,
               bool aligned) {
  constexpr int kCount = kVectorCount<C>;
  const std::uint64_t vectors = aligned ? count / kCount : 0;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * kSumVectors * kCellThreads + threadIdx.x;
  for (int u = 0; u < kSumVectors; ++u) {
    const std::uint64_t v = first + static_cast<std::uint64_t>(u) * kCellThreads;
    if (v < vectors) add_sources<C, kSources, kCount>(sources.from, sources.count, to, v * kCount);
  }
  const std::uint64_t all = std::uint64_t{gridDim.x} * kCellThreads;
  for (std::uint64_t i = vectors * kCount + std::uint64_t{blockIdx.x} * kCellThreads + threadIdx.x;
       i < count; i += all)
    add_sources<C, kSources, 1>(sources.from, sources.count, to, i);
}

template <typename C>
void launch_sum_of(std::span<const std::byte* const> from, std::byte* to, std::size_t count,
                   cudaStream_t stream) {
  Sources<C> sources{.from = {}, .count = static_cast<int>(from.size())};
  bool aligned = reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
  for (std::size_t s = 0; s < from.size(); ++s) {
    sources.from[s] = reinterpret_cast<const C*>(from[s]);
    aligned = aligned && reinterpret_cast<std::uintptr_t>(from[s]) % 16 == 0;
  }
  constexpr std::size_t kOfBlock = kVectorCount<C> * kSumVectors * kCellThreads;
  const auto blocks = static_cast<unsigned>((count + kOfBlock - 1) / kOfBlock);
  const auto kernel = from.size() == 2   ? sum_kernel<C, 2>
                      : from.size() == 3 ? sum_kernel<C, 3>
                      : from.size() == 4 ? sum_kernel<C, 4>
                                         : sum_kernel<C, 0>;
  launch_kernel(kernel, blocks, kCellThreads, stream, sources, reinterpret_cast<C*>(to), count,
                aligned);
}

}  // namespace

void launch_gather(const exchange::DeviceBucket& bucket, const exchange::GradientChange& change,
                   cudaStream_t stream) {
  if (bucket.cell_count == 0) return;
  with_type(bucket.type, [&]<typename Type>(Type) {
    launch_kernel(gather_kernel<Type>, static_cast<unsigned>(bucket.cell_count), kCellThreads,
                  stream, Bucket<Type>(bucket), Change<typename Type::Computed>(change));
  });
}

void launch_widen(const exchange::DeviceBucket& bucket, cudaStream_t stream) {
  if (bucket.cell_count == 0) return;
  with_type(bucket.type, [&]<typename Type>(Type) {
    if constexpr (kIsHalf<Type>)
      launch_kernel(widen_kernel<Type>, static_cast<unsigned>(bucket.cell_count), kCellThreads,
                    stream, Bucket<Type>(bucket));
  });
}

void launch_squares(const exchange::DeviceBucket& bucket, const exchange::GradientChange& change,
                    exchange::Squares* squares, cudaStream_t stream) {
  if (bucket.cell_count == 0) return;
  const auto cells = static_cast<unsigned>(bucket.cell_count);
  constexpr unsigned kCellsOfBlock = kSquareThreads / kWarp / 2;
  with_type(bucket.type, [&]<typename Type>(Type) {
    launch_kernel(squares_kernel<Type>, (cells + kCellsOfBlock - 1) / kCellsOfBlock, kSquareThreads,
                  stream, Bucket<Type>(bucket), cells, Change<typename Type::Computed>(change),
                  squares);
  });
}

void launch_sum(DataType type, std::span<const std::byte* const> from, std::byte* to,
                std::size_t count, cudaStream_t stream) {
  TALLY_CHECK(!from.empty() && from.size() <= kSumSources);
  if (count == 0) return;
  if (type == DataType::kFloat64)
    launch_sum_of<double>(from, to, count, stream);
  else
    launch_sum_of<float>(from, to, count, stream);
}

cudaError_t check_kernels() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, sum_kernel<float, 2>);
}

}  // namespace tally::cuda
