#include "recipes/keyed.h"

#include <fmt/format.h>

#include "data/keyed_open.h"

namespace tally::recipes {
namespace {

// See shrinking().
class Shrink : public torch::autograd::Function<Shrink> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& rows,
                            double share) {
    context->save_for_backward({rows});
    context->saved_data["share"] = share;
    return rows.view_as(rows);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const at::Tensor rows = context->get_saved_variables()[0];
    return {gradients[0] + rows * context->saved_data["share"].toDouble(), at::Tensor()};
  }
};

const data::KeyedDataset* keyed(const data::Dataset& dataset) {
  return dynamic_cast<const data::KeyedDataset*>(&dataset);
}

}  // namespace

Result<std::unique_ptr<data::Dataset>> open_keyed_data(const DataRequest& request) {
  if (request.data.empty())
    return Error{.code = ErrorCode::kInvalid,
                 .message = "name a file or a folder, as in --data a9a or --data adult"};
  TALLY_TRY(const data::Location location, data::locate_keyed(request.data, request.cache));
  TALLY_TRY(std::unique_ptr<data::Dataset> dataset,
            data::open_keyed(location, {.train = request.train, .seed = request.seed}));
  return dataset;
}

Result<void> accepts_keyed(const std::string& recipe, bool fields, const data::Dataset& dataset) {
  const data::KeyedDataset* const found = keyed(dataset);
  if (found != nullptr && (!fields || !found->fields().empty())) return {};
  return Error{
      .code = ErrorCode::kInvalid,
      .message = fmt::format("{} takes tables of fields (Criteo, Adult, MovieLens){}", recipe,
                             fields ? "; for rows in libsvm's form there is logistic"
                                    : ", and rows in libsvm's form")};
}

std::int64_t slots_of(const data::Dataset& dataset) { return dataset.shape().input.at(1); }

std::vector<std::string> fields_of(const data::Dataset& dataset) {
  const data::KeyedDataset* const found = keyed(dataset);
  return found != nullptr ? found->fields() : std::vector<std::string>{};
}

KeyedBatch keyed_batch(const at::Tensor& input) {
  TORCH_CHECK(input.dim() == 3 && input.size(1) == 2 && input.scalar_type() == at::kLong,
              "the input must be int64 [samples, 2, slots]");
  return {.keys = input.select(1, 0), .values = input.select(1, 1).contiguous().view(at::kDouble)};
}

SparseEmbedding make_embedding(std::int64_t dimension, std::int64_t rows, double scale) {
  const auto seed = at::randint(std::int64_t{1} << 53, {1}, at::kLong).item<std::int64_t>();
  return SparseEmbedding(SparseEmbeddingOptions{.dimension = dimension,
                                                .rows = rows,
                                                .initial_scale = scale,
                                                .seed = static_cast<std::uint64_t>(seed)});
}

at::Tensor valued(const at::Tensor& rows, const at::Tensor& values) {
  return rows * values.to(rows.scalar_type()).unsqueeze(-1);
}

at::Tensor shrinking(const at::Tensor& rows, double l2) {
  if (l2 == 0) return rows;
  return Shrink::apply(rows, l2 / static_cast<double>(rows.size(0)));
}

at::Tensor linear_part(SparseEmbedding& weights, const KeyedBatch& batch, double l2) {
  return valued(shrinking(weights->forward(batch.keys), l2), batch.values).sum({1, 2});
}

DeepPartImpl::DeepPartImpl(const DeepShape& shape) : dropout_(shape.dropout) {
  std::int64_t inputs = shape.inputs;
  for (std::int64_t i = 0; i <= shape.layers; ++i) {
    const std::int64_t outputs = i == shape.layers ? 1 : shape.width;
    layers_.push_back(
        register_module("fc" + std::to_string(i + 1), torch::nn::Linear(inputs, outputs)));
    inputs = outputs;
  }
  register_module("dropout", dropout_);
}

at::Tensor DeepPartImpl::forward(const at::Tensor& input) {
  at::Tensor x = input;
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i)
    x = dropout_->forward(torch::relu(layers_[i]->forward(x)));
  return layers_.back()->forward(x).squeeze(-1);
}

}  // namespace tally::recipes
