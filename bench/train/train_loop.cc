#include "bench/train/train_loop.h"

#include <utility>
#include <vector>

#include "adapters/torch/precision_scope.h"
#include "bench/train/samples.h"
#include "tally/optimizer.h"

namespace tally::bench::train {
namespace {

constexpr double kBeta1 = 0.9;  // of AdamW, as in PyTorch

// The forward pass of a problem.
class ForwardPass final {
 public:
  explicit ForwardPass(const Problem& problem)
      : model_(problem.model), precision_(problem.computation.precision), device_(problem.device) {
    model_->train();
  }

  torch::nn::Module& model() const { return *model_; }
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) const {
    const adapter::PrecisionScope precision(precision_, device_);
    return model_->loss(input, target);
  }

 private:
  std::shared_ptr<BenchModel> model_;
  const std::string precision_;
  const at::Device device_;
};

std::unique_ptr<torch::optim::Optimizer> plain_optimizer(const ModelFacts& facts,
                                                         const torch::nn::Module& model) {
  if (facts.update == Update::kAdamW)
    return std::make_unique<torch::optim::AdamW>(model.parameters(),
                                                 torch::optim::AdamWOptions(facts.rate)
                                                     .betas({kBeta1, facts.beta2})
                                                     .weight_decay(facts.weight_decay));
  return std::make_unique<torch::optim::SGD>(model.parameters(),
                                             torch::optim::SGDOptions(facts.rate)
                                                 .momentum(facts.momentum)
                                                 .weight_decay(facts.weight_decay));
}

OptimizerSpec tally_optimizer(const ModelFacts& facts) {
  if (facts.update == Update::kAdamW)
    return adamw({.rate = facts.rate,
                  .beta1 = kBeta1,
                  .beta2 = facts.beta2,
                  .weight_decay = facts.weight_decay});
  return sgd({.rate = facts.rate, .momentum = facts.momentum, .weight_decay = facts.weight_decay});
}

class PlainLoop final : public TrainLoop {
 public:
  PlainLoop(const Problem& problem, std::vector<Batches> parts)
      : forward_(problem),
        parts_(std::move(parts)),
        optimizer_(plain_optimizer(problem.facts, forward_.model())) {}

  double step_with_loss() override {
    double sum = 0;
    train([&](const torch::Tensor& loss) { sum += loss.item<double>(); });
    return sum / static_cast<double>(parts_.size());
  }

  void step() override {
    train([](const torch::Tensor&) {});
  }

 private:
  template <typename Seen>
  void train(Seen seen) {
    const std::size_t batch = steps_++ % kBatches;
    optimizer_->zero_grad();
    for (const Batches& part : parts_) {
      torch::Tensor loss = forward_.loss(part.inputs[batch], part.targets[batch]);
      seen(loss);
      if (parts_.size() > 1) loss = loss / static_cast<double>(parts_.size());
      loss.backward();
    }
    optimizer_->step();
  }

  ForwardPass forward_;
  std::vector<Batches> parts_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::size_t steps_ = 0;
};

class Passes final : public TrainLoop {
 public:
  Passes(const Problem& problem, Batches batches)
      : forward_(problem), batches_(std::move(batches)) {}

  double step_with_loss() override { return pass().item<double>(); }
  void step() override { pass(); }

 private:
  torch::Tensor pass() {
    const std::size_t batch = steps_++ % kBatches;
    forward_.model().zero_grad(/*set_to_none=*/true);
    torch::Tensor loss = forward_.loss(batches_.inputs[batch], batches_.targets[batch]);
    loss.backward();
    return loss.detach();
  }

  ForwardPass forward_;
  Batches batches_;
  std::size_t steps_ = 0;
};

class TallyLoop final : public TrainLoop {
 public:
  TallyLoop(const Problem& problem, Batches batches, Job& job, const TrainerOptions& options)
      : forward_(problem),
        batches_(std::move(batches)),
        samples_(static_cast<std::uint64_t>(problem.facts.batch)),
        trainer_(job, forward_.model(), tally_optimizer(problem.facts), options) {
    if (!options.graphs) return;
    fixed_input_ = batches_.inputs.front().clone();
    fixed_target_ = batches_.targets.front().clone();
  }

  double step_with_loss() override {
    const std::size_t batch = steps_++ % kBatches;
    torch::Tensor input = batches_.inputs[batch];
    torch::Tensor target = batches_.targets[batch];
    if (fixed_input_.defined()) {  // from which a graph reads
      input = fixed_input_.copy_(input);
      target = fixed_target_.copy_(target);
    }
    return trainer_.step(samples_, [&] { return forward_.loss(input, target); }).loss;
  }

  void step() override { step_with_loss(); }

 private:
  ForwardPass forward_;
  Batches batches_;
  torch::Tensor fixed_input_;
  torch::Tensor fixed_target_;
  std::uint64_t samples_;
  Trainer trainer_;
  std::size_t steps_ = 0;
};

}  // namespace

Result<std::unique_ptr<TrainLoop>> make_plain_loop(const Problem& problem, int parts) {
  std::vector<Batches> batches;
  for (Rank rank = 0; rank < parts; ++rank) {
    TALLY_TRY(Batches part, problem.batches_of(rank));
    batches.push_back(std::move(part));
  }
  return std::unique_ptr<TrainLoop>(std::make_unique<PlainLoop>(problem, std::move(batches)));
}

Result<std::unique_ptr<TrainLoop>> make_passes(const Problem& problem) {
  TALLY_TRY(Batches batches, problem.batches_of(0));
  return std::unique_ptr<TrainLoop>(std::make_unique<Passes>(problem, std::move(batches)));
}

Result<std::unique_ptr<TrainLoop>> make_tally_loop(const Problem& problem, Job& job,
                                                   const TrainerOptions& options) {
  TALLY_TRY(Batches batches, problem.batches_of(job.rank()));
  return std::unique_ptr<TrainLoop>(
      std::make_unique<TallyLoop>(problem, std::move(batches), job, options));
}

}  // namespace tally::bench::train
