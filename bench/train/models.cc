#include "bench/train/models.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "recipes/resnet/model.h"

namespace tally::bench::train {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;

class Mlp final : public BenchModel {
 public:
  explicit Mlp(const ModelFacts& facts) : layers_(register_module("layers", nn::ModuleList())) {
    for (std::size_t i = 0; i + 1 < facts.widths.size(); ++i)
      layers_->push_back(nn::Linear(facts.widths[i], facts.widths[i + 1]));
  }

  Tensor loss(const Tensor& input, const Tensor& target) override {
    Tensor x = input;
    for (std::size_t i = 0; i < layers_->size(); ++i) {
      x = layers_[i]->as<nn::Linear>()->forward(x);
      if (i + 1 < layers_->size()) x = torch::relu(x);
    }
    return F::cross_entropy(x, target);
  }

 private:
  nn::ModuleList layers_;
};

class Cnn final : public BenchModel {
 public:
  explicit Cnn(const ModelFacts& facts)
      : stages_(facts.stages),
        convolutions_(register_module("convolutions", nn::ModuleList())),
        norms_(register_module("norms", nn::ModuleList())) {
    std::int64_t channels = facts.input.front();
    for (const auto& stage : stages_) {
      for (const std::int64_t width : stage) {
        convolutions_->push_back(
            nn::Conv2d(nn::Conv2dOptions(channels, width, 3).padding(1).bias(false)));
        norms_->push_back(nn::BatchNorm2d(width));
        channels = width;
      }
    }
    head_ = register_module("head", nn::Linear(channels, facts.classes));
  }

  Tensor loss(const Tensor& input, const Tensor& target) override {
    Tensor x = input;
    std::size_t i = 0;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if (stage > 0) x = torch::max_pool2d(x, 2);
      for (std::size_t k = 0; k < stages_[stage].size(); ++k, ++i) {
        x = convolutions_[i]->as<nn::Conv2d>()->forward(x);
        x = torch::relu(norms_[i]->as<nn::BatchNorm2d>()->forward(x));
      }
    }
    return F::cross_entropy(head_->forward(x.mean({2, 3})), target);
  }

 private:
  std::vector<std::vector<std::int64_t>> stages_;
  nn::ModuleList convolutions_;
  nn::ModuleList norms_;
  nn::Linear head_{nullptr};
};

// As F.linear of Python. Linear::forward() of C++ adds the bias in a pass of its own if the input
// has three dimensions.
Tensor affine(const nn::Linear& layer, const Tensor& x) {
  return torch::linear(x, layer->weight, layer->bias);
}

class BlockImpl final : public nn::Module {
 public:
  BlockImpl(std::int64_t width, std::int64_t heads, const Tensor& future)
      : heads_(heads), future_(future) {
    norm1_ = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({width})));
    attend_ = register_module("attend", nn::Linear(width, 3 * width));
    project_ = register_module("project", nn::Linear(width, width));
    norm2_ = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({width})));
    expand_ = register_module("expand", nn::Linear(width, 4 * width));
    contract_ = register_module("contract", nn::Linear(4 * width, width));
  }

  Tensor forward(const Tensor& input) {
    const Tensor x = input + attention(norm1_->forward(input));
    return x + affine(contract_, torch::gelu(affine(expand_, norm2_->forward(x))));
  }

 private:
  Tensor attention(const Tensor& x) {
    const std::int64_t batch = x.size(0);
    const std::int64_t length = x.size(1);
    const std::int64_t width = x.size(2);
    std::vector<Tensor> parts = affine(attend_, x).split(width, 2);
    for (Tensor& part : parts) part = part.view({batch, length, heads_, -1}).transpose(1, 2);
    const Tensor mixed = mix(parts[0], parts[1], parts[2]);
    return affine(project_, mixed.transpose(1, 2).reshape({batch, length, width}));
  }

#if TORCH_VERSION_MAJOR >= 2
  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v) const {
    return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                            /*is_causal=*/true);
  }
#else
  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v) const {
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
    Tensor scores = torch::matmul(q, k.transpose(2, 3)) * scale;
    scores = scores.masked_fill(future_, -std::numeric_limits<double>::infinity());
    return torch::matmul(torch::softmax(scores, -1), v);
  }
#endif

  std::int64_t heads_;
  nn::LayerNorm norm1_{nullptr};
  nn::Linear attend_{nullptr};
  nn::Linear project_{nullptr};
  nn::LayerNorm norm2_{nullptr};
  nn::Linear expand_{nullptr};
  nn::Linear contract_{nullptr};
  Tensor future_;  // mask of later positions
};
TORCH_MODULE(Block);

class Gpt final : public BenchModel {
 public:
  Gpt(const ModelFacts& facts, const at::Device& device) {
    const std::int64_t context = facts.input.front();
    const Tensor future = torch::ones({context, context}, torch::kBool).triu(1).to(device);
    symbol_ = register_module("symbol", nn::Embedding(facts.classes, facts.width));
    position_ = register_module("position", nn::Embedding(context, facts.width));
    blocks_ = register_module("blocks", nn::ModuleList());
    for (std::int64_t i = 0; i < facts.layers; ++i)
      blocks_->push_back(Block(facts.width, facts.heads, future));
    norm_ = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({facts.width})));
    places_ = torch::arange(context).to(device);
    // The embedding is also the last layer: values around 1 would make initial logits as large as
    // the width.
    const torch::NoGradGuard no_gradient;
    symbol_->weight.mul_(0.02);
    position_->weight.mul_(0.02);
  }

  Tensor loss(const Tensor& input, const Tensor& target) override {
    Tensor x = symbol_->forward(input) + position_->forward(places_);
    for (std::size_t i = 0; i < blocks_->size(); ++i) x = blocks_[i]->as<Block>()->forward(x);
    const Tensor logits = F::linear(norm_->forward(x), symbol_->weight);
    return F::cross_entropy(logits.flatten(0, 1), target.flatten());
  }

 private:
  nn::Embedding symbol_{nullptr};
  nn::Embedding position_{nullptr};
  nn::ModuleList blocks_{nullptr};
  nn::LayerNorm norm_{nullptr};
  Tensor places_;
};

class Resnet final : public BenchModel {
 public:
  explicit Resnet(const ModelFacts& facts)
      : net_(register_module("net", std::make_shared<recipes::ResNet>(recipes::ResNetShape{
                                        .blocks = facts.blocks,
                                        .images = {.channels = facts.input[0],
                                                   .size = facts.input[1],
                                                   .classes = facts.classes}}))) {}

  Tensor loss(const Tensor& input, const Tensor& target) override {
    return F::cross_entropy(net_->forward(input), target);
  }

 private:
  std::shared_ptr<recipes::ResNet> net_;
};

}  // namespace

std::shared_ptr<BenchModel> make_model(const ModelFacts& facts, const at::Device& device) {
  switch (facts.family) {
    case Family::kMlp:
      return std::make_shared<Mlp>(facts);
    case Family::kCnn:
      return std::make_shared<Cnn>(facts);
    case Family::kGpt:
      return std::make_shared<Gpt>(facts, device);
    case Family::kResnet:
      return std::make_shared<Resnet>(facts);
  }
  return nullptr;
}

}  // namespace tally::bench::train
