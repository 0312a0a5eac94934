#include "recipes/recommender/recipe.h"

namespace tally::recipes {
namespace {

class RecommenderRecipe final : public Recipe {
 public:
  explicit RecommenderRecipe(const RecommenderKind& kind) : kind_(kind) {}

  std::string name() const override { return kind_.name; }
  std::string description() const override { return kind_.description; }
  Defaults defaults() const override { return kind_.defaults; }
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
    return accepts_keyed(kind_.name, /*fields=*/true, dataset);
  }
  Task task(const data::Dataset& /*dataset*/) const override { return Task::kBinary; }
  std::shared_ptr<Model> make_model(const data::Dataset& dataset) const override {
    RecommenderShape shape = shape_;
    shape.slots = slots_of(dataset);
    return kind_.make_model(shape, dataset);
  }
  Result<Finish> finish(Model& /*model*/, const data::Dataset& /*train*/,
                        std::uint64_t /*seed*/) const override {
    return Finish{};
  }

 private:
  const RecommenderKind kind_;
  RecommenderShape shape_;
};

}  // namespace

std::unique_ptr<Recipe> make_recommender(const RecommenderKind& kind) {
  return std::make_unique<RecommenderRecipe>(kind);
}

}  // namespace tally::recipes
