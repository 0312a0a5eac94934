#include <utility>

#include "bench/train/samples.h"
#include "bench/train/train_loop.h"
#include "tally/optimizer.h"
#include "tally/torch.h"

namespace tally::bench::train {
namespace {

OptimizerSpec momentum_of(const ModelFacts& facts) {
  OptimizerSpec spec;
  spec.kind = OptimizerKind::kSgd;
  spec.rate = facts.rate;
  spec.momentum = facts.momentum;
  return spec;
}

TrainerOptions options_with(std::size_t bucket_bytes) {
  TrainerOptions options;
  options.bucket_bytes = bucket_bytes;
  return options;
}

class TallyLoop final : public TrainLoop {
 public:
  TallyLoop(Problem problem, Batches batches, Job& job, std::size_t bucket_bytes)
      : model_(std::move(problem.model)),
        batches_(std::move(batches)),
        samples_(static_cast<std::uint64_t>(problem.facts.batch)),
        trainer_(job, *model_, momentum_of(problem.facts), options_with(bucket_bytes)) {
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

Result<std::unique_ptr<TrainLoop>> make_tally_loop(Problem problem, Job& job,
                                                   std::size_t bucket_bytes) {
  TALLY_TRY(Batches batches, problem.batches_of(job.rank()));
  return std::unique_ptr<TrainLoop>(
      std::make_unique<TallyLoop>(std::move(problem), std::move(batches), job, bucket_bytes));
}

}  // namespace tally::bench::train
