#include "bench/train/train_loop.h"

#include <utility>
#include <vector>

#include "bench/train/samples.h"
#include "tally/optimizer.h"

namespace tally::bench::train {
namespace {

class PlainLoop final : public TrainLoop {
 public:
  PlainLoop(Problem problem, std::vector<Batches> parts)
      : model_(std::move(problem.model)),
        parts_(std::move(parts)),
        optimizer_(model_->parameters(),
                   torch::optim::SGDOptions(problem.facts.rate).momentum(problem.facts.momentum)) {
    model_->train();
  }

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
    optimizer_.zero_grad();
    for (const Batches& part : parts_) {
      torch::Tensor loss = model_->loss(part.inputs[batch], part.targets[batch]);
      seen(loss);
      if (parts_.size() > 1) loss = loss / static_cast<double>(parts_.size());
      loss.backward();
    }
    optimizer_.step();
  }

  std::shared_ptr<BenchModel> model_;
  std::vector<Batches> parts_;
  torch::optim::SGD optimizer_;
  std::size_t steps_ = 0;
};

class TallyLoop final : public TrainLoop {
 public:
  TallyLoop(Problem problem, Batches batches, Job& job, const TrainerOptions& options)
      : model_(std::move(problem.model)),
        batches_(std::move(batches)),
        samples_(static_cast<std::uint64_t>(problem.facts.batch)),
        trainer_(job, *model_,
                 sgd({.rate = problem.facts.rate, .momentum = problem.facts.momentum}), options) {
    model_->train();
  }

  double step_with_loss() override {
    const std::size_t batch = steps_++ % kBatches;
    return trainer_
        .step(samples_,
              [&] { return model_->loss(batches_.inputs[batch], batches_.targets[batch]); })
        .loss;
  }

  void step() override { step_with_loss(); }

 private:
  std::shared_ptr<BenchModel> model_;
  Batches batches_;
  std::uint64_t samples_;
  Trainer trainer_;
  std::size_t steps_ = 0;
};

}  // namespace

Result<std::unique_ptr<TrainLoop>> make_plain_loop(Problem problem, int parts) {
  std::vector<Batches> batches;
  for (Rank rank = 0; rank < parts; ++rank) {
    TALLY_TRY(Batches part, problem.batches_of(rank));
    batches.push_back(std::move(part));
  }
  return std::unique_ptr<TrainLoop>(
      std::make_unique<PlainLoop>(std::move(problem), std::move(batches)));
}

Result<std::unique_ptr<TrainLoop>> make_tally_loop(Problem problem, Job& job,
                                                   const TrainerOptions& options) {
  TALLY_TRY(Batches batches, problem.batches_of(job.rank()));
  return std::unique_ptr<TrainLoop>(
      std::make_unique<TallyLoop>(std::move(problem), std::move(batches), job, options));
}

}  // namespace tally::bench::train
