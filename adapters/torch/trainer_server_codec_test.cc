#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "adapters/torch/tensors.h"
#include "adapters/torch/test_nets.h"
#include "tally/server.h"

// Encoded gradients on servers, against the same codec in a group.
namespace tally::adapter {
namespace {

struct Course {
  std::string plan;
  OptimizerSpec optimizer = sgd({.rate = 0.05});
  int ranks = 2;
  int from = 0;
  int to = 10;
  std::filesystem::path load = {};
  std::filesystem::path save = {};
  std::int64_t hidden = 100;
  bool checks_copies = false;  // whether each worker's own copy has the servers' bits
  bool last_first = false;     // of SmallNet
  int used_from = 0;           // the first step that uses the whole model
  std::string servers = {};    // directory of standalone servers
};

void save_to(const std::filesystem::path& folder, Trainer& trainer, Job& job, bool has_servers) {
  const checkpoint::Content content = trainer.checkpoint();
  if (has_servers && !trainer.is_first()) return;
  const auto solo = or_throw(Job::in_process(1));
  auto writer = or_throw(checkpoint::Writer::make(has_servers ? solo.front()->world() : job.world(),
                                                  {.folder = folder}));
  or_throw(writer->save(content));
  or_throw(writer->wait(Deadline::after(std::chrono::seconds(60))));
}

SmallNet net_of(std::uint64_t seed, const Course& run) {
  const std::lock_guard lock(making());
  torch::manual_seed(seed);
  return SmallNet(run.hidden, run.last_first);
}

// Until the whole model is used, only the last layer has gradients.
at::Tensor loss_at(int step, SmallNet& net, const TestBatch& batch, const Course& run) {
  if (step >= run.used_from) return loss_of(net, batch);
  const at::Tensor hidden = at::relu(batch.x.repeat({1, 9}));
  return torch::cross_entropy_loss(net->last(hidden), batch.y);
}

std::vector<at::Tensor> train_encoded(const Course& run) {
  std::vector<at::Tensor> result;
  const bool has_servers = run.plan.find("home=server") != std::string::npos;
  run_threads(run.ranks, [&](Job& job) {
    SmallNet net = net_of(run.load.empty() ? 1 : 77, run);
    Trainer trainer(job, *net, run.optimizer,
                    {.plan = run.plan, .seed = 9, .servers = {.directory = run.servers}});
    if (!run.load.empty())
      trainer.restore(
          *or_throw(checkpoint::Reader::open(or_throw(checkpoint::find_latest(run.load)))));
    for (int step = run.from; trainer.steps() < static_cast<std::uint64_t>(run.to); ++step) {
      ASSERT_LT(step, 10 * run.to) << run.plan;
      // Unequal parts: weights matter.
      const TestBatch own = part_of(test_batch(step, 50), job.rank(), job.size());
      trainer.step(static_cast<std::uint64_t>(own.x.size(0)),
                   [&] { return loss_at(step, net, own, run); });
    }
    const auto before = copies_of(*net);
    trainer.meet();
    if (run.checks_copies) expect_same_bits(before, copies_of(*net), run.plan);
    if (!run.save.empty()) save_to(run.save, trainer, job, has_servers);
    if (job.rank() == 0) result = copies_of(*net);
    trainer.meet();
  });
  return result;
}

double loss_after(const std::vector<at::Tensor>& parameters) {
  SmallNet net = own_net(1);
  const at::NoGradGuard no_grad;
  const auto into = net->parameters();
  for (std::size_t i = 0; i < into.size(); ++i) into[i].copy_(parameters[i]);
  double sum = 0;
  for (int i = 0; i < 10; ++i) sum += loss_of(net, test_batch(5000 + i, 64)).item<double>();
  return sum / 10;
}

struct Case {
  std::string codec;
  OptimizerSpec optimizer = sgd({.rate = 0.05});
};

std::vector<Case> cases() {
  return {{"bf16"},
          {"int8:64,min=100"},
          {"fp8:e4m3,all"},
          {"qsgd:4,min=100"},
          {"natural+zstd"},
          {"sign:64,min=100", adam({.rate = 0.01})},
          {"sign:64,vote"},
          {"onebit:column"},
          {"topk:0.1,exact", sgd({.rate = 0.05, .momentum = 0.9})},
          {"randk:0.2"},
          {"threshold:0.001+rans"},
          {"dgc:0.1,warmup=4", sgd({.rate = 0.05, .momentum = 0.9})},
          {"onebit-adam:5,min=100", adam({.rate = 0.01})}};
}

TEST(TrainerServerCodec, BspOnServersIsBspInTheGroup) {
  for (const Case& each : cases()) {
    for (const int ranks : {1, 3}) {
      const Course run{.plan = "codec=" + each.codec, .optimizer = each.optimizer, .ranks = ranks};
      Course on_servers = run;
      on_servers.plan += " home=server";
      on_servers.checks_copies = true;
      expect_near(train_encoded(run), train_encoded(on_servers), 1e-6,
                  fmt::format("{} of {}", each.codec, ranks));
    }
  }
}

// A weight of three parts, whose rows are cut by the ends of parts.
TEST(TrainerServerCodec, AParameterOfSeveralPartsIsAsInTheGroup) {
  for (const char* const codec : {"qsgd:4", "topk:0.02", "sign", "onebit:column", "powersgd:2"}) {
    const Course run{.plan = fmt::format("codec={}", codec), .to = 4, .hidden = 1700};
    Course on_servers = run;
    on_servers.plan += " home=server";
    on_servers.checks_copies = true;
    expect_near(train_encoded(run), train_encoded(on_servers), 1e-5, codec);
  }
}

// Servers sum factors in double, groups in float.
TEST(TrainerServerCodec, PowersgdOnServersIsThatInTheGroup) {
  const Course run{.plan = "codec=powersgd:2,min=100", .ranks = 3};
  Course on_servers = run;
  on_servers.plan += " home=server";
  on_servers.checks_copies = true;
  expect_near(train_encoded(run), train_encoded(on_servers), 1e-5, "powersgd");
}

TEST(TrainerServerCodec, EveryPolicyTrainsWithEncodedGradients) {
  const double before = loss_after(copies_of(*own_net(1)));
  const double bsp = loss_after(
      train_encoded({.plan = "", .optimizer = sgd({.rate = 0.1}), .ranks = 3, .to = 40}));
  ASSERT_LT(bsp, 0.9 * before);
  for (const char* const plan :
       {"update=bsp", "update=asp", "update=asp:push=2,fetch=3", "update=ssp:2", "update=backup:1",
        "update=subset:2", "update=kbatch:2", "update=asp conflict=accumulate",
        "update=asp stale=compensate:0.04"}) {
    for (const char* const codec : {"int8", "topk:0.25"}) {
      const double loss =
          loss_after(train_encoded({.plan = fmt::format("home=server codec={} {}", codec, plan),
                                    .optimizer = sgd({.rate = 0.1}),
                                    .ranks = 3,
                                    .to = 40}));
      EXPECT_LT(loss, before - 0.4 * (before - bsp)) << codec << " " << plan;
    }
  }
}

class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("tally_server_codec_{}", ::getpid())) {}
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

TEST(TrainerServerCodec, AResumedTrainingHasTheBitsOfOneThatWasNot) {
  const TemporaryFolder folder;
  std::vector<Case> cases = {{"sign:64,min=100", adam({.rate = 0.01})},
                             {"onebit-adam:3,min=100", adam({.rate = 0.01})},
                             {"powersgd:2,min=100", adam({.rate = 0.01})}};
  for (const std::string codec :
       {"fp16", "bf16", "int8", "fp8", "fp8:e5m2", "qsgd:4", "ternary", "natural", "onebit",
        "onebit:column", "sign:vote", "topk:0.1", "topk:0.1,exact", "randk:0.1", "dgc:0.1,warmup=4",
        "threshold:0.0001", "qsgd:4+rans", "int8+huffman", "topk:0.1+zstd"})
    cases.push_back({codec, sgd({.rate = 0.05, .momentum = 0.9})});
  for (const Case& each : cases) {
    const auto own = folder.path() / each.codec;
    const Course through{
        .plan = "home=server codec=" + each.codec, .optimizer = each.optimizer, .ranks = 3};
    Course first = through, second = through;
    first.to = second.from = 6;
    first.save = second.load = own;
    train_encoded(first);
    expect_same_bits(train_encoded(through), train_encoded(second), each.codec);
  }
}

TEST(TrainerServerCodec, WhatOneHomeSavedTheOtherResumes) {
  const TemporaryFolder folder;
  const std::string codec = "codec=sign:64,min=100";
  const Course through{.plan = codec, .optimizer = adam({.rate = 0.01})};
  const auto expected = train_encoded(through);
  for (const auto& [before, after] :
       {std::pair{codec, codec + " home=server"}, std::pair{codec + " home=server", codec}}) {
    Course first = through, second = through;
    first.plan = before;
    second.plan = after;
    first.to = second.from = 6;
    first.save = second.load = folder.path() / before;
    train_encoded(first);
    expect_near(expected, train_encoded(second), 1e-6, before + " then " + after);
  }
}

// Servers do not know the order of gradients: restored state keeps its place when the first step
// shows the order.
TEST(TrainerServerCodec, WhatServersSavedIsKeptWhateverTheOrderOfGradients) {
  const TemporaryFolder folder;
  for (const Case& each : {Case{"none", sgd({.rate = 0.05, .momentum = 0.9})},
                           Case{"sign:64,min=100", adam({.rate = 0.01})}}) {
    const std::string codec = "codec=" + each.codec;
    const Course through{.plan = codec, .optimizer = each.optimizer, .last_first = true};
    Course first = through, second = through;
    first.plan += " home=server";
    first.to = second.from = 6;
    first.save = second.load = folder.path() / each.codec;
    train_encoded(first);
    expect_near(train_encoded(through), train_encoded(second), 1e-6, codec);
  }
}

// In a group each parameter counts its own updates; on servers all parameters share one count.
TEST(TrainerServerCodec, ParametersThatHadFewerUpdatesInTheGroupGoOnWithTheOthers) {
  const TemporaryFolder folder;
  for (const char* const codec : {"codec=bf16:min=100", "codec=none"}) {
    const Course through{.plan = codec, .used_from = 3};
    Course first = through, second = through;
    first.to = second.from = 6;
    first.save = second.load = folder.path() / codec;
    train_encoded(first);
    second.plan += " home=server";
    expect_near(train_encoded(through), train_encoded(second), 1e-6, codec);
  }
}

TEST(TrainerServerCodec, ServersThatHaveServedATrainingBeginTheNextAnew) {
  for (const Case& each :
       {Case{"none", adam({.rate = 0.01})}, Case{"sign:64,min=100", adam({.rate = 0.01})},
        Case{"onebit-adam:5,min=100", adam({.rate = 0.01})}, Case{"qsgd:4,min=100"},
        Case{"powersgd:2,min=100", adam({.rate = 0.01})}}) {
    const auto directory = or_throw(server::Directory::start({.servers = 1}));
    const auto server = or_throw(server::Server::start({.directory = directory->address()}));
    const Course run{.plan = "home=server codec=" + each.codec,
                     .optimizer = each.optimizer,
                     .checks_copies = true,
                     .servers = directory->address()};
    const auto once = train_encoded(run);
    expect_same_bits(once, train_encoded(run), each.codec);
  }
}

// Without rounds every gradient is an update: there are more updates than steps.
TEST(TrainerServerCodec, AWarmUpIsCountedByUpdatesNotBySteps) {
  const TemporaryFolder folder;
  const Course first{.plan = "home=server update=asp",
                     .optimizer = adam({.rate = 0.01}),
                     .to = 6,
                     .save = folder.path()};
  train_encoded(first);
  run_threads(2, [&](Job& job) {
    SmallNet net = net_of(1, first);
    Trainer trainer(job, *net, first.optimizer,
                    {.plan = "home=server codec=onebit-adam:8,min=100", .seed = 9});
    const auto reader =
        or_throw(checkpoint::Reader::open(or_throw(checkpoint::find_latest(folder.path()))));
    EXPECT_THROW(trainer.restore(*reader), Failure);
  });
}

// A loss whose backward pass fails in the middle: rank 0 then has gradients of two layers, the
// other ranks of one.
at::Tensor breaking_loss(SmallNet& net, const TestBatch& batch, Rank rank) {
  const auto ends = [](const at::Tensor&) -> at::Tensor {
    throw std::runtime_error("in the middle");
  };
  const at::Tensor first = torch::tanh(net->first(batch.x));
  const at::Tensor second = torch::relu(net->second(first));
  if (rank == 0) {
    first.register_hook(ends);
  } else {
    second.register_hook(ends);
  }
  return torch::cross_entropy_loss(net->last(second), batch.y);
}

// No later step waits for the requests of the failed step, or uses their results.
TEST(TrainerServerCodec, AStepThatBrokeIsForgottenByARestore) {
  const TemporaryFolder folder;
  for (const char* const codec : {"int8:64,min=100", "none", "powersgd:2,min=100"}) {
    const Course through{.plan = fmt::format("home=server codec={}", codec)};
    Course first = through;
    first.to = 5;
    first.save = folder.path() / codec;
    train_encoded(first);
    std::vector<at::Tensor> result;
    run_threads(2, [&](Job& job) {
      SmallNet net = net_of(77, through);
      Trainer trainer(job, *net, through.optimizer, {.plan = through.plan, .seed = 9});
      const auto reader =
          or_throw(checkpoint::Reader::open(or_throw(checkpoint::find_latest(first.save))));
      const auto step_of = [&](int step) {
        const TestBatch own = part_of(test_batch(step, 50), job.rank(), job.size());
        trainer.step(25, [&] { return loss_of(net, own); });
      };
      trainer.restore(*reader);
      step_of(100);
      const TestBatch odd = test_batch(101, 25);
      EXPECT_THROW(trainer.step(25, [&] { return breaking_loss(net, odd, job.rank()); }),
                   std::runtime_error);
      trainer.restore(*reader);
      for (int step = 5; step < 10; ++step) step_of(step);
      trainer.meet();
      if (job.rank() == 0) result = copies_of(*net);
      trainer.meet();
    });
    expect_same_bits(train_encoded(through), result, codec);
  }
}

}  // namespace
}  // namespace tally::adapter
