#include "recipes/lenet/model.h"

#include "recipes/catalogue.h"
#include "recipes/images.h"

namespace tally::recipes {

LeNet::LeNet(const LeNetShape& shape) {
  const std::int64_t padding = (32 - shape.size) / 2;
  conv1_ = register_module(
      "conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(shape.channels, 6, 5).padding(padding)));
  conv2_ = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 16, 5)));
  fc1_ = register_module("fc1", torch::nn::Linear(16 * 5 * 5, 120));
  fc2_ = register_module("fc2", torch::nn::Linear(120, 84));
  fc3_ = register_module("fc3", torch::nn::Linear(84, shape.classes));
}

at::Tensor LeNet::forward(const at::Tensor& input) {
  // Pooling first is equivalent, because ReLU is monotonic, and leaves ReLU a quarter of the
  // values.
  at::Tensor x = torch::relu(torch::max_pool2d(conv1_->forward(input), 2));
  x = torch::relu(torch::max_pool2d(conv2_->forward(x), 2));
  x = torch::relu(fc1_->forward(x.flatten(1)));
  x = torch::relu(fc2_->forward(x));
  return fc3_->forward(x);
}

namespace {

constexpr ImageNeeds kLenetImages{.least = 28, .most = 32};

class LeNetRecipe final : public Recipe {
 public:
  std::string name() const override { return "lenet"; }
  std::string description() const override {
    return "LeNet-5, 61,706 parameters, on images of 28x28 to 32x32 pixels";
  }
  Defaults defaults() const override {
    return {.data = "fashion-mnist",
            .batch = 64,
            .epochs = 8,
            .optimizer = "momentum:decay=5e-4",
            .rate = 0.05,
            .schedule = "cosine",
            .warmup = 100};
  }
  Result<std::unique_ptr<data::Dataset>> open(const DataRequest& request) const override {
    return open_images(request, kLenetImages, kLenetImages.most);
  }
  Result<void> accepts(const data::Dataset& dataset) const override {
    TALLY_TRY(accepts_images(name(), kLenetImages, dataset));
    if (image_facts(dataset).size % 2 == 0) return {};
    // The first convolution pads both sides equally.
    return Error{.code = ErrorCode::kInvalid,
                 .message = "lenet takes images of 28x28, 30x30 or 32x32 pixels"};
  }
  Task task(const data::Dataset& /*dataset*/) const override { return Task::kClassification; }
  std::shared_ptr<Model> make_model(const data::Dataset& dataset) const override {
    const ImageFacts facts = image_facts(dataset);
    return std::make_shared<LeNet>(
        LeNetShape{.channels = facts.channels, .size = facts.size, .classes = facts.classes});
  }
  Result<Finish> finish(Model& /*model*/, const data::Dataset& /*train*/,
                        std::uint64_t /*seed*/) const override {
    return Finish{};
  }
};

}  // namespace

std::unique_ptr<Recipe> make_lenet() { return std::make_unique<LeNetRecipe>(); }

}  // namespace tally::recipes
