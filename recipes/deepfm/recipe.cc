#include "recipes/catalogue.h"
#include "recipes/deepfm/model.h"

namespace tally::recipes {
namespace {

class DeepFmRecipe final : public Recipe {
 public:
  std::string name() const override { return "deepfm"; }
  std::string description() const override {
    return "a factorisation machine with deep layers on Criteo, MovieLens or Adult";
  }
  Defaults defaults() const override {
    return {.data = "movielens",
            .batch = 256,
            .epochs = 2,
            .optimizer = "adam",
            .rate = 1e-3,
            .schedule = "constant"};
  }
  std::vector<RecipeOption> options() override {
    return {{"embedding", "Numbers per key", &shape_.embedding, 1, 4096},
            {"hidden", "Units of each deep layer", &shape_.hidden, 1, 65536},
            {"layers", "Deep layers", &shape_.layers, 0, 100},
            {"dropout", "Share of units left out while training", &shape_.dropout, 0, 0.99, false},
            {"l2", "Each sample pulls the rows it uses towards zero, so strongly", &shape_.l2, 0,
             1e6, false},
            {"rows", "Rows of a table; keys are hashed onto them", &shape_.rows, 1, 1e9}};
  }
  Result<std::unique_ptr<data::Dataset>> open(const DataRequest& request) const override {
    return open_keyed_data(request);
  }
  Result<void> accepts(const data::Dataset& dataset) const override {
    return accepts_keyed(name(), /*fields=*/true, dataset);
  }
  Task task(const data::Dataset& /*dataset*/) const override { return Task::kBinary; }
  std::shared_ptr<Model> make_model(const data::Dataset& dataset) const override {
    DeepFmShape shape = shape_;
    shape.slots = slots_of(dataset);
    return std::make_shared<DeepFm>(shape);
  }
  Result<Finish> finish(Model& /*model*/, const data::Dataset& /*train*/,
                        std::uint64_t /*seed*/) const override {
    return Finish{};
  }

 private:
  DeepFmShape shape_;
};

}  // namespace

std::unique_ptr<Recipe> make_deepfm() { return std::make_unique<DeepFmRecipe>(); }

}  // namespace tally::recipes
