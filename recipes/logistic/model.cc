#include "recipes/logistic/model.h"

namespace tally::recipes {

Logistic::Logistic(const LogisticShape& shape)
    : l2_(shape.l2),
      linear_(register_module("linear", make_embedding(1, shape.rows, 0))),
      bias_(register_parameter("bias", at::zeros({1}))) {}

at::Tensor Logistic::forward(const at::Tensor& input) {
  const KeyedBatch batch = keyed_batch(input);
  return linear_part(linear_, batch, l2_) + bias_;
}

}  // namespace tally::recipes
