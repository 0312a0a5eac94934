#include "recipes/task.h"

#include <torch/torch.h>

#include <utility>

namespace tally::recipes {
namespace {

namespace F = torch::nn::functional;

// Flattens the leading dimensions: rows of scores by class.
at::Tensor rows(const at::Tensor& output) { return output.reshape({-1, output.size(-1)}); }

// Logits unchanged, labels converted to their type.
at::Tensor log_losses(const at::Tensor& output, const at::Tensor& target) {
  const at::Tensor logits = output.reshape({-1});
  return at::binary_cross_entropy_with_logits(logits, target.to(logits.scalar_type()).reshape({-1}),
                                              {}, {}, at::Reduction::None);
}

// Under autocast outputs of half types have float32 targets, and the loss is that in float32.
at::Tensor squared_losses(const at::Tensor& output, const at::Tensor& target,
                          torch::nn::MSELossOptions::reduction_t reduction) {
  const at::ScalarType type = at::promote_types(output.scalar_type(), target.scalar_type());
  return F::mse_loss(output.to(type).reshape({-1}), target.to(type).reshape({-1}),
                     F::MSELossFuncOptions().reduction(std::move(reduction)));
}

at::Tensor losses(Task task, const at::Tensor& output, const at::Tensor& target) {
  if (task == Task::kRegression) return squared_losses(output, target, torch::kNone);
  if (task == Task::kBinary) return log_losses(output, target);
  return F::cross_entropy(rows(output), target.reshape({-1}),
                          F::CrossEntropyFuncOptions().reduction(torch::kNone));
}

}  // namespace

at::Tensor mean_loss(Task task, const at::Tensor& output, const at::Tensor& target) {
  if (task == Task::kRegression) return squared_losses(output, target, torch::kMean);
  if (task == Task::kBinary) return log_losses(output, target).mean();
  return F::cross_entropy(rows(output), target.reshape({-1}));
}

Judgement judge(Task task, const at::Tensor& output, const at::Tensor& target) {
  const torch::NoGradGuard no_gradients;
  const at::Tensor exact = output.to(at::kFloat);
  Judgement judgement;
  judgement.loss = losses(task, exact, target).to(at::kDouble).sum().item<double>();
  judgement.predictions = static_cast<double>(target.numel());
  if (has_accuracy(task)) {
    const at::Tensor chosen =
        task == Task::kBinary ? exact.reshape({-1}).gt(0) : rows(exact).argmax(-1);
    const at::Tensor right = chosen.eq(target.reshape({-1}));
    judgement.correct = right.sum().item<double>();
  }
  return judgement;
}

}  // namespace tally::recipes
