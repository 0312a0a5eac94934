#pragma once
#include <cstddef>
#include <limits>
#include <optional>

#include "kernel/level.h"

namespace tally::kernel {

// Scalars of one optimizer step, equal for all elements.
template <typename T>
struct SgdFactors {
  T rate;
  T momentum;
  T gain;  // 1 - dampening
  T weight_decay;
};
template <typename T>
struct AdagradFactors {
  T rate;
  T epsilon;
  T weight_decay;
};
template <typename T>
struct AdamFactors {
  T rate;          // adam: divided by `correction`
  T beta1, gain1;  // gain: 1 - beta
  T beta2, gain2;
  T correction;  // 1 - beta1^step; only lamb looks at it
  T root;        // of 1 - beta2^step
  T epsilon;
  T weight_decay;  // adam: added to the gradient; lamb: to the direction
  T shrink;        // what parameters are multiplied with first: adamw 1 - rate * decay, adam 1
  // With a frozen second moment. `untouched` multiplies the step of elements that never had a
  // gradient: a codec decodes their zeros as nonzero numbers, which would be divided by epsilon
  // alone. `largest_step` limits the step of elements whose second moment is far below the others',
  // because a codec does not keep their momenta small.
  T untouched = 1;
  T largest_step = std::numeric_limits<T>::infinity();
};
template <typename T>
struct LarsFactors {
  T rate;  // with the layer's ratio in it
  T momentum;
  T weight_decay;
};

// FTRL-Proximal (McMahan et al. 2013).
template <typename T>
struct FtrlFactors {
  T scale;  // what the gradient is multiplied with first
  T rate;   // alpha
  T beta;
  T l1, l2;
};
// Delay compensation (Zheng et al. 2017): gradient + lambda * gradient^2 * (parameter - backup).
template <typename T>
struct CompensationFactors {
  T lambda;
  T keep, gain;  // of the mean square: keep * old + gain * gradient^2
  T epsilon;     // beside the mean square, under the root that lambda is divided by
};

// One step over `count` elements. Pointers are aligned as a T is; arrays do not overlap. A weight
// decay of 0 is left out of the computation, so that it changes nothing even where parameters are
// infinite. Every level gives the same bits as update_reference(), except for NaN payloads.
template <typename T>
struct UpdateKernels {
  void (*sgd)(const SgdFactors<T>& factors, T* parameters, const T* gradient, std::size_t count);
  void (*momentum)(const SgdFactors<T>& factors, T* parameters, const T* gradient, T* momentum,
                   std::size_t count);
  void (*nesterov)(const SgdFactors<T>& factors, T* parameters, const T* gradient, T* momentum,
                   std::size_t count);
  void (*adagrad)(const AdagradFactors<T>& factors, T* parameters, const T* gradient, T* sum,
                  std::size_t count);
  void (*adam)(const AdamFactors<T>& factors, T* parameters, const T* gradient, T* average,
               T* square_average, std::size_t count);
  // Replaces the gradient by lamb's direction.
  void (*lamb_direction)(const AdamFactors<T>& factors, const T* parameters, T* gradient,
                         T* average, T* square_average, std::size_t count);
  void (*lars)(const LarsFactors<T>& factors, T* parameters, const T* gradient, T* momentum,
               std::size_t count);
  void (*ftrl)(const FtrlFactors<T>& factors, T* parameters, const T* gradient, T* z, T* n,
               std::size_t count);
  // adam with a `rate` and a `root` per element.
  void (*adam_each)(const AdamFactors<T>& factors, const T* rates, const T* roots, T* parameters,
                    const T* gradient, T* average, T* square_average, std::size_t count);
  // Replace the gradient by the compensated one.
  void (*compensate)(const CompensationFactors<T>& factors, const T* parameters, const T* backup,
                     T* gradient, std::size_t count);
  void (*compensate_adaptively)(const CompensationFactors<T>& factors, const T* parameters,
                                const T* backup, T* gradient, T* mean_square, std::size_t count);
};

// Compiled from update_loops.inc.
using UpdateLoops = ByFloatType<UpdateKernels>;
struct UpdateLevels {
  static const UpdateLoops baseline, avx2, avx512;
};

// The steps of a level (see table_of()), and plain loops for tests to compare with; T is float or
// double.
template <typename T>
const UpdateKernels<T>& update_kernels(std::optional<Level> level = {}) {
  return table_of<UpdateLevels>(level).template of<T>();
}
template <typename T>
const UpdateKernels<T>& update_reference();

}  // namespace tally::kernel
