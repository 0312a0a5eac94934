#pragma once
#include "elements.cuh"
#include "kernel/update/update.h"

// The optimizers of kernel/update/update_loops.inc, element by element, as a kernel over a bucket.
namespace tally::cuda {

inline __device__ float root_of(float value) { return __fsqrt_rn(value); }
inline __device__ double root_of(double value) { return __dsqrt_rn(value); }

// A decay of 0 changes nothing, even where parameters are infinite.
template <typename C>
__device__ C decayed(C gradient, C decay, C parameter) {
  const C sum = gradient + decay * parameter;
  return decay == 0 ? gradient : sum;
}

template <typename Factors>
__device__ Factors factors_of(const exchange::DevicePiece& piece) {
  static_assert(sizeof(Factors) <= sizeof(piece.factors));
  return *reinterpret_cast<const Factors*>(&piece.factors);
}

// A loop has the number of its state arrays, and changes one element of the values, the gradient
// and the state. Values and state are written back, or, with kIsDirection, gradient and state.

template <typename C>
struct SgdLoop {
  static constexpr int kArrays = 0;
  static constexpr bool kIsDirection = false;
  kernel::SgdFactors<C> f;
  explicit __device__ SgdLoop(const exchange::DevicePiece& piece)
      : f(factors_of<kernel::SgdFactors<C>>(piece)) {}
  __device__ void operator()(C& value, C& gradient, C* /*state*/) const {
    const C d = decayed(gradient, f.weight_decay, value);
    value = value - f.rate * d;
  }
};

template <typename C, bool kNesterov>
struct MomentumLoop {
  static constexpr int kArrays = 1;
  static constexpr bool kIsDirection = false;
  kernel::SgdFactors<C> f;
  explicit __device__ MomentumLoop(const exchange::DevicePiece& piece)
      : f(factors_of<kernel::SgdFactors<C>>(piece)) {}
  __device__ void operator()(C& value, C& gradient, C* state) const {
    const C d = decayed(gradient, f.weight_decay, value);
    const C m = f.momentum * state[0] + f.gain * d;
    state[0] = m;
    const C step = kNesterov ? d + f.momentum * m : m;
    value = value - f.rate * step;
  }
};

template <typename C>
struct AdagradLoop {
  static constexpr int kArrays = 1;
  static constexpr bool kIsDirection = false;
  kernel::AdagradFactors<C> f;
  explicit __device__ AdagradLoop(const exchange::DevicePiece& piece)
      : f(factors_of<kernel::AdagradFactors<C>>(piece)) {}
  __device__ void operator()(C& value, C& gradient, C* state) const {
    const C d = decayed(gradient, f.weight_decay, value);
    const C sum = state[0] + d * d;
    state[0] = sum;
    value = value - (f.rate * d) / (root_of(sum) + f.epsilon);
  }
};

template <typename C>
__device__ void add_to_averages(const kernel::AdamFactors<C>& f, C gradient, C* state) {
  state[0] = f.beta1 * state[0] + f.gain1 * gradient;
  state[1] = f.beta2 * state[1] + (f.gain2 * gradient) * gradient;
}

template <typename C>
struct AdamLoop {
  static constexpr int kArrays = 2;
  static constexpr bool kIsDirection = false;
  kernel::AdamFactors<C> f;
  explicit __device__ AdamLoop(const exchange::DevicePiece& piece)
      : f(factors_of<kernel::AdamFactors<C>>(piece)) {}
  __device__ void operator()(C& value, C& gradient, C* state) const {
    add_to_averages(f, decayed(gradient, f.weight_decay, value), state);
    const C divisor = root_of(state[1]) / f.root + f.epsilon;
    const C share = state[1] == 0 ? f.untouched : C(1);
    value = f.shrink * value - within((share * (f.rate * state[0])) / divisor);
  }
  // A NaN stays.
  __device__ C within(C step) const {
    const C above = step < -f.largest_step ? -f.largest_step : step;
    return f.largest_step < above ? f.largest_step : above;
  }
};

template <typename C>
struct LambDirectionLoop {
  static constexpr int kArrays = 2;
  static constexpr bool kIsDirection = true;
  kernel::AdamFactors<C> f;
  explicit __device__ LambDirectionLoop(const exchange::DevicePiece& piece)
      : f(factors_of<kernel::AdamFactors<C>>(piece)) {}
  __device__ void operator()(C& value, C& gradient, C* state) const {
    add_to_averages(f, gradient, state);
    const C direction = (state[0] / f.correction) / (root_of(state[1]) / f.root + f.epsilon);
    gradient = decayed(direction, f.weight_decay, value);
  }
};

template <typename C>
struct LarsLoop {
  static constexpr int kArrays = 1;
  static constexpr bool kIsDirection = false;
  kernel::LarsFactors<C> f;
  explicit __device__ LarsLoop(const exchange::DevicePiece& piece)
      : f(factors_of<kernel::LarsFactors<C>>(piece)) {}
  __device__ void operator()(C& value, C& gradient, C* state) const {
    const C d = decayed(gradient, f.weight_decay, value);
    const C m = f.momentum * state[0] + f.rate * d;
    state[0] = m;
    value = value - m;
  }
};

template <typename C>
struct FtrlLoop {
  static constexpr int kArrays = 2;
  static constexpr bool kIsDirection = false;
  kernel::FtrlFactors<C> f;
  bool begins;
  C pull;
  explicit __device__ FtrlLoop(const exchange::DevicePiece& piece)
      : f(factors_of<kernel::FtrlFactors<C>>(piece)),
        begins(piece.begins != 0),
        pull(static_cast<C>(piece.pull)) {}
  __device__ void operator()(C& value, C& gradient, C* state) const {
    const C z = begins ? -pull * value : state[0];
    const C before = begins ? C(0) : state[1];
    const C d = f.scale * gradient;
    const C squares = before + d * d;
    const C root = root_of(squares);
    const C sigma = (root - root_of(before)) / f.rate;
    const C linear = (z + d) - sigma * value;
    state[1] = squares;
    state[0] = linear;
    const C size = linear < 0 ? -linear : linear;
    const C beyond = linear < 0 ? linear + f.l1 : linear - f.l1;
    const C moved = -beyond / ((f.beta + root) / f.rate + f.l2);
    value = size <= f.l1 ? C(0) : moved;
  }
};

// One step of a cell whose gradient is stored as G.
template <typename Type, typename Loop, typename G>
struct Update {
  using C = typename Type::Computed;
  static constexpr int kArrays = Loop::kArrays;
  template <int n>
  struct Loaded {
    Vector<C, n> value;
    Vector<G, n> gradient;
    Vector<C, n> state[kArrays > 0 ? kArrays : 1];
  };
  const Cell<Type>& cell;
  const G* gradient;
  const Loop& loop;
  const Change<C>& change;

