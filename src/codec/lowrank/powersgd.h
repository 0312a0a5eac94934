#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tally::codec {

// PowerSGD (Vogels, Karimireddy, Jaggi 2019) for one matrix: a gradient of rows * columns is sent
// as two thin factors. In each step all ranks call, with weighted means over the ranks in between:
//
//   project(own gradient) -> p -> mean over ranks -> correlate(p) -> q -> mean over ranks ->
//   finish(p, q) -> mean gradient
//
// The residual of the factors is added to the next gradient. Q is kept from step to step (at first
// it is random and normal, by a seed that is equal on all ranks), so that successive steps refine
// one another. If the means have the same bits on all ranks, the results have. Factors are stored
// column by column: value i of column k of p is p[k * rows + i], of q it is q[k * columns + i].
//
// A rank without a gradient, whose weight is 0, does not call project(): its q is zero, and its
// residual stays as it is. If a gradient is not finite, the whole mean is NaN; Q stays, and the
// residual of that rank keeps the finite values of its matrix. Threads: calls must not overlap.
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
  // Makes `p` orthonormal: the left factor.
  void correlate(std::span<float> p, std::span<float> q);
  // `p` is the left factor from correlate(), `q` the mean over ranks.
  void finish(std::span<const float> p, std::span<const float> q, std::span<float> mean);
  // Ends a step without finish(): the residual has the whole gradient of project().
  void give_up() { sent_ = false; }

  // For checkpoints, between finish() and project(): the residual of this rank, and Q, which is
  // equal on all ranks.
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

// Makes columns of `rows` values, stored one after another, orthonormal by modified Gram-Schmidt in
// double. A column that depends on earlier ones becomes zero; a column that is not finite, and all
// later ones, become NaN.
void orthonormalise(std::span<float> columns, std::size_t rows);

}  // namespace tally::codec
