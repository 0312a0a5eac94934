#pragma once
#include <cstdint>
#include <string_view>

namespace at {
class Tensor;
}

namespace tally::recipes {

// What a model is asked for, which decides its loss.
enum class Task : std::uint8_t {
  kRegression,      // a number per sample; loss: squared error
  kClassification,  // a class per sample: outputs [samples, classes]; loss: cross entropy in nats
  kBinary,    // yes or no per sample: outputs [samples] are logits of yes; loss: log-loss in nats
  kLanguage,  // the next symbol at every place: outputs [samples, context, symbols]; loss: the
              // same, per symbol
};

// Whether an output is right or wrong, and accuracy means something.
constexpr bool has_accuracy(Task task) { return task != Task::kRegression; }

// The mean loss over a batch, to go backward from.
at::Tensor mean_loss(Task task, const at::Tensor& output, const at::Tensor& target);

// What an evaluation adds up.
struct Judgement {
  double loss = 0;         // summed over the predictions, in double
  double correct = 0;      // predictions that are right; 0 where that means nothing
  double predictions = 0;  // samples, or symbols of all samples
};
Judgement judge(Task task, const at::Tensor& output, const at::Tensor& target);

}  // namespace tally::recipes
