// N workers with batch B train to the same parameters as one worker with batch N x B, for every
// model and every optimizer. The tests use float64, where any difference beyond rounding shows.
#include <gtest/gtest.h>

#include <array>

#include "adapters/torch/test_nets.h"
#include "recipes/deepfm/model.h"
#include "recipes/gpt/model.h"
#include "recipes/lenet/model.h"
#include "recipes/logistic/model.h"
#include "recipes/mlp/model.h"
#include "recipes/task.h"
#include "recipes/widedeep/model.h"

namespace tally::recipes {
namespace {

constexpr int kSteps = 20;
constexpr std::int64_t kBatch = 12;  // over all workers

struct Subject {
  std::string name;
  Task task;
  std::function<std::shared_ptr<Model>()> make;
  std::function<at::Tensor()> inputs;   // kSteps * kBatch samples
  std::function<at::Tensor()> targets;  // one for each sample
};

at::Tensor waves(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return at::arange(count, at::kDouble).mul(0.37).sin().view(shape);
}

// Samples of four slots with values. Some samples have an empty slot.
at::Tensor keyed_samples(std::int64_t samples) {
  const at::Tensor keys = at::arange(samples * 4, at::kLong).mul(13).remainder(37).sub(1);
  const at::Tensor values = at::arange(samples * 4, at::kDouble).mul(0.7).cos().add(1.5);
  return at::stack({keys.view({samples, 4}), values.view(at::kLong).view({samples, 4})}, 1);
}

std::vector<Subject> subjects() {
  constexpr std::int64_t kSamples = kSteps * kBatch;
  const auto labels = [] { return at::arange(kSamples, at::kLong).mul(7).remainder(10); };
  const auto symbols = [](std::int64_t from) {
    return at::arange(kSamples * 8, at::kLong).add(from).mul(5).remainder(11).view({kSamples, 8});
  };
  const auto answers = [] { return at::arange(kSamples, at::kLong).mul(7).remainder(5).lt(2); };
  const auto keyed = [] { return keyed_samples(kSamples); };
  const KeyedShape recommender{
      .slots = 4, .rows = 64, .embedding = 4, .hidden = 16, .layers = 2, .dropout = 0, .l2 = 0.01};
  return {{"mlp", Task::kClassification,
           [] {
             return std::make_shared<Mlp>(
                 MlpShape{.inputs = 30, .width = 80, .hidden_layers = 2, .outputs = 10});
           },
           [] {
             return waves({kSamples, 30});
           },
           labels},
          {"lenet", Task::kClassification, [] { return std::make_shared<LeNet>(ImageShape{}); },
           [] {
             return waves({kSamples, 1, 28, 28});
           },
           labels},
          {"gpt", Task::kLanguage,
           [] {
             return std::make_shared<Gpt>(
                 GptShape{.symbols = 11, .context = 8, .layers = 2, .heads = 2, .width = 16});
           },
           [symbols] { return symbols(0); }, [symbols] { return symbols(1); }},
          {"logistic", Task::kBinary,
           [] { return std::make_shared<Logistic>(KeyedShape{.rows = 64, .l2 = 0.01}); }, keyed,
           answers},
          {"widedeep", Task::kBinary,
           [recommender] {
             return std::make_shared<WideDeep>(recommender, std::vector<Cross>{{0, 1}, {1, 2, 3}});
           },
           keyed, answers},
          {"deepfm", Task::kBinary, [recommender] { return std::make_shared<DeepFm>(recommender); },
           keyed, answers}};
}

struct Trained {
  std::vector<at::Tensor> parameters;
  std::vector<double> losses;
};

Trained train(const Subject& subject, const OptimizerSpec& optimizer, int workers) {
  Trained trained;
  const at::Tensor inputs = subject.inputs();
  const at::Tensor targets = subject.targets();
  adapter::run_threads(workers, [&](Job& job) {
    std::shared_ptr<Model> model;
    {
      const std::lock_guard lock(adapter::making());
      torch::manual_seed(static_cast<std::uint64_t>(3 + job.rank()));
      model = subject.make();
    }
    model->to(at::kDouble);
    Trainer trainer(job, *model, optimizer);
    const std::int64_t own = kBatch / workers;
    for (int step = 0; step < kSteps; ++step) {
      const std::int64_t begin = step * kBatch + job.rank() * own;
      const StepOutcome outcome = trainer.step(static_cast<std::uint64_t>(own), [&] {
        return mean_loss(subject.task, model->forward(inputs.slice(0, begin, begin + own)),
                         targets.slice(0, begin, begin + own));
      });
      if (job.rank() == 0) trained.losses.push_back(outcome.loss);
    }
    if (job.rank() == 0) trained.parameters = adapter::copies_of(*model);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
  return trained;
}

class Equivalence : public testing::TestWithParam<std::size_t> {};

TEST_P(Equivalence, OfOneWorkerAndManyHoldsForEveryOptimizer) {
  const Subject subject = subjects()[GetParam()];
  for (const char* const text :
       {"sgd:rate=0.05", "momentum:rate=0.02,decay=0.01", "nesterov:rate=0.02", "adagrad", "adam",
        "adamw", "lamb:rate=0.01", "lars:rate=1"}) {
    const OptimizerSpec optimizer = *parse_optimizer(text);
    const Trained alone = train(subject, optimizer, 1);
    ASSERT_NE(alone.losses.front(), alone.losses.back()) << text << " does not train";
    for (const int workers : {2, 3, 4}) {
      const Trained together = train(subject, optimizer, workers);
      const std::string what = subject.name + ", " + text + ", " + std::to_string(workers);
      adapter::expect_near(alone.parameters, together.parameters, 1e-6, what);
      for (std::size_t i = 0; i < kSteps; ++i)
        EXPECT_NEAR(alone.losses[i], together.losses[i], 1e-6) << what << ", step " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Equivalence, testing::Range<std::size_t>(0, 6),
                         [](const auto& each) { return subjects()[each.param].name; });

}  // namespace
}  // namespace tally::recipes
