#pragma once
#include <cstdint>
#include <string_view>

namespace at {
class Tensor;
}

namespace tally::recipes {

// The task of a model, which determines its loss.
enum class Task : std::uint8_t {
  kRegression,      // a number; loss: squared error
  kClassification,  // a class: outputs [samples, classes]; loss: cross entropy in nats
  kBinary,          // binary: outputs [samples] are logits of label 1; loss: log-loss in nats
  kLanguage,  // the next symbol: outputs [samples, context, symbols]; loss as above, per symbol
};

// Whether outputs are right or wrong, so that accuracy is defined.
constexpr bool has_accuracy(Task task) { return task != Task::kRegression; }

// Returns the mean loss over a batch, for backward().
at::Tensor mean_loss(Task task, const at::Tensor& output, const at::Tensor& target);

// Sums of an evaluation.
struct Judgement {
  double loss = 0;         // summed over the predictions, in double
  double correct = 0;      // correct predictions; 0 if undefined
  double predictions = 0;  // samples, or symbols of all samples
};
Judgement judge(Task task, const at::Tensor& output, const at::Tensor& target);

}  // namespace tally::recipes
