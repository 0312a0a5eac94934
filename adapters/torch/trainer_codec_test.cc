#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include <gmock/gmock.h>

#include "adapters/torch/tensors.h"
#include "adapters/torch/test_nets.h"

namespace tally::adapter {
namespace {

class TestFolder {
 public:
  TestFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("tally_trainer_codec_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

struct Run {
  std::string codec;
  std::string update = "bsp";
  int ranks = 3;
  collective::Network network = collective::Network::kInProcess;
  std::size_t bucket_bytes = 0;
  int from = 0;
  int to = 12;
  std::filesystem::path folder = {};
  bool save = false;
  bool resume = false;
};

struct Trained {
  std::vector<at::Tensor> parameters;  // of the last rank
  double loss = 0;                     // of the last step
};

OptimizerSpec optimizer_for(const std::string& codec) {
  return codec.starts_with("onebit-adam") ? adam({.rate = 0.01})
                                          : sgd({.rate = 0.1, .momentum = 0.9});
}

Trained train(const Run& run) {
  Trained trained;
  const auto body = [&](Job& job) {
    SmallNet net = own_net(run.resume ? 77 : 1);
    const OptimizerSpec optimizer = optimizer_for(run.codec);
    TrainerOptions options;
    options.plan = "update=" + run.update + " codec=" + run.codec;
    options.groups = {without_decay(optimizer)};
    options.bucket_bytes = run.bucket_bytes;
    Trainer trainer(job, *net, optimizer, options);
    if (run.resume) {
      const auto latest = or_throw(checkpoint::find_latest(run.folder));
      trainer.restore(*or_throw(checkpoint::Reader::open(latest)));
    }
    for (int step = run.from; step < run.to; ++step) {
      const TestBatch own = part_of(test_batch(step, 48), job.rank(), job.size());
      const StepOutcome outcome = trainer.step(static_cast<std::uint64_t>(own.x.size(0)),
                                               [&] { return loss_of(net, own); });
      if (job.rank() == 0) trained.loss = outcome.loss;
    }
    if (run.save) {
      auto writer = or_throw(checkpoint::Writer::make(job.world(), {.folder = run.folder}));
      or_throw(writer->save(trainer.checkpoint()));
      or_throw(writer->wait(Deadline::after(std::chrono::seconds(60))));
    }
    if (job.rank() == job.size() - 1) trained.parameters = copies_of(*net);
    ASSERT_TRUE(job.world().barrier().has_value());
  };
  run_threads(run.ranks, body, run.network);
  return trained;
}

TEST(TrainerCodec, ThatLeavesNothingOutTrainsAsNone) {
  const Trained plain = train({.codec = "none"});
  for (const std::string codec : {"topk:1,exact", "dgc:1,warmup=0,mask=off"})
    expect_near(plain.parameters, train({.codec = codec}).parameters, 5e-6, codec);
}

// After 60 steps the loss is below half of its initial value, which is about 1.1.
TEST(TrainerCodec, LearnsWithEachFamily) {
  for (const std::string codec : {"none", "bf16", "int8", "qsgd:4+rans", "sign", "onebit-adam:10",
                                  "topk:0.05", "dgc:0.05,warmup=10", "powersgd:2"})
    EXPECT_LT(train({.codec = codec, .to = 60}).loss, 0.55) << codec;
}

TEST(TrainerCodec, OfASubsetIsThatOfTheDrawn) {
  const Trained plain = train({.codec = "none", .update = "subset:2"});
  // With subset a sender's own momentum would only cover the steps for which it was drawn.
  const Trained encoded = train({.codec = "topk:1,exact,momentum=late", .update = "subset:2"});
  expect_near(plain.parameters, encoded.parameters, 5e-6, "subset:2");
}

class TrainerCodecOf : public testing::TestWithParam<const char*> {};

TEST_P(TrainerCodecOf, SixAndSixStepsHaveTheBitsOfTwelve) {
  const std::string codec = GetParam();
  const TestFolder folder;
  const Trained through = train({.codec = codec});
  train({.codec = codec, .to = 6, .folder = folder.path(), .save = true});
  const Trained resumed =
      train({.codec = codec, .from = 6, .folder = folder.path(), .resume = true});
  expect_same_bits(through.parameters, resumed.parameters, codec);
  // Another number of ranks can continue from the checkpoint.
  const Trained fewer =
      train({.codec = codec, .ranks = 2, .from = 6, .folder = folder.path(), .resume = true});
  EXPECT_TRUE(std::isfinite(fewer.loss));
}

INSTANTIATE_TEST_SUITE_P(All, TrainerCodecOf,
                         testing::Values("fp16", "bf16", "int8", "fp8", "fp8:e5m2", "qsgd:4",
                                         "ternary", "natural", "onebit", "onebit:column", "sign",
                                         "sign:vote", "onebit-adam:3", "topk:0.05",
                                         "topk:0.05,exact", "randk:0.05", "dgc:0.05",
                                         "threshold:0.0001", "powersgd:2", "qsgd:4+rans",
                                         "int8+huffman", "topk:0.05+zstd"),
                         [](const auto& each) {
                           std::string name = each.param;
                           const auto is_other = [](char letter) {
                             return std::isalnum(static_cast<unsigned char>(letter)) == 0;
                           };
                           std::replace_if(name.begin(), name.end(), is_other, '_');
                           return name;
                         });

// State that both codecs have under the same name is kept; other state is dropped or starts at
// zero.
TEST(TrainerCodec, MayChangeFromOneCheckpointToTheNext) {
  const TestFolder folder;
  train({.codec = "topk:0.05,momentum=late", .to = 6, .folder = folder.path(), .save = true});
  for (const std::string codec : {"none", "sign:momentum=late", "topk:0.5,momentum=late"})
    EXPECT_TRUE(std::isfinite(
        train({.codec = codec, .from = 6, .folder = folder.path(), .resume = true}).loss))
        << codec;
}

// A training continues after any choice of auto, with auto or without.
TEST(TrainerCodec, AutoContinuesFromACheckpoint) {
  const TestFolder folder;
  const auto train_half = [&](const std::string& codec, bool resume) {
    return train({.codec = codec,
                  .ranks = 2,
                  .network = collective::Network::kTwoHosts,
                  .bucket_bytes = 4096,
                  .from = resume ? 8 : 0,
                  .to = resume ? 14 : 8,
                  .folder = folder.path(),
                  .save = !resume,
                  .resume = resume});
  };
  train_half("auto", /*resume=*/false);
  for (const std::string codec : {"auto", "int8"})
    for (const at::Tensor& parameter : train_half(codec, /*resume=*/true).parameters)
      EXPECT_TRUE(parameter.isfinite().all().item<bool>()) << codec;
}

TEST(TrainerCodec, OnebitAdamDoesNotSkipItsWarmUpWithMomentsOfPlainAdam) {
  const TestFolder folder;
  const auto steps = [&](const std::string& codec, bool resume) {
    run_threads(2, [&](Job& job) {
      SmallNet net = own_net(1);
      Trainer trainer(job, *net, adam({.rate = 0.01}), {.plan = "codec=" + codec});
      if (resume) {
        const auto latest = or_throw(checkpoint::find_latest(folder.path()));
        const auto reader = or_throw(checkpoint::Reader::open(latest));
        if (codec == "onebit-adam:3") {
          EXPECT_THROW(trainer.restore(*reader), Failure);
          return;
        }
        trainer.restore(*reader);
      }
      for (int step = 0; step < 6; ++step)
        trainer.step(24,
                     [&] { return loss_of(net, part_of(test_batch(step, 48), job.rank(), 2)); });
      if (!resume) {
        auto writer = or_throw(checkpoint::Writer::make(job.world(), {.folder = folder.path()}));
        or_throw(writer->save(trainer.checkpoint()));
        or_throw(writer->wait(Deadline::after(std::chrono::seconds(60))));
      }
      ASSERT_TRUE(job.world().barrier().has_value());
    });
  };
  steps("none", false);
  steps("onebit-adam:3", true);
  steps("onebit-adam:8", true);
}

TEST(TrainerCodec, OnebitAdamInTheGroupRefusesToClip) {
  run_threads(1, [](Job& job) {
    SmallNet net = own_net(1);
    for (const bool norm : {true, false}) {
      TrainerOptions options{.plan = "codec=onebit-adam:5"};
      (norm ? options.clip_norm : options.clip_value) = 1;
      try {
        Trainer trainer(job, *net, adam(), options);
        ADD_FAILURE() << "was not refused";
      } catch (const Failure& failure) {
        EXPECT_THAT(failure.what(), testing::HasSubstr("would clip momentum after the warm-up"));
        EXPECT_THAT(failure.what(), testing::HasSubstr(norm ? "clip_norm" : "clip_value"));
      }
    }
    // On servers each worker clips its own gradient.
    Trainer on_servers(job, *net, adam(),
                       {.plan = "home=server codec=onebit-adam:5", .clip_norm = 1});
  });
}

}  // namespace
}  // namespace tally::adapter
