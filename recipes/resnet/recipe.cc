#include "recipes/resnet/model.h"

#include "recipes/catalogue.h"

namespace tally::recipes {

namespace {

constexpr std::int64_t kLargeStemFrom = 64;
constexpr std::int64_t kExpansion = 4;  // ratio of output to inner channels of a bottleneck

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                              std::int64_t stride = 1) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

struct BlockShape {
  std::int64_t in = 64;
  std::int64_t inner = 64;
  std::int64_t stride = 1;
  bool bottleneck = false;
  std::int64_t out() const { return bottleneck ? inner * kExpansion : inner; }
};

class Block final : public torch::nn::Module {
 public:
  explicit Block(const BlockShape& shape) {
    const auto add = [this](const std::string& number, torch::nn::Conv2d conv) {
      const std::int64_t out = conv->options.out_channels();
      convolutions_.push_back(register_module("conv" + number, std::move(conv)));
      norms_.push_back(register_module("bn" + number, torch::nn::BatchNorm2d(out)));
    };
    if (shape.bottleneck) {
      add("1", convolution(shape.in, shape.inner, 1));
      add("2", convolution(shape.inner, shape.inner, 3, shape.stride));
      add("3", convolution(shape.inner, shape.out(), 1));
    } else {
      add("1", convolution(shape.in, shape.inner, 3, shape.stride));
      add("2", convolution(shape.inner, shape.out(), 3));
    }
    if (shape.stride != 1 || shape.in != shape.out())
      downsample_ = register_module(
          "downsample", torch::nn::Sequential(convolution(shape.in, shape.out(), 1, shape.stride),
                                              torch::nn::BatchNorm2d(shape.out())));
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = input;
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      x = norms_[i]->forward(convolutions_[i]->forward(x));
      if (i + 1 < convolutions_.size()) x = x.relu_();
    }
    x = x + (downsample_.is_empty() ? input : downsample_->forward(input));
    return x.relu_();
  }

  // A block is initially the identity, so that a deep network starts as a shallow one.
  void silence() { torch::nn::init::zeros_(norms_.back()->weight); }

 private:
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Sequential downsample_{nullptr};
};

}  // namespace

ResNetShape resnet18(const ImageShape& images) {
  return {.blocks = {2, 2, 2, 2}, .bottleneck = false, .images = images};
}

ResNetShape resnet50(const ImageShape& images) {
  return {.blocks = {3, 4, 6, 3}, .bottleneck = true, .images = images};
}

ResNet::ResNet(const ResNetShape& shape) : large_stem_(shape.images.size >= kLargeStemFrom) {
  conv1_ = register_module("conv1", large_stem_ ? convolution(shape.images.channels, planes_, 7, 2)
                                                : convolution(shape.images.channels, planes_, 3));
  bn1_ = register_module("bn1", torch::nn::BatchNorm2d(planes_));
  for (std::size_t stage = 0; stage < layers_.size(); ++stage)
    layers_[stage] = register_module("layer" + std::to_string(stage + 1), layer(shape, stage));
  fc_ = register_module("fc", torch::nn::Linear(planes_, shape.images.classes));
  initialise();
}

torch::nn::Sequential ResNet::layer(const ResNetShape& shape, std::size_t stage) {
  torch::nn::Sequential blocks;
  for (int i = 0; i < shape.blocks[stage]; ++i) {
    const BlockShape block{.in = planes_,
                           .inner = std::int64_t{64} << stage,
                           .stride = i == 0 && stage > 0 ? 2 : 1,
                           .bottleneck = shape.bottleneck};
    blocks->push_back(std::make_shared<Block>(block));
    planes_ = block.out();
  }
  return blocks;
}

void ResNet::initialise() {
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* const conv = module->as<torch::nn::Conv2d>())
      torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
    if (auto* const block = dynamic_cast<Block*>(module.get())) block->silence();
  }
}

at::Tensor ResNet::forward(const at::Tensor& input) {
  at::Tensor x = bn1_->forward(conv1_->forward(input)).relu_();
  if (large_stem_) x = torch::max_pool2d(x, 3, 2, 1);
  for (auto& blocks : layers_) x = blocks->forward(x);
  return fc_->forward(x.mean({2, 3}));
}

namespace {

std::unique_ptr<Recipe> make_resnet(const std::string& name, const std::string& description,
                                    std::uint64_t batch, std::uint64_t epochs,
                                    std::shared_ptr<Model> (*make_model)(const ImageShape&)) {
  return make_image_recipe(
      {.facts = {.name = name,
                 .description = description,
                 .defaults = {.data = "cifar10",
                              .batch = batch,
                              .epochs = epochs,
                              .optimizer = "nesterov:decay=5e-4",
                              .rate = 0.1,
                              .schedule = "cosine",
                              .warmup = 400}},
       .least = 17,  // below, convolutions with stride leave no pixel for the last layers
       .most = 1024,
       .augment = true,
       .folder_size = 224,
       .make_model = make_model});
}

}  // namespace

std::unique_ptr<Recipe> make_resnet18() {
  return make_resnet("resnet18",
                     "residual network of 18 layers, 11.2 million parameters, on images; for a GPU",
                     128, 30, [](const ImageShape& images) -> std::shared_ptr<Model> {
                       return std::make_shared<ResNet>(resnet18(images));
                     });
}

std::unique_ptr<Recipe> make_resnet50() {
  return make_resnet(
      "resnet50",
      "residual network of 50 layers, 23.5 to 25.6 million parameters, on images; for a GPU", 64,
      90, [](const ImageShape& images) -> std::shared_ptr<Model> {
        return std::make_shared<ResNet>(resnet50(images));
      });
}

}  // namespace tally::recipes
