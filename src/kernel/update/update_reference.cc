#include <cmath>

#include "kernel/update/update.h"

// The update rules by their definitions, one element at a time.
namespace tally::kernel {
namespace {

template <typename T>
T with_decay(T gradient, T decay, T parameter) {
  return decay == 0 ? gradient : gradient + decay * parameter;
}

template <typename T>
void sgd(const SgdFactors<T>& f, T* parameters, const T* gradient, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    parameters[i] -= f.rate * with_decay(gradient[i], f.weight_decay, parameters[i]);
  }
}

template <typename T>
void momentum(const SgdFactors<T>& f, T* parameters, const T* gradient, T* buffer,
              std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    buffer[i] *= f.momentum;
    buffer[i] += f.gain * with_decay(gradient[i], f.weight_decay, parameters[i]);
    parameters[i] -= f.rate * buffer[i];
  }
}

template <typename T>
void nesterov(const SgdFactors<T>& f, T* parameters, const T* gradient, T* buffer,
              std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T slope = with_decay(gradient[i], f.weight_decay, parameters[i]);
    buffer[i] *= f.momentum;
    buffer[i] += f.gain * slope;
    parameters[i] -= f.rate * (slope + f.momentum * buffer[i]);
  }
}

template <typename T>
void adagrad(const AdagradFactors<T>& f, T* parameters, const T* gradient, T* sum,
             std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T slope = with_decay(gradient[i], f.weight_decay, parameters[i]);
    sum[i] += slope * slope;
    parameters[i] -= f.rate * slope / (std::sqrt(sum[i]) + f.epsilon);
  }
}

template <typename T>
void add_to_averages(const AdamFactors<T>& f, T slope, T& average, T& square_average) {
  average *= f.beta1;
  average += f.gain1 * slope;
  square_average *= f.beta2;
  square_average += f.gain2 * slope * slope;
}

template <typename T>
void adam(const AdamFactors<T>& f, T* parameters, const T* gradient, T* average, T* square_average,
          std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T slope = with_decay(gradient[i], f.weight_decay, parameters[i]);
    add_to_averages(f, slope, average[i], square_average[i]);
    parameters[i] *= f.shrink;
    T step = f.rate * average[i] / (std::sqrt(square_average[i]) / f.root + f.epsilon);
    if (square_average[i] == 0) step *= f.untouched;
    if (std::abs(step) > f.largest_step) step = std::copysign(f.largest_step, step);
    parameters[i] -= step;
  }
}

template <typename T>
void lamb_direction(const AdamFactors<T>& f, const T* parameters, T* gradient, T* average,
                    T* square_average, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    add_to_averages(f, gradient[i], average[i], square_average[i]);
    const T direction =
        average[i] / f.correction / (std::sqrt(square_average[i]) / f.root + f.epsilon);
    gradient[i] = with_decay(direction, f.weight_decay, parameters[i]);
  }
}

template <typename T>
void lars(const LarsFactors<T>& f, T* parameters, const T* gradient, T* buffer, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    buffer[i] *= f.momentum;
    buffer[i] += f.rate * with_decay(gradient[i], f.weight_decay, parameters[i]);
    parameters[i] -= buffer[i];
  }
}

template <typename T>
void ftrl(const FtrlFactors<T>& f, T* parameters, const T* gradient, T* z, T* n,
          std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T slope = f.scale * gradient[i];
    const T before = n[i];
    n[i] += slope * slope;
    const T sigma = (std::sqrt(n[i]) - std::sqrt(before)) / f.rate;
    z[i] += slope;
    z[i] -= sigma * parameters[i];
    if (std::abs(z[i]) <= f.l1) {
      parameters[i] = 0;
      continue;
    }
    const T beyond = z[i] - std::copysign(f.l1, z[i]);
    parameters[i] = -beyond / ((f.beta + std::sqrt(n[i])) / f.rate + f.l2);
  }
}

template <typename T>
void adam_each(const AdamFactors<T>& f, const T* rates, const T* roots, T* parameters,
               const T* gradient, T* average, T* square_average, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    AdamFactors<T> own = f;
    own.rate = rates[i];
    own.root = roots[i];
    adam(own, parameters + i, gradient + i, average + i, square_average + i, 1);
  }
}

template <typename T>
void compensate(const CompensationFactors<T>& f, const T* parameters, const T* backup, T* gradient,
                std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    gradient[i] += f.lambda * gradient[i] * gradient[i] * (parameters[i] - backup[i]);
  }
}

template <typename T>
void compensate_adaptively(const CompensationFactors<T>& f, const T* parameters, const T* backup,
                           T* gradient, T* mean_square, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T square = gradient[i] * gradient[i];
    mean_square[i] *= f.keep;
    mean_square[i] += f.gain * square;
    const T lambda = f.lambda / std::sqrt(mean_square[i] + f.epsilon);
    gradient[i] += lambda * square * (parameters[i] - backup[i]);
  }
}

}  // namespace

template <typename T>
const UpdateKernels<T>& update_reference() {
  static constexpr UpdateKernels<T> kReference = {
      .sgd = sgd<T>,
      .momentum = momentum<T>,
      .nesterov = nesterov<T>,
      .adagrad = adagrad<T>,
      .adam = adam<T>,
      .lamb_direction = lamb_direction<T>,
      .lars = lars<T>,
      .ftrl = ftrl<T>,
      .adam_each = adam_each<T>,
      .compensate = compensate<T>,
      .compensate_adaptively = compensate_adaptively<T>};
  return kReference;
}

template const UpdateKernels<float>& update_reference();
template const UpdateKernels<double>& update_reference();

}  // namespace tally::kernel
