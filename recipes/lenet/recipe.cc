#include "recipes/lenet/model.h"

#include "recipes/catalogue.h"

namespace tally::recipes {

LeNet::LeNet(const ImageShape& shape) {
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

std::unique_ptr<Recipe> make_lenet() {
  return make_image_recipe(
      {.facts = {.name = "lenet",
                 .description = "LeNet-5, 61,706 parameters, on images of 28x28 to 32x32 pixels",
                 .defaults = {.data = "fashion-mnist",
                              .batch = 64,
                              .epochs = 8,
                              .optimizer = "momentum:decay=5e-4",
                              .rate = 0.05,
                              .schedule = "cosine",
                              .warmup = 100}},
       .least = 28,
       .most = 32,
       .even_size = true,  // the first convolution pads both sides equally
       .folder_size = 32,
       .make_model = [](const ImageShape& shape) -> std::shared_ptr<Model> {
         return std::make_shared<LeNet>(shape);
       }});
}

}  // namespace tally::recipes
