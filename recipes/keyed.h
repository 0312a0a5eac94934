#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "recipes/model.h"
#include "recipes/recipe.h"
#include "tally/sparse.h"

namespace tally::recipes {

// Shared by recipes on tables of keys (src/data/keyed.h).

Result<std::unique_ptr<data::Dataset>> open_keyed_data(const DataRequest& request);

// Checks that these are samples of keys with a label 0 or 1; with `fields`, those of a table.
// kInvalid says what `recipe` accepts.
Result<void> accepts_keyed(const std::string& recipe, bool fields, const data::Dataset& dataset);

// For an accepted dataset.
std::int64_t slots_of(const data::Dataset& dataset);
// Returns the names of the fields; none for sparse vectors.
std::vector<std::string> fields_of(const data::Dataset& dataset);

// Samples as a model takes them, [samples, slots] each.
struct KeyedBatch {
  at::Tensor keys;
  at::Tensor values;  // float64
};
// Throws c10::Error unless the input is int64 [samples, 2, slots].
KeyedBatch keyed_batch(const at::Tensor& input);

// Makes an embedding initialised by torch's random numbers; with scale 0 it is zero.
SparseEmbedding make_embedding(std::int64_t dimension, std::int64_t rows, double scale);

// Returns the rows times their values: [samples, slots, dimension].
at::Tensor valued(const at::Tensor& rows, const at::Tensor& values);

// Returns `rows` [samples, ...] unchanged, with the gradient of a loss that has an additional l2 /
// 2 times the sum of their squares per sample. So each sample decays only the rows that it uses.
at::Tensor shrinking(const at::Tensor& rows, double l2);

// Returns the weights of the keys times their values, summed over the slots: [samples]. The weights
// decay as in shrinking().
at::Tensor linear_part(SparseEmbedding& weights, const KeyedBatch& batch, double l2);

struct DeepShape {
  std::int64_t inputs = 0;
  std::int64_t width = 400;
  std::int64_t layers = 3;
  double dropout = 0;
};

// Fully connected layers fc1, fc2, ... with ReLU and dropout, and one output: [samples, inputs] to
// [samples].
class DeepPartImpl : public torch::nn::Module {
 public:
  explicit DeepPartImpl(const DeepShape& shape);
  at::Tensor forward(const at::Tensor& input);

 private:
  std::vector<torch::nn::Linear> layers_;
  torch::nn::Dropout dropout_;
};
TORCH_MODULE(DeepPart);

}  // namespace tally::recipes
