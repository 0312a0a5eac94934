#include "recipes/gpt/model.h"

#include <cmath>
#include <limits>

namespace tally::recipes {
namespace {

constexpr double kInitialDeviation = 0.02;

torch::nn::LayerNorm norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

// `deviation` is that of the initial weights; biases are zero.
torch::nn::Linear linear(std::int64_t in, std::int64_t out, double deviation) {
  torch::nn::Linear result(in, out);
  torch::nn::init::normal_(result->weight, 0, deviation);
  torch::nn::init::zeros_(result->bias);
  return result;
}

torch::nn::Embedding embedding(std::int64_t count, std::int64_t width) {
  torch::nn::Embedding result(count, width);
  torch::nn::init::normal_(result->weight, 0, kInitialDeviation);
  return result;
}

// The initial weights of residual branches shrink with the number of layers.
double residual_deviation(const GptShape& shape) {
  return kInitialDeviation / std::sqrt(2.0 * static_cast<double>(shape.layers));
}

class Attention final : public torch::nn::Module {
 public:
  explicit Attention(const GptShape& shape)
      : heads_(shape.heads),
        c_attn_(register_module("c_attn", linear(shape.width, 3 * shape.width, kInitialDeviation))),
        c_proj_(
            register_module("c_proj", linear(shape.width, shape.width, residual_deviation(shape)))),
        attention_drop_(register_module("attn_dropout", torch::nn::Dropout(shape.dropout))),
        drop_(register_module("resid_dropout", torch::nn::Dropout(shape.dropout))) {}

  // `mask` is 0 for visible positions and minus infinity elsewhere.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask) {
    const std::int64_t length = x.size(1);
    const std::int64_t width = x.size(2);
    // [3, samples, heads, length, width of a head]
    const at::Tensor parts =
        c_attn_->forward(x).view({-1, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4});
    const double scale = 1.0 / std::sqrt(static_cast<double>(width / heads_));
    at::Tensor weights = torch::matmul(parts[0] * scale, parts[1].transpose(-2, -1)) + mask;
    weights = attention_drop_->forward(torch::softmax(weights, -1));
    const at::Tensor seen = torch::matmul(weights, parts[2]).transpose(1, 2);
    return drop_->forward(c_proj_->forward(seen.reshape({-1, length, width})));
  }

 private:
  const std::int64_t heads_;
  torch::nn::Linear c_attn_;
  torch::nn::Linear c_proj_;
  torch::nn::Dropout attention_drop_;
  torch::nn::Dropout drop_;
};

class FeedForward final : public torch::nn::Module {
 public:
  explicit FeedForward(const GptShape& shape)
      : c_fc_(register_module("c_fc", linear(shape.width, 4 * shape.width, kInitialDeviation))),
        c_proj_(register_module("c_proj",
                                linear(4 * shape.width, shape.width, residual_deviation(shape)))),
        drop_(register_module("dropout", torch::nn::Dropout(shape.dropout))) {}

  at::Tensor forward(const at::Tensor& x) {
    return drop_->forward(c_proj_->forward(torch::gelu(c_fc_->forward(x))));
  }

 private:
  torch::nn::Linear c_fc_;
  torch::nn::Linear c_proj_;
  torch::nn::Dropout drop_;
};

}  // namespace

class Gpt::Block final : public torch::nn::Module {
 public:
  explicit Block(const GptShape& shape)
      : ln_1_(register_module("ln_1", norm(shape.width))),
        attn_(register_module("attn", std::make_shared<Attention>(shape))),
        ln_2_(register_module("ln_2", norm(shape.width))),
        mlp_(register_module("mlp", std::make_shared<FeedForward>(shape))) {}

  at::Tensor forward(const at::Tensor& input, const at::Tensor& mask) {
    const at::Tensor x = input + attn_->forward(ln_1_->forward(input), mask);
    return x + mlp_->forward(ln_2_->forward(x));
  }

 private:
  torch::nn::LayerNorm ln_1_;
  std::shared_ptr<Attention> attn_;
  torch::nn::LayerNorm ln_2_;
  std::shared_ptr<FeedForward> mlp_;
};

Gpt::Gpt(const GptShape& shape)
    : shape_(shape),
      wte_(register_module("wte", embedding(shape.symbols, shape.width))),
      wpe_(register_module("wpe", embedding(shape.context, shape.width))),
      drop_(register_module("drop", torch::nn::Dropout(shape.dropout))),
      h_(register_module("h", torch::nn::ModuleList())),
      ln_f_(register_module("ln_f", norm(shape.width))) {
  for (std::int64_t i = 0; i < shape.layers; ++i) h_->push_back(std::make_shared<Block>(shape));
}

at::Tensor Gpt::forward(const at::Tensor& symbols) {
  const std::int64_t length = symbols.size(1);
  const auto on_device = at::TensorOptions().device(symbols.device());
  const at::Tensor places = torch::arange(length, on_device.dtype(at::kLong));
  const at::Tensor mask = torch::full({length, length}, -std::numeric_limits<float>::infinity(),
                                      on_device.dtype(at::kFloat))
                              .triu(1);
  at::Tensor x = drop_->forward(wte_->forward(symbols) + wpe_->forward(places));
  for (const auto& block : *h_) x = block->as<Block>()->forward(x, mask);
  return torch::linear(ln_f_->forward(x), wte_->weight);
}

}  // namespace tally::recipes
