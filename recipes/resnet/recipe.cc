#include "recipes/catalogue.h"
#include "recipes/images.h"
#include "recipes/resnet/model.h"

namespace tally::recipes {
namespace {

// Below 17 pixels, convolutions with stride leave no pixel for the last layers.
constexpr ImageNeeds kResnetImages{.least = 17, .most = 1024, .augment = true};

constexpr std::int64_t kFolderSize = 224;  // pixels to which the pictures of a folder are cut

// The differences between residual networks.
struct ResNetKind {
  std::string name;
  std::string description;
  ResNetShape (*shape)(std::int64_t channels, std::int64_t size, std::int64_t classes);
  std::uint64_t batch = 64;
  std::uint64_t epochs = 30;
};

class ResNetRecipe final : public Recipe {
 public:
  explicit ResNetRecipe(const ResNetKind& kind) : kind_(kind) {}

  std::string name() const override { return kind_.name; }
  std::string description() const override { return kind_.description; }
  Defaults defaults() const override {
    return {.data = "cifar10",
            .batch = kind_.batch,
            .epochs = kind_.epochs,
            .optimizer = "nesterov:decay=5e-4",
            .rate = 0.1,
            .schedule = "cosine",
            .warmup = 400};
  }
  Result<std::unique_ptr<data::Dataset>> open(const DataRequest& request) const override {
    return open_images(request, kResnetImages, kFolderSize);
  }
  Result<void> accepts(const data::Dataset& dataset) const override {
    return accepts_images(kind_.name, kResnetImages, dataset);
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

std::unique_ptr<Recipe> make_resnet18() {
  return std::make_unique<ResNetRecipe>(ResNetKind{
      .name = "resnet18",
      .description = "residual network of 18 layers, 11.2 million parameters, on images; for a GPU",
      .shape = resnet18,
      .batch = 128,
      .epochs = 30});
}

std::unique_ptr<Recipe> make_resnet50() {
  return std::make_unique<ResNetRecipe>(ResNetKind{
      .name = "resnet50",
      .description = "residual network of 50 layers, 23.5 to 25.6 million parameters, on images; "
                     "for a GPU",
      .shape = resnet50,
      .batch = 64,
      .epochs = 90});
}

}  // namespace tally::recipes
