#pragma once
#include <cstddef>
#include <cstdint>

#include "adapters/cuda/cuda_device.h"

// The kernels of PowerSGD over a matrix, row by row, and its factors, column by column, as
// kernel/lowrank/factor.h has them. The matrix is read once per product for each kColumnsAtOnce
// columns of a factor.
namespace tally::cuda {

struct MatrixShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  int rank = 0;
};

inline constexpr int kColumnsAtOnce = 8;

// matrix += gradient; left = weight * matrix * right.
struct LowRankProject {
  MatrixShape shape;
  const float* gradient = nullptr;
  float* matrix = nullptr;
  const float* right = nullptr;
  float weight = 1;
  float* left = nullptr;
};
Result<void> start_project(const LowRankProject& task, CudaDevice& device);

// left = the orthonormal columns of share * left, as codec::orthonormalise(). `wide` has as many
// doubles.
Result<void> start_orthonormalise(const MatrixShape& shape, float share, float* left, double* wide,
                                  CudaDevice& device);

// right = weight * transposed matrix * left, summed in `parts` runs of rows; `sums` has parts *
// columns * rank floats.
struct LowRankCorrelate {
  MatrixShape shape;
  const float* matrix = nullptr;
  const float* left = nullptr;
  float weight = 1;
  float* right = nullptr;
  float* sums = nullptr;
  std::size_t parts = 1;
};
std::size_t correlate_parts(const MatrixShape& shape, CudaDevice& device);
Result<void> start_correlate(const LowRankCorrelate& task, CudaDevice& device);

// right = share * right; mean = left * transposed right; matrix -= mean, or 0 without feedback; q =
// right, each column scaled to about 1. If a factor is not finite the mean is NaN, q stays, and the
// matrix keeps its finite values. `largest` has 2 * rank words.
struct LowRankFinish {
  MatrixShape shape;
  const float* left = nullptr;
  float* right = nullptr;
  float share = 1;
  float* matrix = nullptr;
  bool has_sent = false;  // false: the matrix is the residual of earlier steps, and stays
  bool feedback = true;
  float* mean = nullptr;
  float* q = nullptr;
  std::uint32_t* largest = nullptr;
};
Result<void> start_finish(const LowRankFinish& task, CudaDevice& device);

}  // namespace tally::cuda
