#include <vector>

#include "kernel/lowrank/factor.h"

namespace tally::kernel {
namespace {

constexpr std::size_t kLanes = 32;

void project(FactorShape shape, const float* addend, float* matrix, const float* right,
             float* left) {
  for (std::size_t i = 0; i < shape.rows * shape.columns; ++i) matrix[i] += addend[i];
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (std::size_t k = 0; k < shape.rank; ++k) {
      std::vector<float> lanes(kLanes, 0.0F);
      for (std::size_t j = 0; j < shape.columns; ++j)
        lanes[j % kLanes] += matrix[i * shape.columns + j] * right[k * shape.columns + j];
      for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
        for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
      }
      left[k * shape.rows + i] = lanes[0];
    }
  }
}

void correlate(FactorShape shape, const float* matrix, const float* left, float* right) {
  for (std::size_t k = 0; k < shape.rank; ++k) {
    for (std::size_t j = 0; j < shape.columns; ++j) {
      float sum = 0;
      for (std::size_t i = 0; i < shape.rows; ++i)
        sum += left[k * shape.rows + i] * matrix[i * shape.columns + j];
      right[k * shape.columns + j] = sum;
    }
  }
}

void multiply(FactorShape shape, const float* left, const float* right, float* product,
              float* matrix) {
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (std::size_t j = 0; j < shape.columns; ++j) {
      float sum = left[i] * right[j];
      for (std::size_t k = 1; k < shape.rank; ++k)
        sum += left[k * shape.rows + i] * right[k * shape.columns + j];
      product[i * shape.columns + j] = sum;
      if (matrix != nullptr) matrix[i * shape.columns + j] -= sum;
    }
  }
}

}  // namespace

const FactorKernels& factor_kernels_reference() {
  static constexpr FactorKernels kReference = {
      .project = project, .correlate = correlate, .multiply = multiply};
  return kReference;
}

}  // namespace tally::kernel
