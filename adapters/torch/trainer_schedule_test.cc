#include <unistd.h>

#include <filesystem>
#include <set>

#include <gmock/gmock.h>

#include "adapters/torch/first_use.h"
#include "adapters/torch/tensors.h"
#include "adapters/torch/test_nets.h"

// schedule=priority: parameters arrive while the next forward pass already runs; and codec=auto.
namespace tally::adapter {
namespace {

using collective::Network;
using testing::ElementsAre;

// The indices of the tensors that `work` uses.
std::set<std::size_t> used_in(const std::vector<at::Tensor>& tensors,
                              const std::function<void()>& work) {
  std::set<std::size_t> used;
  const FirstUse watch(tensors, [&](std::size_t p) { used.insert(p); });
  work();
  return used;
}

TEST(FirstUse, SeesWhatOperationsRead) {
  const auto t = [](std::initializer_list<std::int64_t> shape) {
    return at::randn(std::vector<std::int64_t>(shape)).requires_grad_();
  };
  const at::Tensor x = at::randn({4, 6});
  const std::vector<at::Tensor> tensors = {t({5, 6}), t({5}), t({3, 2, 3, 3}), t({10, 4}), t({6})};
  const auto used = [&](const std::function<void()>& work) { return used_in(tensors, work); };
  EXPECT_THAT(used([&] { at::linear(x, tensors[0], tensors[1]); }), ElementsAre(0, 1));
  EXPECT_THAT(used([&] { at::conv2d(at::randn({1, 2, 8, 8}), tensors[2]); }), ElementsAre(2));
  EXPECT_THAT(used([&] { at::embedding(tensors[3], at::tensor({1, 2})); }), ElementsAre(3));
  EXPECT_THAT(used([&] { at::layer_norm(x, {6}, tensors[4]); }), ElementsAre(4));
  // Views and lists of tensors.
  EXPECT_THAT(used([&] { x.matmul(tensors[0].t()); }), ElementsAre(0));
  const at::Tensor row = tensors[3].select(0, 7);
  EXPECT_THAT(used([&] { row.sum(); }), ElementsAre(3));
  EXPECT_THAT(used([&] { at::cat({tensors[1], tensors[4]}); }), ElementsAre(1, 4));
  EXPECT_THAT(used([&] { x.sum(); }), ElementsAre());
}

TEST(FirstUse, OfLayersSeesTheirParameters) {
  torch::nn::Sequential net(torch::nn::Linear(6, 8),
                            torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})),
                            torch::nn::BatchNorm1d(8));
  torch::nn::LSTM lstm(8, 3);
  std::vector<at::Tensor> tensors = net->parameters();
  for (const at::Tensor& parameter : lstm->parameters()) tensors.push_back(parameter);
  const auto used = used_in(tensors, [&] {
    lstm->forward(net->forward(at::randn({5, 6})).unsqueeze(1));
  });
  EXPECT_EQ(used.size(), tensors.size());
}

TEST(FirstUse, EndsWithItsLife) {
  const std::vector<at::Tensor> tensors = {at::randn({3})};
  int calls = 0;
  {
    const FirstUse outer(tensors, [&](std::size_t) { ++calls; });
    EXPECT_THAT(used_in(tensors, [&] { tensors[0].sum(); }), ElementsAre(0));
  }
  EXPECT_GT(calls, 0);
  calls = 0;
  tensors[0].sum();
  EXPECT_EQ(calls, 0);
}

struct TrainerScheduleRun {
  std::string plan;
  int accumulate = 1;
  bool by_hand = false;  // backward() and apply()
  int from = 0;
  int to = 8;
  std::filesystem::path folder = {};
  bool save = false;
};

// The final parameters of rank 1 on two hosts.
std::vector<at::Tensor> train_scheduled(const TrainerScheduleRun& run) {
  std::vector<at::Tensor> parameters;
  run_threads(
      2,
      [&](Job& job) {
        SmallNet net = own_net(run.from > 0 ? 77 : 1);
        TrainerOptions options{.plan = run.plan};
        options.bucket_bytes = 4096;
        options.accumulate = run.accumulate;
        // The schedule does not fall back to fifo.
        options.on_event = [&](const std::string& event) {
          EXPECT_THAT(event, testing::StartsWith("codec=auto"));
        };
        Trainer trainer(job, *net, sgd({.rate = 0.1, .momentum = 0.9}), options);
        if (run.from > 0)
          trainer.restore(
              *or_throw(checkpoint::Reader::open(or_throw(checkpoint::find_latest(run.folder)))));
        for (int step = run.from; step < run.to; ++step) {
          const TestBatch own = part_of(test_batch(step, 48), job.rank(), job.size());
          if (run.by_hand) {
            loss_of(net, own).backward();
            trainer.apply(24);
          } else {
            trainer.step(24, [&] { return loss_of(net, own); });
          }
        }
        trainer.settle();
        if (run.save) {
          auto writer = or_throw(checkpoint::Writer::make(job.world(), {.folder = run.folder}));
          or_throw(writer->save(trainer.checkpoint()));
          or_throw(writer->wait(Deadline::after(std::chrono::seconds(60))));
        }
        if (job.rank() == 1) parameters = copies_of(*net);
        ASSERT_TRUE(job.world().barrier().has_value());
      },
      Network::kTwoHosts);
  return parameters;
}

TEST(TrainerSchedule, ByPriorityHasTheBitsOfFifo) {
  for (const std::string codec : {"none", "int8:all"}) {
    const std::string plan = "codec=" + codec;
    const std::string priority = plan + " schedule=priority:8KiB";
    expect_same_bits(train_scheduled({.plan = plan}), train_scheduled({.plan = priority}), codec);
    expect_same_bits(train_scheduled({.plan = plan, .accumulate = 2}),
                     train_scheduled({.plan = priority, .accumulate = 2}), codec + ", accumulated");
    expect_same_bits(train_scheduled({.plan = plan, .by_hand = true}),
                     train_scheduled({.plan = priority, .by_hand = true}), codec + ", by hand");
  }
}

// A destroyed trainer leaves the newest parameters in its module.
TEST(TrainerSchedule, ByPriorityLeavesNothingBehind) {
  const std::vector<at::Tensor> expected = train_scheduled({.plan = "", .to = 3});
  run_threads(
      2,
      [&](Job& job) {
        SmallNet net = own_net(1);
        {
          Trainer trainer(job, *net, sgd({.rate = 0.1, .momentum = 0.9}),
                          {.plan = "schedule=priority", .bucket_bytes = 4096});
          for (int step = 0; step < 3; ++step) {
            const TestBatch own = part_of(test_batch(step, 48), job.rank(), job.size());
            trainer.step(24, [&] { return loss_of(net, own); });
          }
        }
        expect_same_bits(expected, copies_of(*net), "after the trainer");
        ASSERT_TRUE(job.world().barrier().has_value());
      },
      Network::kTwoHosts);
}

// Training continues from a checkpoint after any choice of auto, with auto or without.
TEST(TrainerSchedule, WithAutoGoesOnFromACheckpoint) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tally_trainer_auto_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  train_scheduled({.plan = "codec=auto", .folder = folder, .save = true});
  for (const std::string plan : {"codec=auto", "codec=auto schedule=priority", "codec=int8"})
    for (const at::Tensor& parameter :
         train_scheduled({.plan = plan, .from = 8, .to = 14, .folder = folder}))
      EXPECT_TRUE(parameter.isfinite().all().item<bool>()) << plan;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tally::adapter
