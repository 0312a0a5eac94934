#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include <torch/torch.h>

namespace tally {

struct SparseEmbeddingOptions {
  std::int64_t dimension = 16;
  // Without servers: a key below it has the row of that number, others are hashed onto the rows.
  std::int64_t rows = 1 << 18;
  double initial_scale = 0.01;  // rows begin uniform from -initial_scale to +initial_scale
  std::uint64_t seed = 1;
};

// A table from 64-bit keys to rows of numbers that are trained. By itself it is a parameter
// `weight` of [rows, dimension], which begins alike everywhere: a hash of seed and place. Attached
// to rows that live elsewhere it has no parameter: forward passes pull what they need, and take()
// has the gradients to push. Failure kInvalid, where it is not said otherwise, for options and keys
// that make no sense. Threads: one at a time.
class SparseEmbeddingImpl : public torch::nn::Module {
 public:
  explicit SparseEmbeddingImpl(const SparseEmbeddingOptions& options);

  // int64 keys of any shape S to rows of shape S + [dimension]; key -1 is padding: a zero row
  // without gradient. Other keys are not negative.
  at::Tensor forward(const at::Tensor& keys);

  // Rows that live elsewhere, in place of the parameter `weight`.
  class Rows {
   public:
    virtual ~Rows() = default;
    // The row of each key, behind each other. A key comes once. May throw; forward() passes that
    // on.
    virtual void pull(std::span<const std::uint64_t> keys, std::span<float> rows) = 0;
  };
  // From now on; `rows` outlives this or the next attach(), and `weight` is no parameter any more.
  // nullptr: back to a fresh weight.
  void attach(Rows* rows);

  // What the forward passes since the last take() read, each key once and ascending, with the
  // gradient that backward left, on the CPU: float32 [keys, dimension]. For the trainer to push.
  // Passes without gradients (evaluation) and parameters leave nothing.
  struct Used {
    std::vector<std::uint64_t> keys;
    at::Tensor gradient;
  };
  Used take();

  const SparseEmbeddingOptions& options() const { return options_; }

  at::Tensor weight;  // undefined while attached

 private:
  // A pass that read rows: its keys, ascending, and the leaf they were pulled into.
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
