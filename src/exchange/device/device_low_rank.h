#pragma once
#include <cstddef>

#include "tally/error.h"

namespace tally::exchange {

// codec::PowerSgd for a matrix whose gradient lies on a device, with the weights of LowRankRound.
// In each step all ranks call, with sums over the ranks in between:
//
//   project(gradient, weight) -> p is summed -> correlate(p) -> q is summed -> finish(p, q) -> mean
//
// `weight` is that of this rank, and `share` one over the sum of the weights; both are 1 for a rank
// that is alone. A rank without a gradient does not call project(); its p is zeros.
//
// Differences from codec::PowerSgd: the products of project() and correlate() and the norms are
// summed in another order. Each element differs by at most 1e-5 of the largest magnitude that its
// column of the factor, or the mean, has, as long as the columns of the projection are clearly
// independent: where one is another's multiple within float32's precision, both have a direction
// there that is only rounding. finish() gives the same bits from the same factors.
//
// Pointers are to memory of the device, floats in the layout of codec::PowerSgd; nothing overlaps.
// Calls enqueue their work like those of the Device. Threads: calls must not overlap.
class DeviceLowRank {
 public:
  virtual ~DeviceLowRank() = default;

  virtual int rank() const = 0;  // at most the rows and the columns
  virtual std::size_t p_count() const = 0;
  virtual std::size_t q_count() const = 0;

  // p = weight * (residual + gradient) * Q.
  virtual Result<void> project(const float* gradient, float weight, float* p) = 0;
  // p becomes the left factor: the orthonormal columns of share * p. q = weight * transposed
  // (residual + gradient) * p; zeros if project() was not called in this step.
  virtual Result<void> correlate(float* p, float share, float weight, float* q) = 0;
  // `p` is the left factor, and q becomes the right one, share * q. mean = p * transposed q, and
  // the residual is what the mean leaves out, or zero without feedback.
  virtual Result<void> finish(const float* p, float* q, float share, float* mean) = 0;
  // Ends a step without finish(): the residual has the whole gradient of project().
  virtual void give_up() = 0;

  // For checkpoints, between finish() and project(): rows * columns and q_count() floats.
  virtual float* residual() = 0;
  virtual float* q() = 0;
};

}  // namespace tally::exchange
