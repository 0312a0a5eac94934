#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include <torch/torch.h>

namespace tally {

struct SparseEmbeddingOptions {
  std::int64_t dimension = 16;
  // Without servers: the key is the row number if it is below `rows`; other keys are hashed to
  // rows.
  std::int64_t rows = 1 << 18;
  double initial_scale = 0.01;  // rows start uniform in [-initial_scale, initial_scale]
  std::uint64_t seed = 1;
};

// A trained table from 64-bit keys to rows of numbers. By default it is a parameter `weight` of
// [rows, dimension], which starts equal on all ranks: a hash of seed and position. Attached to
// external rows it has no parameter: forward passes pull the rows they need, and take() returns the
// gradients to push. Failure is kInvalid for invalid options and keys, unless stated otherwise.
// Threads: calls must not overlap.
class SparseEmbeddingImpl : public torch::nn::Module {
 public:
  explicit SparseEmbeddingImpl(const SparseEmbeddingOptions& options);

  // Maps int64 keys of any shape S to rows of shape S + [dimension]. Key -1 is padding: a zero row
  // without gradient. Other keys must not be negative.
  at::Tensor forward(const at::Tensor& keys);

  // External rows, in place of the parameter `weight`.
  class Rows {
   public:
    virtual ~Rows() = default;
    // Writes the row of each key, in order. Each key occurs once. May throw; forward() passes the
    // exception on.
    virtual void pull(std::span<const std::uint64_t> keys, std::span<float> rows) = 0;
  };
  // Uses `rows` from now on; `rows` must outlive this object or the next attach(). `weight` is no
  // longer a parameter. nullptr: returns to a fresh weight.
  void attach(Rows* rows);
  bool is_attached() const { return rows_ != nullptr; }

  // The rows that forward passes have read since the last take(), for the trainer to push: each key
  // once, ascending, with its gradient from backward, float32 [keys, dimension] on the CPU. Empty
  // for passes without gradients (evaluation), and if `weight` is a parameter.
  struct Used {
    std::vector<std::uint64_t> keys;
    at::Tensor gradient;
  };
  Used take();

  const SparseEmbeddingOptions& options() const { return options_; }
  // The row of `weight` that has this key.
  std::int64_t row_of(std::uint64_t key) const;

  at::Tensor weight;  // undefined while attached

 private:
  // A forward pass that read rows: its keys, ascending, and the leaf tensor of pulled rows.
  struct Pass {
    std::vector<std::uint64_t> keys;
    at::Tensor rows;
  };

  void make_weight();
  at::Tensor from_weight(const at::Tensor& keys);
  at::Tensor from_elsewhere(const at::Tensor& keys);

  const SparseEmbeddingOptions options_;
  Rows* rows_ = nullptr;
  std::vector<Pass> passes_;
};
TORCH_MODULE(SparseEmbedding);

}  // namespace tally
