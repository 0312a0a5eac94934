#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tally::codec {

// PowerSGD (Vogels, Karimireddy, Jaggi 2019) of one matrix: a gradient of rows * columns travels as
// two thin factors. Each step all ranks call, with the means over ranks, by weight, in between:
//
//   project(own gradient) -> p -> mean over ranks -> correlate(p) -> q -> mean over ranks ->
//   finish(p, q) -> mean gradient
//
// What the factors miss is added to the next gradient; the columns of Q are those of the last step
// (at first normal by seed, the same on all ranks), so that successive steps refine one another.
// The means' bits must be the same on all ranks; then those of the result are. The columns of a
// factor lie one behind the other: value i of column k of p is p[k * rows + i], of q it is q[k *
// columns + i].
//
// A rank without a gradient, whose weight is 0, leaves out project(): its q is zero, and what is
// left over stays as it is. Where a gradient is not finite all of the mean is not-a-number; Q
// stays, and what is left over of this rank is what was finite in its matrix. Threads: calls must
// not overlap.
class PowerSgd final {
 public:
  struct Options {
    std::size_t rows = 0;
    std::size_t columns = 0;
    int rank = 2;  // 1 to 64; at most min(rows, columns) are used
    std::uint64_t seed = 1;
  };
  explicit PowerSgd(const Options& options);

  int rank() const { return rank_; }
  std::size_t p_count() const { return options_.rows * static_cast<std::size_t>(rank_); }
  std::size_t q_count() const { return options_.columns * static_cast<std::size_t>(rank_); }

  void project(std::span<const float> gradient, std::span<float> p);
  // `p` is made orthonormal: the left factor.
  void correlate(std::span<float> p, std::span<float> q);
  // With what correlate() made of p, and the mean of what all made of it.
  void finish(std::span<const float> p, std::span<const float> q, std::span<float> mean);

  // For checkpoints, between finish() and project(): what is left over of this rank, and Q, which
  // is everybody's.
  std::span<float> residual() { return residual_; }
  std::span<float> q() { return q_; }

 private:
  void take_over(std::span<const float> q);

  const Options options_;
  const int rank_;
  bool sent_ = false;            // project() was called in this step
  std::vector<float> residual_;  // rows * columns; between project() and finish() the whole matrix
  std::vector<float> q_;         // columns * rank, each column scaled to about 1
};

// Makes columns of `rows` values, one behind the other, orthonormal by modified Gram-Schmidt in
// double. One that depends on those before it becomes zero; one that is not finite, and those
// behind it, become not-a-number.
void orthonormalise(std::span<float> columns, std::size_t rows);

}  // namespace tally::codec
