#include <cstdio>
#include <utility>

#include <fmt/format.h>

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

TrainerOptions trainer_options(const TallyLoopOptions& options) {
  TrainerOptions result;
  result.bucket_bytes = options.bucket_bytes;
  result.plan = options.plan;
  result.on_event = [](const std::string& event) { fmt::print(stderr, "{}\n", event); };
  return result;
}

class TallyLoop final : public TrainLoop {
 public:
  TallyLoop(Problem problem, Batches batches, Job& job, const TallyLoopOptions& options)
      : model_(std::move(problem.model)),
        batches_(std::move(batches)),
        samples_(static_cast<std::uint64_t>(problem.facts.batch)),
        trainer_(job, *model_, momentum_of(problem.facts), trainer_options(options)) {
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
                                                   const TallyLoopOptions& options) {
  TALLY_TRY(Batches batches, problem.batches_of(job.rank()));
  return std::unique_ptr<TrainLoop>(
      std::make_unique<TallyLoop>(std::move(problem), std::move(batches), job, options));
}

}  // namespace tally::bench::train
