#include "recipes/gpt/model.h"

#include <cmath>
#include <limits>

namespace tally::recipes {
namespace {

constexpr double kInitialDeviation = 0.02;

// `deviation` is that of the initial weights; biases are zero.
torch::nn::Linear linear(const GptShape& shape, std::int64_t in, std::int64_t out,
                         double deviation) {
  torch::nn::Linear result(torch::nn::LinearOptions(in, out).bias(shape.bias));
  torch::nn::init::normal_(result->weight, 0, deviation);
  if (shape.bias) torch::nn::init::zeros_(result->bias);
  return result;
}

// Linear::forward() of C++ adds the bias in a pass of its own if the input has three dimensions.
at::Tensor affine(const torch::nn::Linear& layer, const at::Tensor& x) {
  return torch::linear(x, layer->weight, layer->bias);
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

// Causal attention over [samples, heads, length, width of a head]. `dropout` is the share of
// attention weights that are left out.
at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  double dropout) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(query, key, value, /*attn_mask=*/{}, dropout,
                                          /*is_causal=*/true);
#else
  const std::int64_t length = query.size(2);
  const double scale = 1.0 / std::sqrt(static_cast<double>(query.size(3)));
  // 0 for visible positions and minus infinity elsewhere.
  const at::Tensor mask = torch::full({length, length}, -std::numeric_limits<float>::infinity(),
                                      query.options().dtype(at::kFloat))
                              .triu(1);
  const at::Tensor scores = torch::matmul(query * scale, key.transpose(-2, -1)) + mask;
  return torch::matmul(torch::dropout(torch::softmax(scores, -1), dropout, dropout > 0), value);
#endif
}

class Attention final : public torch::nn::Module {
 public:
  explicit Attention(const GptShape& shape)
      : heads_(shape.heads),
        dropout_(shape.dropout),
        c_attn_(register_module("c_attn",
                                linear(shape, shape.width, 3 * shape.width, kInitialDeviation))),
        c_proj_(register_module(
            "c_proj", linear(shape, shape.width, shape.width, residual_deviation(shape)))),
        drop_(register_module("resid_dropout", torch::nn::Dropout(shape.dropout))) {}

  at::Tensor forward(const at::Tensor& x) {
    const std::int64_t length = x.size(1);
    const std::int64_t width = x.size(2);
    // [3, samples, heads, length, width of a head]
    const at::Tensor parts =
        affine(c_attn_, x).view({-1, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4});
    const at::Tensor seen =
        attend(parts[0], parts[1], parts[2], is_training() ? dropout_ : 0).transpose(1, 2);
    return drop_->forward(affine(c_proj_, seen.reshape({-1, length, width})));
  }

 private:
  const std::int64_t heads_;
  const double dropout_;
  torch::nn::Linear c_attn_;
  torch::nn::Linear c_proj_;
  torch::nn::Dropout drop_;
};

class FeedForward final : public torch::nn::Module {
 public:
  explicit FeedForward(const GptShape& shape)
      : c_fc_(register_module("c_fc",
                              linear(shape, shape.width, 4 * shape.width, kInitialDeviation))),
        c_proj_(register_module(
            "c_proj", linear(shape, 4 * shape.width, shape.width, residual_deviation(shape)))),
        drop_(register_module("dropout", torch::nn::Dropout(shape.dropout))) {}

  at::Tensor forward(const at::Tensor& x) {
    return drop_->forward(affine(c_proj_, torch::gelu(affine(c_fc_, x))));
  }

 private:
  torch::nn::Linear c_fc_;
  torch::nn::Linear c_proj_;
  torch::nn::Dropout drop_;
};

}  // namespace

class Gpt::Norm final : public torch::nn::Module {
 public:
  explicit Norm(const GptShape& shape)
      : weight_(register_parameter("weight", torch::ones({shape.width}))) {
    if (shape.bias) bias_ = register_parameter("bias", torch::zeros({shape.width}));
  }

  at::Tensor forward(const at::Tensor& x) {
    return torch::layer_norm(x, weight_.sizes(), weight_, bias_);
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

class Gpt::Block final : public torch::nn::Module {
 public:
  explicit Block(const GptShape& shape)
      : ln_1_(register_module("ln_1", std::make_shared<Norm>(shape))),
        attn_(register_module("attn", std::make_shared<Attention>(shape))),
        ln_2_(register_module("ln_2", std::make_shared<Norm>(shape))),
        mlp_(register_module("mlp", std::make_shared<FeedForward>(shape))) {}

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor x = input + attn_->forward(ln_1_->forward(input));
    return x + mlp_->forward(ln_2_->forward(x));
  }

 private:
  std::shared_ptr<Norm> ln_1_;
  std::shared_ptr<Attention> attn_;
  std::shared_ptr<Norm> ln_2_;
  std::shared_ptr<FeedForward> mlp_;
};

Gpt::Gpt(const GptShape& shape)
    : shape_(shape),
      wte_(register_module("wte", embedding(shape.symbols, shape.width))),
      wpe_(register_module("wpe", embedding(shape.context, shape.width))),
      drop_(register_module("drop", torch::nn::Dropout(shape.dropout))),
      h_(register_module("h", torch::nn::ModuleList())),
      ln_f_(register_module("ln_f", std::make_shared<Norm>(shape))) {
  for (std::int64_t i = 0; i < shape.layers; ++i) h_->push_back(std::make_shared<Block>(shape));
}

// The positions are rows 0 to length - 1 of their table, so it needs no lookup.
at::Tensor Gpt::forward(const at::Tensor& symbols) {
  const std::int64_t length = symbols.size(1);
  const at::Tensor places =
      length == shape_.context ? wpe_->weight : wpe_->weight.narrow(0, 0, length);
  at::Tensor x = drop_->forward(wte_->forward(symbols) + places);
  for (const auto& block : *h_) x = block->as<Block>()->forward(x);
  return torch::linear(ln_f_->forward(x), wte_->weight);
}

}  // namespace tally::recipes
