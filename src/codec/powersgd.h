#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tally::codec {

// PowerSGD (Vogels, Karimireddy, Jaggi 2019) of one matrix: a gradient of rows * columns travels as two thin factors. Each step all ranks
// call, with the sums over ranks in between:
//
//   project(own gradient) -> p -> mean over ranks -> correlate(p) -> q -> mean over ranks -> finish(q) -> mean gradient
//
// What the factors miss is added to the next gradient; the columns of Q are those of the last step (at first normal by seed, the same on
// all ranks), so that successive steps refine one another. The mean's bits must be the same on all ranks.
// Threads: calls must not overlap.
class PowerSgd final {
 public:
  struct Options {
    std::size_t rows = 0;
    std::size_t columns = 0;
    int rank = 2;  // at most min(rows, columns) are used
    std::uint64_t seed = 1;
  };
  explicit PowerSgd(const Options& options);

  int rank() const { return rank_; }
  std::size_t p_count() const { return options_.rows * static_cast<std::size_t>(rank_); }
  std::size_t q_count() const { return options_.columns * static_cast<std::size_t>(rank_); }

  void project(std::span<const float> gradient, std::span<float> p);
  // `p` is made orthonormal: the left factor.
  void correlate(std::span<float> p, std::span<float> q);
  void finish(std::span<const float> p, std::span<const float> q, std::span<float> mean);

  // For checkpoints: what is left over of this rank, and Q, which is everybody's.
  std::span<float> residual() { return residual_; }
  std::span<float> q() { return q_; }

 private:
  const Options options_;
  const int rank_;
  std::vector<float> residual_;  // rows * columns; between project() and finish() the whole matrix
  std::vector<float> q_;         // columns * rank
};

}  // namespace tally::codec
