#include "recipes/logistic/model.h"

#include "recipes/catalogue.h"
#include "recipes/keyed.h"

namespace tally::recipes {

Logistic::Logistic(const LogisticShape& shape)
    : l2_(shape.l2),
      linear_(register_module("linear", make_embedding(1, shape.rows, 0))),
      bias_(register_parameter("bias", at::zeros({1}))) {}

at::Tensor Logistic::forward(const at::Tensor& input) {
  const KeyedBatch batch = keyed_batch(input);
  return linear_part(linear_, batch, l2_) + bias_;
}

namespace {

class LogisticRecipe final : public Recipe {
 public:
  std::string name() const override { return "logistic"; }
  std::string description() const override {
    return "sparse logistic regression on a libsvm file or a table of categories";
  }
  Defaults defaults() const override {
    return {.data = "",
            .batch = 256,
            .epochs = 10,
            .optimizer = "adagrad",
            .rate = 0.1,
            .schedule = "constant"};
  }
  std::vector<RecipeOption> options() override {
    return {{"l2", "Each sample pulls the weights it uses towards zero, so strongly", &shape_.l2, 0,
             1e6, false},
            {"rows", "Weights; keys above are hashed onto them", &shape_.rows, 1, 1e9}};
  }
  Result<std::unique_ptr<data::Dataset>> open(const DataRequest& request) const override {
    return open_keyed_data(request);
  }
  Result<void> accepts(const data::Dataset& dataset) const override {
    return accepts_keyed(name(), /*fields=*/false, dataset);
  }
  Task task(const data::Dataset& /*dataset*/) const override { return Task::kBinary; }
  std::shared_ptr<Model> make_model(const data::Dataset& /*dataset*/) const override {
    return std::make_shared<Logistic>(shape_);
  }
  Result<Finish> finish(Model& /*model*/, const data::Dataset& /*train*/,
                        std::uint64_t /*seed*/) const override {
    return Finish{};
  }

 private:
  LogisticShape shape_;
};

}  // namespace

std::unique_ptr<Recipe> make_logistic() { return std::make_unique<LogisticRecipe>(); }

}  // namespace tally::recipes
