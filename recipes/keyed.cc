#include "recipes/keyed.h"

#include <fmt/format.h>

#include "base/errors.h"
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

class KeyedRecipe final : public Recipe {
 public:
  explicit KeyedRecipe(const KeyedKind& kind)
      : Recipe(kind.facts), kind_(kind), shape_(kind.shape) {}

  std::vector<RecipeOption> options() override { return kind_.options(shape_); }

  Result<data::Location> locate(const DataRequest& request) const override {
    return data::locate_keyed_parts(request.data, request.cache, request.read);
  }

  Result<std::unique_ptr<data::Dataset>> open(const DataRequest& request) const override {
    if (request.data.empty())
      return invalid("name a file or a folder, as in --data clicks.csv or --data a9a");
    TALLY_TRY(const data::Location location, locate(request));
    TALLY_TRY(
        std::unique_ptr<data::Dataset> dataset,
        data::open_keyed(location,
                         {.validation = request.read.validation.value_or(data::kDefaultValidation),
                          .train = request.train,
                          .seed = request.seed},
                         request.read));
    return dataset;
  }

  Result<void> accepts(const data::Preprocessing& samples) const override {
    const auto* const keyed = std::get_if<data::KeyedEncoding>(&samples.encoding);
    if (keyed != nullptr && (!kind_.needs_fields || !keyed->fields.empty())) return {};
    return invalid(fmt::format("{} takes tables{}", name(),
                               kind_.needs_fields ? "; for rows in libsvm's form there is logistic"
                                                  : ", and rows in libsvm's form"));
  }

  Task task(const data::Preprocessing& /*samples*/) const override { return Task::kBinary; }

  std::shared_ptr<Model> make_model(const data::Preprocessing& samples) const override {
    KeyedShape shape = shape_;
    shape.slots = samples.shape.input.at(1);
    return kind_.make_model(shape, std::get<data::KeyedEncoding>(samples.encoding).fields);
  }

 private:
  const KeyedKind kind_;
  KeyedShape shape_;
};

// Returns the rows times their values: [samples, slots, dimension].
at::Tensor valued(const at::Tensor& rows, const at::Tensor& values) {
  return rows * values.to(rows.scalar_type()).unsqueeze(-1);
}

}  // namespace

std::unique_ptr<Recipe> make_keyed_recipe(const KeyedKind& kind) {
  return std::make_unique<KeyedRecipe>(kind);
}

std::vector<RecipeOption> recommender_options(KeyedShape& shape) {
  return {{"embedding", "Numbers per key", &shape.embedding, 1, 4096},
          {"hidden", "Units of each deep layer", &shape.hidden, 1, 65536},
          {"layers", "Deep layers", &shape.layers, 0, 100},
          {"dropout", "Share of units left out while training", &shape.dropout, 0, 0.99},
          {"l2", "Each sample pulls the rows it uses towards zero, so strongly", &shape.l2, 0, 1e6},
          {"rows", "Rows of a table; keys are hashed onto them", &shape.rows, 1, 1e9}};
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

at::Tensor shrinking(const at::Tensor& rows, double l2) {
  if (l2 == 0 || !at::GradMode::is_enabled()) return rows;
  return Shrink::apply(rows, l2 / static_cast<double>(rows.size(0)));
}

at::Tensor linear_part(SparseEmbedding& weights, const KeyedBatch& batch, double l2) {
  return valued(shrinking(weights->forward(batch.keys), l2), batch.values).sum({1, 2});
}

Tower::Tower(torch::nn::Module& model, const std::string& weights_name, const KeyedShape& shape,
             double initial_scale)
    : l2_(shape.l2),
      weights_(model.register_module(weights_name, make_embedding(1, shape.rows, 0))),
      embedding_(model.register_module("embedding",
                                       make_embedding(shape.embedding, shape.rows, initial_scale))),
      deep_(model.register_module(
          "deep", std::make_shared<Mlp>(MlpShape{.inputs = shape.slots * shape.embedding,
                                                 .width = shape.hidden,
                                                 .hidden_layers = shape.layers,
                                                 .outputs = 1,
                                                 .dropout = shape.dropout}))),
      bias_(model.register_parameter("bias", at::zeros({1}))) {}

at::Tensor Tower::vectors(const KeyedBatch& batch) {
  return valued(shrinking(embedding_->forward(batch.keys), l2_), batch.values);
}

}  // namespace tally::recipes
