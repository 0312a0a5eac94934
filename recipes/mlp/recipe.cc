#include "recipes/mlp/model.h"

#include "base/errors.h"
#include "data/open.h"
#include "recipes/catalogue.h"

namespace tally::recipes {

Mlp::Mlp(const MlpShape& shape)
    : dropout_(register_module("dropout", torch::nn::Dropout(shape.dropout))) {
  std::int64_t inputs = shape.inputs;
  for (std::int64_t i = 0; i <= shape.hidden_layers; ++i) {
    const std::int64_t outputs = i == shape.hidden_layers ? shape.outputs : shape.width;
    layers_.push_back(
        register_module("fc" + std::to_string(i + 1), torch::nn::Linear(inputs, outputs)));
    inputs = outputs;
  }
}

at::Tensor Mlp::forward(const at::Tensor& input) {
  at::Tensor x = input.flatten(1);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    x = layers_[i]->forward(x);
    if (i + 1 < layers_.size()) x = dropout_->forward(torch::relu(x));
  }
  return x;
}

namespace {

class MlpRecipe final : public Recipe {
 public:
  MlpRecipe()
      : Recipe({.name = "mlp",
                .description =
                    "a multilayer perceptron on images or on the rows of a csv or libsvm file",
                .defaults = {.data = "fashion-mnist",
                             .batch = 64,
                             .epochs = 8,
                             .optimizer = "momentum:decay=1e-4",
                             .rate = 0.05,
                             .schedule = "cosine",
                             .warmup = 100}}) {}

  std::vector<RecipeOption> options() override {
    return {{"width", "Units of each hidden layer", &width_, 1, 65536},
            {"layers", "Hidden layers", &layers_, 0, 1000}};
  }
  Result<std::unique_ptr<data::Dataset>> open(const DataRequest& request) const override {
    return data::open_dataset(request.data, request.cache,
                              {.train = request.train, .read = request.read, .seed = request.seed});
  }
  Result<void> accepts(const data::Preprocessing& samples) const override {
    const data::SampleShape& shape = samples.shape;
    if (shape.input_type == DataType::kFloat32 && shape.target.empty()) return {};
    return invalid("mlp takes images or rows of numbers with one target each, not texts");
  }
  Task task(const data::Preprocessing& samples) const override { return task_of_targets(samples); }
  // Without it the default learning rate diverges on targets such as prices.
  bool scales_targets() const override { return true; }
  std::shared_ptr<Model> make_model(const data::Preprocessing& samples) const override {
    return std::make_shared<Mlp>(MlpShape{.inputs = inputs_of(samples),
                                          .width = width_,
                                          .hidden_layers = layers_,
                                          .outputs = outputs_for(samples)});
  }

 private:
  std::int64_t width_ = 512;
  std::int64_t layers_ = 2;
};

}  // namespace

std::unique_ptr<Recipe> make_mlp() { return std::make_unique<MlpRecipe>(); }

}  // namespace tally::recipes
