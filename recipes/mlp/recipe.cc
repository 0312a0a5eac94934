#include "recipes/mlp/model.h"

#include <algorithm>

#include "data/open.h"
#include "recipes/catalogue.h"

namespace tally::recipes {

Mlp::Mlp(const MlpShape& shape) {
  std::int64_t inputs = shape.inputs;
  for (std::int64_t i = 0; i <= shape.hidden_layers; ++i) {
    const std::int64_t outputs = i == shape.hidden_layers ? shape.outputs : shape.width;
    layers_.push_back(
        register_module("fc" + std::to_string(i + 1), torch::nn::Linear(inputs, outputs)));
    inputs = outputs;
  }
}

at::Tensor Mlp::forward(const at::Tensor& input) {
  at::Tensor x = input.reshape({input.size(0), -1});
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    x = layers_[i]->forward(x);
    if (i + 1 < layers_.size()) x = torch::relu(x);
  }
  return x;
}

namespace {

class MlpRecipe final : public Recipe {
 public:
  std::string name() const override { return "mlp"; }
  std::string description() const override {
    return "a multilayer perceptron on images or on the rows of a csv or libsvm file";
  }
  Defaults defaults() const override {
    return {.data = "fashion-mnist",
            .batch = 64,
            .epochs = 8,
            .optimizer = "momentum:decay=1e-4",
            .rate = 0.05,
            .schedule = "cosine",
            .warmup = 100};
  }
  std::vector<RecipeOption> options() override {
    return {{"width", "Units of each hidden layer", &width_, 1, 65536},
            {"layers", "Hidden layers", &layers_, 0, 1000}};
  }
  Result<std::unique_ptr<data::Dataset>> open(const DataRequest& request) const override {
    return data::open_dataset(request.data, request.cache,
                              {.train = request.train, .seed = request.seed});
  }
  Result<void> accepts(const data::Dataset& dataset) const override {
    const data::SampleShape& shape = dataset.shape();
    if (shape.input_type == DataType::kFloat32 && shape.target.empty()) return {};
    return Error{.code = ErrorCode::kInvalid,
                 .message = "mlp takes images or rows of numbers with one target each, not texts"};
  }
  Task task(const data::Dataset& dataset) const override {
    return dataset.shape().target_type == DataType::kInt64 ? Task::kClassification
                                                           : Task::kRegression;
  }
  std::shared_ptr<Model> make_model(const data::Dataset& dataset) const override {
    const std::size_t inputs = data::input_bytes(dataset.shape()) / sizeof(float);
    const std::size_t classes = std::max<std::size_t>(dataset.classes().size(), 2);
    const bool scores = task(dataset) == Task::kClassification;
    return std::make_shared<Mlp>(
        MlpShape{.inputs = static_cast<std::int64_t>(inputs),
                 .width = width_,
                 .hidden_layers = layers_,
                 .outputs = scores ? static_cast<std::int64_t>(classes) : 1});
  }
  Result<Finish> finish(Model& /*model*/, const data::Dataset& /*train*/,
                        std::uint64_t /*seed*/) const override {
    return Finish{};
  }

 private:
  std::int64_t width_ = 512;
  std::int64_t layers_ = 2;
};

}  // namespace

std::unique_ptr<Recipe> make_mlp() { return std::make_unique<MlpRecipe>(); }

}  // namespace tally::recipes