  __device__ C* state(int k) const { return k == 0 ? cell.first : cell.second; }

  template <int n>
  __device__ Loaded<n> load(std::uint32_t i) const {
    Loaded<n> loaded;
    loaded.value = load_vector<n>(cell.updated() + i);
    loaded.gradient = load_vector<n>(gradient + i);
#pragma unroll
    for (int k = 0; k < kArrays; ++k) loaded.state[k] = load_vector<n>(state(k) + i);
    return loaded;
  }

  template <int n>
  __device__ void finish(std::uint32_t i, Loaded<n>& loaded) const {
    Vector<C, n> changed;
#pragma unroll
    for (int e = 0; e < n; ++e) {
      changed.at[e] = change(widened<Type>(loaded.gradient.at[e]));
      C of_element[2];
#pragma unroll
      for (int k = 0; k < kArrays; ++k) of_element[k] = loaded.state[k].at[e];
      loop(loaded.value.at[e], changed.at[e], of_element);
#pragma unroll
      for (int k = 0; k < kArrays; ++k) loaded.state[k].at[e] = of_element[k];
    }
#pragma unroll
    for (int k = 0; k < kArrays; ++k) store_vector(state(k) + i, loaded.state[k]);
    if constexpr (Loop::kIsDirection) {
      store_vector(cell.sums + i, changed);
    } else {
      store_vector(cell.updated() + i, loaded.value);
      if constexpr (kIsHalf<Type>) {
        Vector<typename Type::Stored, n> rounded;
#pragma unroll
        for (int e = 0; e < n; ++e) rounded.at[e] = Type::narrow(loaded.value.at[e]);
        store_vector(cell.values + i, rounded);
      }
    }
  }
};

template <typename Type, typename Loop>
__global__ void __launch_bounds__(kCellThreads)
    update_kernel(Bucket<Type> bucket, Change<typename Type::Computed> change) {
  const Cell<Type> cell(bucket, blockIdx.x);
  if (!cell.is_used()) return;
  const Loop loop(*cell.piece);
  with_gradient(cell, [&](const auto* gradient) {
    using G = std::remove_const_t<std::remove_pointer_t<decltype(gradient)>>;
    constexpr int kCount = Cell<Type>::kCount;
    // Eight loads of a thread are under way at once, or six.
    constexpr int kUnroll = Loop::kArrays == 0 ? 4 : 2;
    const bool aligned = cell.is_aligned() && is_aligned<kCount>(gradient);
    for_elements<kUnroll, kCount>(cell.count, aligned,
                                  Update<Type, Loop, G>{cell, gradient, loop, change});
  });
}

// Launches the kernel of one type of elements.
template <typename Type>
void launch_update_of(const exchange::DeviceBucket& bucket, exchange::UpdateLoop loop,
                      const exchange::GradientChange& change, cudaStream_t stream) {
  using C = typename Type::Computed;
  using exchange::UpdateLoop;
  const auto launch = [&](void (*kernel)(Bucket<Type>, Change<C>)) {
    launch_kernel(kernel, static_cast<unsigned>(bucket.cell_count), kCellThreads, stream,
                  Bucket<Type>(bucket), Change<C>(change));
  };
  switch (loop) {
    case UpdateLoop::kSgd:
      return launch(update_kernel<Type, SgdLoop<C>>);
    case UpdateLoop::kMomentum:
      return launch(update_kernel<Type, MomentumLoop<C, false>>);
    case UpdateLoop::kNesterov:
      return launch(update_kernel<Type, MomentumLoop<C, true>>);
    case UpdateLoop::kAdagrad:
      return launch(update_kernel<Type, AdagradLoop<C>>);
    case UpdateLoop::kAdam:
      return launch(update_kernel<Type, AdamLoop<C>>);
    case UpdateLoop::kLambDirection:
      return launch(update_kernel<Type, LambDirectionLoop<C>>);
    case UpdateLoop::kLars:
      return launch(update_kernel<Type, LarsLoop<C>>);
    case UpdateLoop::kFtrl:
      return launch(update_kernel<Type, FtrlLoop<C>>);
  }
  TALLY_UNREACHABLE();
}

// One file per type: they are compiled side by side.
extern template void launch_update_of<Plain<float>>(const exchange::DeviceBucket&,
                                                    exchange::UpdateLoop,
                                                    const exchange::GradientChange&, cudaStream_t);
extern template void launch_update_of<Plain<double>>(const exchange::DeviceBucket&,
                                                     exchange::UpdateLoop,
                                                     const exchange::GradientChange&, cudaStream_t);
extern template void launch_update_of<Float16>(const exchange::DeviceBucket&, exchange::UpdateLoop,
                                               const exchange::GradientChange&, cudaStream_t);
extern template void launch_update_of<BFloat16>(const exchange::DeviceBucket&, exchange::UpdateLoop,
                                                const exchange::GradientChange&, cudaStream_t);

}  // namespace tally::cuda
