#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <latch>
#include <mutex>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "adapters/torch/tensors.h"
#include "adapters/torch/test_nets.h"
#include "tally/server.h"

// The trainer with parameter servers, against the trainer in a group.
namespace tally::adapter {
namespace {

struct TrainerServerCase {
  std::string name;
  OptimizerSpec spec;
};

std::vector<TrainerServerCase> server_cases() {
  return {{"sgd", sgd({.rate = 0.1, .weight_decay = 0.01})},
          {"momentum", sgd({.rate = 0.1, .momentum = 0.9})},
          {"adagrad", adagrad({.rate = 0.01})},
          {"adam", adam({.rate = 0.001})},
          {"adamw", adamw({.rate = 0.001})}};
}

struct TrainerServerRun {
  std::string plan;
  OptimizerSpec optimizer = sgd({.rate = 0.1});
  int ranks = 2;
  std::uint64_t steps = 12;
  TrainerOptions options = {};
};

std::vector<at::Tensor> train_on_servers(const TrainerServerRun& run) {
  std::vector<at::Tensor> result;
  run_threads(run.ranks, [&](Job& job) {
    SmallNet net = own_net(static_cast<std::uint64_t>(1 + job.rank()));
    TrainerOptions options = run.options;
    options.plan = run.plan;
    options.groups = {without_decay(run.optimizer)};
    Trainer trainer(job, *net, run.optimizer, options);
    for (std::uint64_t call = 0; trainer.steps() < run.steps; ++call) {
      ASSERT_LT(call, 10 * run.steps) << run.plan;
      const TestBatch own = part_of(test_batch(static_cast<int>(call), 50), job.rank(), job.size());
      trainer.step(static_cast<std::uint64_t>(own.x.size(0)), [&] { return loss_of(net, own); });
    }
    trainer.meet();
    EXPECT_GE(trainer.steps(), run.steps);
    if (job.rank() == 0) result = copies_of(*net);
    trainer.meet();
  });
  return result;
}

double server_loss_after(const std::vector<at::Tensor>& parameters) {
  SmallNet net = own_net(1);
  const at::NoGradGuard no_grad;
  const auto into = net->parameters();
  for (std::size_t i = 0; i < into.size(); ++i) into[i].copy_(parameters[i]);
  double sum = 0;
  for (int i = 0; i < 10; ++i) sum += loss_of(net, test_batch(5000 + i, 64)).item<double>();
  return sum / 10;
}

// A rank that computes while another pushes the last gradient of a step must not add one more.
TEST(TrainerServer, AspAppliesExactlyTheGradientsOfItsSteps) {
  constexpr int kWorkers = 3;
  for (const char* plan : {"home=server update=asp", "home=server update=asp:fetch=3"}) {
    run_threads(kWorkers, [&](Job& job) {
      SmallNet net = own_net(1);
      Trainer trainer(job, *net, sgd({.rate = 0.01}), {.plan = plan});
      int call = 0;
      for (const std::uint64_t target : {1U, 2U, 7U, 20U}) {
        const auto has_met = [&] {
          while (trainer.is_due(target)) {
            trainer.meet();
            if (trainer.steps() >= target) return true;
          }
          return false;
        };
        do {
          const TestBatch own = part_of(test_batch(call++, 48), job.rank(), kWorkers);
          trainer.step(16, [&] { return loss_of(net, own); });
        } while (!has_met());
        EXPECT_EQ(trainer.steps(), target) << plan;
        const PolicyFigures figures = trainer.figures();
        const double own = std::accumulate(figures.staleness.begin(), figures.staleness.end(), 0.0);
        EXPECT_EQ(trainer.sum({own, static_cast<double>(figures.dropped)}),
                  (std::vector<double>{static_cast<double>(kWorkers * target), 0.0}))
            << plan;
      }
    });
  }
}

class TrainerServerWith : public testing::TestWithParam<TrainerServerCase> {};

TEST_P(TrainerServerWith, BspOnServersIsBspInTheGroup) {
  for (const int ranks : {1, 3}) {
    const auto group = train_on_servers({.plan = "", .optimizer = GetParam().spec, .ranks = ranks});
    const auto server =
        train_on_servers({.plan = "home=server", .optimizer = GetParam().spec, .ranks = ranks});
    expect_near(group, server, 1e-6, GetParam().name + " of " + std::to_string(ranks));
  }
}

INSTANTIATE_TEST_SUITE_P(All, TrainerServerWith, testing::ValuesIn(server_cases()),
                         [](const auto& each) { return each.param.name; });

// The norm of a bias says nothing about its gradient. A first step of lamb divides the gradient by
// its magnitude; a trust ratio would scale the steps of lars and lamb by the norm of the parameter.
TEST(TrainerServer, ParametersWithoutDecayHaveNoTrustRatio) {
  for (const OptimizerSpec& optimizer : {lars({.rate = 0.1}), lamb({.rate = 0.01})})
    for (const char* plan : {"", "home=server"})
      run_threads(1, [&](Job& job) {
        SmallNet net = own_net(1);
        SmallNet start = own_net(1);
        const TestBatch batch = test_batch(0, 16);
        Trainer trainer(job, *net, optimizer, {.plan = plan, .groups = {without_decay(optimizer)}});
        trainer.step(16, [&] { return loss_of(net, batch); });
        loss_of(start, batch).backward();
        const at::NoGradGuard no_grad;
        const std::vector<at::Tensor> moved = copies_of(*net);
        const std::vector<at::Tensor> from = start->parameters();
        for (std::size_t i = 0; i < from.size(); ++i) {
          at::Tensor direction = from[i].grad();
          if (optimizer.kind == OptimizerKind::kLamb)
            direction = direction / (direction.abs() + optimizer.epsilon);
          const at::Tensor without_ratio = from[i] - optimizer.rate * direction;
          const double off = (moved[i] - without_ratio).abs().max().item<double>();
          if (from[i].dim() < 2) {
            EXPECT_LE(off, 1e-6) << to_string(optimizer) << " " << plan << ", bias " << i;
          } else {
            EXPECT_GT(off, 1e-4) << to_string(optimizer) << " " << plan << ", weight " << i;
          }
        }
      });
}

// With a fixed order of additions the bits are equal.
TEST(TrainerServer, WithOneWorkerAspHasTheBitsOfBsp) {
  for (const TrainerServerCase& each : server_cases()) {
    const auto bsp = train_on_servers({.plan = "home=server", .optimizer = each.spec, .ranks = 1});
    const auto asp =
        train_on_servers({.plan = "home=server update=asp", .optimizer = each.spec, .ranks = 1});
    expect_same_bits(bsp, asp, each.name);
  }
}

TEST(TrainerServer, BackupOfNobodyAndTheWholeSubsetHaveTheBitsOfBsp) {
  const auto bsp = train_on_servers({.plan = "home=server", .ranks = 3});
  expect_same_bits(bsp, train_on_servers({.plan = "home=server update=backup:0", .ranks = 3}),
                   "backup:0");
  expect_same_bits(bsp, train_on_servers({.plan = "home=server update=subset:3", .ranks = 3}),
                   "subset:3");
}

// No worker may be ahead of the others, so the gradients of a clock make one update: their mean,
// weighted by samples.
TEST(TrainerServer, SspOfNothingIsBsp) {
  std::vector<std::vector<at::Tensor>> results;
  for (const char* plan : {"", "home=server update=ssp:0"}) {
    std::vector<at::Tensor> result;
    run_threads(2, [&](Job& job) {
      SmallNet net = own_net(1);
      Trainer trainer(job, *net, sgd({.rate = 0.1}), {.plan = plan});
      for (int step = 0; step < 12; ++step) {
        // 15 and 16 samples.
        const TestBatch own = part_of(test_batch(step, 31), job.rank(), 2);
        trainer.step(static_cast<std::uint64_t>(own.x.size(0)), [&] { return loss_of(net, own); });
      }
      trainer.meet();
      if (job.rank() == 0) result = copies_of(*net);
      trainer.meet();
    });
    results.push_back(result);
  }
  expect_near(results[0], results[1], 1e-6, "ssp:0");
}

TEST(TrainerServer, EveryPolicyTrains) {
  const double before = server_loss_after(copies_of(*own_net(1)));
  const double bsp = server_loss_after(train_on_servers({.plan = "", .ranks = 3, .steps = 40}));
  ASSERT_LT(bsp, 0.9 * before);
  for (const char* plan :
       {"update=asp", "update=asp:push=2,fetch=3", "update=ssp:2", "update=ssp:2 stale=scale",
        "update=asp stale=compensate:0.04", "update=asp stale=drop:20", "update=backup:1",
        "update=subset:2", "update=kbatch:2", "update=kbatch:5",
        "update=asp conflict=accumulate"}) {
    const double loss = server_loss_after(
        train_on_servers({.plan = std::string("home=server ") + plan, .ranks = 3, .steps = 40}));
    EXPECT_LT(loss, before - 0.5 * (before - bsp))
        << plan << ": from " << before << ", bsp " << bsp;
  }
  for (const char* plan : {"update=asp", "update=ssp:2"}) {
    const double loss =
        server_loss_after(train_on_servers({.plan = std::string("home=server ") + plan,
                                            .optimizer = adam({.rate = 0.01}),
                                            .ranks = 3,
                                            .steps = 40}));
    EXPECT_LT(loss, before - 0.5 * (before - bsp)) << plan << " with adam";
  }
}

// Rank 2 is still in its first forward pass while the other ranks make their steps.
TEST(TrainerServer, ALateWorkerHoldsNobodyUpUnderAspAndBackup) {
  for (const char* plan : {"home=server update=asp", "home=server update=backup:1"}) {
    std::latch others_are_done(2);
    run_threads(3, [&](Job& job) {
      SmallNet net = own_net(1);
      Trainer trainer(job, *net, sgd({.rate = 0.1}), {.plan = plan});
      if (job.rank() == 2) {
        trainer.step(16, [&] {
          others_are_done.wait();
          return loss_of(net, part_of(test_batch(0, 48), 2, 3));
        });
      } else {
        for (int step = 0; trainer.steps() < 6; ++step)
          trainer.step(16,
                       [&] { return loss_of(net, part_of(test_batch(step, 48), job.rank(), 3)); });
        others_are_done.count_down();
      }
      trainer.meet();
      EXPECT_GE(trainer.steps(), 6U);
      const PolicyFigures figures = trainer.figures();
      if (std::string(plan).find("backup") != std::string::npos && job.rank() == 2) {
        EXPECT_EQ(figures.dropped, 1U);
      }
      if (std::string(plan).find("asp") != std::string::npos && job.rank() == 2) {
        EXPECT_EQ(figures.staleness[0], 0U) << "it was as stale as there were updates";
      }
      trainer.meet();
    });
  }
}

// With a bound of 2 the fast worker waits when it is 2 steps ahead. The check runs in its third
// forward pass after the slow worker's first.
TEST(TrainerServer, NobodyIsMoreThanTheBoundAheadUnderSsp) {
  std::array<std::atomic<int>, 2> clocks{};
  run_threads(2, [&](Job& job) {
    SmallNet net = own_net(1);
    Trainer trainer(job, *net, sgd({.rate = 0.01}), {.plan = "home=server update=ssp:2"});
    const auto me = static_cast<std::size_t>(job.rank());
    for (int step = 0; step < 30; ++step) {
      trainer.step(8, [&] {
        // Finished steps of this worker minus those of the other; the other may be in the middle of
        // a step.
        EXPECT_LE(clocks[me] - clocks[1 - me], 2 + 1);
        return loss_of(net, part_of(test_batch(step, 16), job.rank(), 2));
      });
      ++clocks[me];
    }
    trainer.meet();
  });
}

TEST(TrainerServer, WhatServersCannotDoIsRefusedWithTheReason) {
  struct Case {
    OptimizerSpec optimizer;
    std::string plan, reason;
  };
  const Case cases[] = {
      {lamb(), "update=asp", "nearest: update=bsp, backup or subset instead of update=asp"},
      {lars(), "update=kbatch:2", "needs the norms of whole parameters"},
      {sgd({.momentum = 0.9}), "update=asp codec=sign stale=compensate:0.04",
       "nearest: codec=sign:momentum=late, or stale=scale"},
      {sgd({.momentum = 0.9}), "update=asp:fetch=4 codec=topk:0.01", "nearest: fetch=1"},
      {sgd(), "update=asp:fetch=4 codec=dgc", "nearest: fetch=1"},
  };
  run_threads(1, [&](Job& job) {
    SmallNet net = own_net(1);
    for (const Case& c : cases) {
      try {
        Trainer trainer(job, *net, c.optimizer, {.plan = "home=server " + c.plan});
        ADD_FAILURE() << c.plan << " was not refused";
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.error().code, ErrorCode::kInvalid);
        EXPECT_THAT(failure.what(), testing::HasSubstr(c.reason));
      }
    }
    // The same codecs without momentum at the sender.
    Trainer(job, *net, sgd(), {.plan = "home=server update=asp codec=sign stale=compensate:0.04"});
  });
}

TEST(TrainerServer, SettingsThatProbablyHarmAreToldOnce) {
  struct Case {
    OptimizerSpec optimizer;
    std::string plan, warning;
  };
  const Case cases[] = {
      {adam(), "codec=sign", "codec=onebit-adam or int8 keeps the accuracy"},
      {adagrad(), "home=server codec=topk:0.01", "codec=int8 keeps the accuracy"},
      {lamb(), "codec=randk:0.1", "codec=int8 keeps the accuracy"},
      {adamw(), "codec=powersgd:4", "codec=onebit-adam or int8 keeps the accuracy"},
      {sgd(), "home=server update=asp stale=drop:0", "use stale=drop:2 or more"},
      {adam(), "codec=int8", ""},
      {sgd(), "codec=sign", ""},
      {sgd(), "home=server update=asp stale=drop:1", ""},
  };
  for (const Case& c : cases) {
    std::vector<std::string> told;
    std::mutex mutex;
    run_threads(2, [&](Job& job) {
      SmallNet net = own_net(1);
      TrainerOptions options{.plan = c.plan};
      options.on_event = [&](const std::string& sentence) {
        const std::lock_guard lock(mutex);
        // Servers tell of connections as well.
        if (sentence.starts_with("codec=") || sentence.starts_with("stale="))
          told.push_back(sentence);
      };
      const Trainer trainer(job, *net, c.optimizer, options);
      or_throw(job.world().barrier());
    });
    if (c.warning.empty()) {
      EXPECT_THAT(told, testing::IsEmpty()) << c.plan;
    } else {
      EXPECT_THAT(told, testing::ElementsAre(testing::HasSubstr(c.warning))) << c.plan;
    }
  }
}

TEST(TrainerServer, GradientsOfMicroBatchesAddUpAndAreClipped) {
  const auto whole = train_on_servers({.plan = "home=server", .ranks = 1, .steps = 6});
  std::vector<at::Tensor> parts;
  run_threads(1, [&](Job& job) {
    SmallNet net = own_net(1);
    Trainer trainer(job, *net, sgd({.rate = 0.1}), {.plan = "home=server", .accumulate = 2});
    for (int step = 0; step < 6; ++step) {
      const TestBatch batch = test_batch(step, 50);
      for (const auto& [begin, end] : {std::pair{0, 20}, std::pair{20, 50}})
        trainer.step(static_cast<std::uint64_t>(end - begin), [&, b = begin, e = end] {
          return loss_of(net, {batch.x.slice(0, b, e), batch.y.slice(0, b, e)});
        });
    }
    parts = copies_of(*net);
  });
  expect_near(whole, parts, 1e-6, "micro batches");
  const auto clipped = [](const char* plan) {
    return train_on_servers(
        {.plan = plan, .ranks = 1, .steps = 6, .options = {.clip_value = 0.01, .clip_norm = 0.05}});
  };
  expect_near(clipped(""), clipped("home=server"), 1e-6, "clipped");
}

TEST(TrainerServer, TwoServersOutsideTheWorkersServeAsWell) {
  auto directory = or_throw(server::Directory::start({.servers = 2}));
  std::vector<std::unique_ptr<server::Server>> servers;
  std::vector<std::thread> starts;
  std::mutex mutex;
  for (int i = 0; i < 2; ++i)
    starts.emplace_back([&] {
      auto server = or_throw(server::Server::start({.directory = directory->address()}));
      const std::lock_guard lock(mutex);
      servers.push_back(std::move(server));
    });
  for (std::thread& start : starts) start.join();
  const auto group = train_on_servers({.plan = ""});
  const auto outside = train_on_servers(
      {.plan = "home=server", .options = {.servers = {.directory = directory->address()}}});
  expect_near(group, outside, 1e-6, "two servers");
}

void save(Communicator& world, const checkpoint::Content& content,
          const std::filesystem::path& folder) {
  auto writer = or_throw(checkpoint::Writer::make(world, {.folder = folder}));
  or_throw(writer->save(content));
  or_throw(writer->wait(Deadline::after(std::chrono::seconds(60))));
}

void save_alone(const checkpoint::Content& content, const std::filesystem::path& folder) {
  const auto solo = or_throw(Job::in_process(1));
  save(solo.front()->world(), content, folder);
}

// Uses Adam, whose state and step count must be restored too.
std::vector<at::Tensor> train_part(const std::string& plan, const std::filesystem::path& folder,
                                   bool resume, int from, int to) {
  std::vector<at::Tensor> result;
  run_threads(2, [&](Job& job) {
    SmallNet net = own_net(resume ? 77 : 1);
    Trainer trainer(job, *net, adam({.rate = 0.01}), {.plan = plan});
    if (resume) {
      const auto latest = or_throw(checkpoint::find_latest(folder));
      trainer.restore(*or_throw(checkpoint::Reader::open(latest)));
      EXPECT_EQ(trainer.steps(), static_cast<std::uint64_t>(from));
    }
    for (int step = from; step < to; ++step) {
      const TestBatch own = part_of(test_batch(step, 48), job.rank(), 2);
      trainer.step(24, [&] { return loss_of(net, own); });
    }
    const checkpoint::Content content = trainer.checkpoint();
    const bool alone = plan.find("server") != std::string::npos;
    if (!alone) save(job.world(), content, folder);
    if (alone && trainer.is_first()) save_alone(content, folder);
    trainer.meet();
    if (job.rank() == 0) result = copies_of(*net);
    trainer.meet();
  });
  return result;
}

TEST(TrainerServer, WhatOneHomeSavedTheOtherResumes) {
  const auto root = std::filesystem::temp_directory_path() /
                    ("tally_trainer_server_" + std::to_string(::getpid()));
  const auto through = train_part("", root / "through", false, 0, 12);
  for (const auto& [first, second] : {std::pair{"home=server", ""}, std::pair{"", "home=server"},
                                      std::pair{"home=server", "home=server"}}) {
    const auto folder = root / fmt::format("{}-{}", first, second);
    train_part(first, folder, false, 0, 6);
    expect_near(through, train_part(second, folder, true, 6, 12), 1e-6,
                fmt::format("'{}' then '{}'", first, second));
  }
  std::filesystem::remove_all(root);
}

// The corrected momentum of two asynchronous workers is 0, so servers keep no momentum.
TEST(TrainerServer, AsynchronousWorkersSaveAndRestoreWhereServersKeepNoMomentum) {
  const OptimizerSpec optimizer = sgd({.rate = 0.1, .momentum = 0.5});
  const auto root = std::filesystem::temp_directory_path() /
                    ("tally_trainer_momentum_" + std::to_string(::getpid()));
  for (const char* plan : {"home=server update=asp", "home=server update=ssp:2"}) {
    const auto folder = root / plan;
    std::vector<at::Tensor> saved;
    run_threads(2, [&](Job& job) {
      SmallNet net = own_net(1);
      Trainer trainer(job, *net, optimizer, {.plan = plan});
      for (int step = 0; step < 3; ++step)
        trainer.step(24,
                     [&] { return loss_of(net, part_of(test_batch(step, 48), job.rank(), 2)); });
      trainer.meet();
      const checkpoint::Content content = trainer.checkpoint();
      EXPECT_EQ(content.state_tensors.size(), net->parameters().size()) << "the user's optimizer";
      if (trainer.is_first()) {
        save_alone(content, folder);
        saved = copies_of(*net);
      }
      trainer.meet();
    });
    run_threads(2, [&](Job& job) {
      SmallNet net = own_net(77);
      Trainer trainer(job, *net, optimizer, {.plan = plan});
      const auto latest = or_throw(checkpoint::find_latest(folder));
      trainer.restore(*or_throw(checkpoint::Reader::open(latest)));
      expect_same_bits(saved, copies_of(*net), plan);
      trainer.meet();
    });
  }
  std::filesystem::remove_all(root);
}

// Between pulls a worker moves its own copy by each gradient once, also while it keeps their sum.
TEST(TrainerServer, OneWorkerThatPushesAndFetchesRarelyIsSequentialSgd) {
  for (const char* words : {"push=3,fetch=3", "push=2,fetch=4", "fetch=3"}) {
    run_threads(1, [&](Job& job) {
      SmallNet alone = own_net(1);
      SmallNet net = own_net(1);
      const std::string plan = fmt::format("home=server update=asp:{}", words);
      Trainer trainer(job, *net, sgd({.rate = 0.1}), {.plan = plan});
      for (int step = 0; step < 12; ++step) {
        const TestBatch batch = test_batch(step, 16);
        trainer.step(16, [&] { return loss_of(net, batch); });
        alone->zero_grad();
        loss_of(alone, batch).backward();
        const at::NoGradGuard no_grad;
        for (at::Tensor& parameter : alone->parameters()) parameter.sub_(parameter.grad(), 0.1);
        expect_near(copies_of(*alone), copies_of(*net), 1e-5, fmt::format("{} {}", words, step));
      }
    });
  }
}

}  // namespace
}  // namespace tally::adapter
