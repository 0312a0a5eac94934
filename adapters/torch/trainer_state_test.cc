#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>

#include "adapters/torch/tensors.h"
#include "adapters/torch/test_nets.h"
#include "soon.h"

namespace tally::adapter {
namespace {

// A folder for one test, removed by the destructor.
class TrainerStateTestFolder {
 public:
  TrainerStateTestFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("tally_trainer_state_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~TrainerStateTestFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

struct TrainerStateRun {
  OptimizerSpec optimizer;
  int ranks = 2;
  int from = 0;
  int to = 20;
  std::filesystem::path folder;
  bool save = false;
  bool resume = false;
};

// Trains from step `from` to step `to`, and saves at the end if asked to.
std::vector<at::Tensor> train_and_save(const TrainerStateRun& run) {
  std::vector<at::Tensor> result;
  run_threads(run.ranks, [&](Job& job) {
    SmallNet net = own_net(run.resume ? 77 : 1);
    TrainerOptions options{.clip_norm = 0.5};
    options.schedule = or_throw(RateSchedule::parse("cosine:warmup=3", 20));
    options.groups = {without_decay(run.optimizer)};
    Trainer trainer(job, *net, run.optimizer, options);
    if (run.resume) {
      const auto latest = or_throw(checkpoint::find_latest(run.folder));
      trainer.restore(*or_throw(checkpoint::Reader::open(latest)));
      ASSERT_EQ(trainer.steps(), static_cast<std::uint64_t>(run.from));
    }
    for (int step = run.from; step < run.to; ++step) {
      const TestBatch own = part_of(test_batch(step, 48), job.rank(), job.size());
      trainer.step(static_cast<std::uint64_t>(own.x.size(0)), [&] { return loss_of(net, own); });
    }
    if (run.save) {
      auto writer = or_throw(checkpoint::Writer::make(job.world(), {.folder = run.folder}));
      or_throw(writer->save(trainer.checkpoint()));
      or_throw(writer->wait(soon()));
    }
    if (job.rank() == 0) result = copies_of(*net);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
  return result;
}

class TrainerState : public testing::TestWithParam<const char*> {};

// The backward pass breaks at the input, when all parameters have their gradients.
TEST(TrainerStateOfOne, ARestoreDiscardsAStepThatBroke) {
  const TrainerStateTestFolder folder;
  const OptimizerSpec optimizer = sgd({.rate = 0.1, .momentum = 0.9});
  std::vector<std::vector<at::Tensor>> results;
  for (const bool breaks : {false, true}) {
    run_threads(1, [&](Job& job) {
      SmallNet net = own_net(1);
      Trainer trainer(job, *net, optimizer);
      const auto train = [&](int from, int to) {
        for (int step = from; step < to; ++step)
          trainer.step(48, [&] { return loss_of(net, test_batch(step, 48)); });
      };
      train(0, 5);
      if (breaks) {
        auto writer = or_throw(checkpoint::Writer::make(job.world(), {.folder = folder.path()}));
        or_throw(writer->save(trainer.checkpoint()));
        or_throw(writer->wait(soon()));
        TestBatch batch = test_batch(99, 48);
        EXPECT_ANY_THROW(trainer.step(48, [&] {
          batch.x = BreaksInBackward::apply(batch.x.clone().requires_grad_());
          return loss_of(net, batch);
        }));
        const auto latest = or_throw(checkpoint::find_latest(folder.path()));
        trainer.restore(*or_throw(checkpoint::Reader::open(latest)));
      }
      train(5, 10);
      results.push_back(copies_of(*net));
    });
  }
  expect_same_bits(results[0], results[1], "the training that broke");
}

TEST_P(TrainerState, TenAndTenStepsHaveTheBitsOfTwenty) {
  const OptimizerSpec optimizer = or_throw(parse_optimizer(GetParam()));
  const TrainerStateTestFolder folder;
  const auto through = train_and_save({.optimizer = optimizer});
  train_and_save({.optimizer = optimizer, .to = 10, .folder = folder.path(), .save = true});
  const auto resumed =
      train_and_save({.optimizer = optimizer, .from = 10, .folder = folder.path(), .resume = true});
  expect_same_bits(through, resumed, GetParam());
}

TEST_P(TrainerState, GoesOnWithAnotherNumberOfRanks) {
  const OptimizerSpec optimizer = or_throw(parse_optimizer(GetParam()));
  const TrainerStateTestFolder folder;
  const auto through = train_and_save({.optimizer = optimizer, .ranks = 3});
  train_and_save(
      {.optimizer = optimizer, .ranks = 3, .to = 10, .folder = folder.path(), .save = true});
  for (const int ranks : {1, 2, 4}) {
    const auto resumed = train_and_save({.optimizer = optimizer,
                                         .ranks = ranks,
                                         .from = 10,
                                         .folder = folder.path(),
                                         .resume = true});
    expect_near(through, resumed, 2e-6, std::to_string(ranks) + " ranks");
  }
}

INSTANTIATE_TEST_SUITE_P(All, TrainerState,
                         testing::Values("momentum:decay=0.01", "adagrad", "adamw", "lamb", "lars"),
                         [](const auto& each) {
                           const std::string name = each.param;
                           return name.substr(0, name.find(':'));
                         });

// A rank that continues from the checkpoint has the saved statistics, so those that go on without
// stopping must have them as well.
TEST(TrainerStateOf, BatchNormIsTheSameOnAllRanksAndInTheCheckpoint) {
  std::vector<at::Tensor> means(2);
  at::Tensor saved;
  run_threads(2, [&](Job& job) {
    torch::manual_seed(1);
    const torch::nn::BatchNorm1d norm(4);
    torch::nn::Sequential net(torch::nn::Linear(3, 4), norm);
    Trainer trainer(job, *net, sgd());
    const at::Tensor x = at::full({8, 3}, 1.0 + job.rank()) * at::arange(8).unsqueeze(1);
    trainer.step(8, [&] { return net->forward(x).square().mean(); });
    const checkpoint::Content content = trainer.checkpoint();
    means[static_cast<std::size_t>(job.rank())] = norm->running_mean.clone();
    for (const auto& piece : content.model)
      if (content.tensors[piece.tensor].name == "1.running_mean")
        saved = at::from_blob(const_cast<std::byte*>(piece.bytes.data()), {4}).clone();
    ASSERT_TRUE(job.world().barrier().has_value());
  });
  EXPECT_TRUE(at::equal(means[0], means[1]));
  ASSERT_TRUE(saved.defined());
  EXPECT_TRUE(at::equal(means[0], saved));
  EXPECT_GT(saved.abs().max().item<double>(), 0);
}

TEST(TrainerStateOf, AnotherModelOrOptimizerIsRefusedWithTheFirstDifference) {
  const TrainerStateTestFolder folder;
  train_and_save({.optimizer = adam(), .to = 2, .folder = folder.path(), .save = true});
  run_threads(1, [&](Job& job) {
    const auto reader =
        or_throw(checkpoint::Reader::open(or_throw(checkpoint::find_latest(folder.path()))));
    const auto refusal = [&](std::int64_t hidden, const OptimizerSpec& optimizer) -> std::string {
      SmallNet net(hidden);
      Trainer trainer(job, *net, optimizer);
      try {
        trainer.restore(*reader);
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.error().code, ErrorCode::kMismatch);
        return failure.what();
      }
      return "accepted";
    };
    EXPECT_THAT(refusal(101, adam()),
                testing::HasSubstr("another model: expected first.weight float32 [101, 10], found "
                                   "first.weight float32 [100, 10]"));
    EXPECT_THAT(refusal(100, adamw()), testing::HasSubstr("another optimizer: expected adamw"));
    EXPECT_THAT(refusal(100, sgd({.momentum = 0.9})),
                testing::HasSubstr("another optimizer: expected first.weight/momentum"));
  });
}

}  // namespace
}  // namespace tally::adapter
