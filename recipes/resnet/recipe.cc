#include "recipes/resnet/recipe.h"

#include "recipes/images.h"

namespace tally::recipes {
namespace {

// Below 17 pixels nothing is left of an image before the last layers.
constexpr ImageNeeds kImages{.least = 17, .most = 1024, .augment = true};

class ResNetRecipe final : public Recipe {
 public:
  explicit ResNetRecipe(const ResNetKind& kind) : kind_(kind) {}

  std::string name() const override { return kind_.name; }
  std::string description() const override { return kind_.description; }
  Defaults defaults() const override { return kind_.defaults; }
  Result<std::unique_ptr<data::Dataset>> open(const DataRequest& request) const override {
    return open_images(request, kImages, kind_.folder_size);
  }
  Result<void> accepts(const data::Dataset& dataset) const override {
    return accepts_images(kind_.name, kImages, dataset);
  }
  Task task(const data::Dataset& /*dataset*/) const override { return Task::kClassification; }
  std::shared_ptr<Model> make_model(const data::Dataset& dataset) const override {
    const ImageFacts facts = image_facts(dataset);
    return std::make_shared<ResNet>(kind_.shape(facts.channels, facts.size, facts.classes));
  }
  Result<Finish> finish(Model& /*model*/, const data::Dataset& /*train*/,
                        std::uint64_t /*seed*/) const override {
    return Finish{};
  }

 private:
  const ResNetKind kind_;
};

}  // namespace

std::unique_ptr<Recipe> make_resnet(const ResNetKind& kind) {
  return std::make_unique<ResNetRecipe>(kind);
}

}  // namespace tally::recipes
