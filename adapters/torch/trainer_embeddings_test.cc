#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>

#include "adapters/torch/tensors.h"
#include "adapters/torch/test_nets.h"
#include "tally/sparse.h"

// Embeddings with rows on servers, against embeddings that are parameters.
namespace tally::adapter {
namespace {

constexpr std::int64_t kKeys = 50;

struct KeyedNetImpl : torch::nn::Module {
  KeyedNetImpl()
      : rows(register_module("rows", SparseEmbedding(SparseEmbeddingOptions{
                                         .dimension = 4, .rows = kKeys, .initial_scale = 0}))),
        last(register_module("last", torch::nn::Linear(8, 3))) {}
  at::Tensor forward(const at::Tensor& keys) { return last(rows(keys).reshape({-1, 8})); }
  SparseEmbedding rows;
  torch::nn::Linear last;
};
TORCH_MODULE(KeyedNet);

KeyedNet keyed_net() {
  const std::lock_guard lock(making());
  torch::manual_seed(3);
  return KeyedNet();
}

// Pairs of keys, some of which occur in many samples; the label depends on both.
TestBatch keyed_batch(int step, Rank rank, std::int64_t samples) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(100 * step + rank);
  const at::Tensor keys = at::randint(0, kKeys, {samples, 2}, generator, at::kLong);
  return {keys, (keys.select(1, 0) + keys.select(1, 1)).remainder(3)};
}

at::Tensor all_outputs(KeyedNet& net) {
  const at::NoGradGuard no_grad;
  return net->forward(at::arange(kKeys, at::kLong).reshape({-1, 2}));
}

at::Tensor train_embeddings(const std::string& plan, const OptimizerSpec& optimizer, int steps) {
  at::Tensor result;
  run_threads(2, [&](Job& job) {
    KeyedNet net = keyed_net();
    Trainer trainer(job, *net, optimizer, {.plan = plan});
    for (int step = 0; step < steps; ++step) {
      const TestBatch batch = keyed_batch(step, job.rank(), 12);
      trainer.step(12, [&] { return torch::cross_entropy_loss(net->forward(batch.x), batch.y); });
    }
    trainer.meet();
    if (job.rank() == 0) result = all_outputs(net);
    trainer.meet();
  });
  return result;
}

// How much the outputs of keys differ: 0 before training, when all rows are 0.
double spread(const at::Tensor& outputs) {
  return (outputs - outputs.mean(0)).abs().max().item<double>();
}

TEST(TrainerEmbeddings, RowsOnServersAreTrainedAsParametersAre) {
  for (const OptimizerSpec& optimizer : {sgd({.rate = 0.5}), adagrad({.rate = 0.1})}) {
    const at::Tensor group = train_embeddings("", optimizer, 10);
    const at::Tensor server = train_embeddings("home=server", optimizer, 10);
    EXPECT_GT(spread(group), 0.01);
    EXPECT_LE((group - server).abs().max().item<double>(), 1e-6) << to_string(optimizer);
  }
}

// The number of updates depends on the speed of the threads: kbatch:2 drops late gradients.
TEST(TrainerEmbeddings, OtherPoliciesTrainRowsToo) {
  for (const char* plan : {"home=server update=asp", "home=server update=ssp:2",
                           "home=server update=asp:push=2,fetch=2", "home=server update=backup:1",
                           "home=server update=kbatch:2"}) {
    const at::Tensor outputs = train_embeddings(plan, adagrad({.rate = 0.1}), 20);
    EXPECT_GT(spread(outputs), 0.01) << plan;
    EXPECT_TRUE(outputs.isfinite().all().item<bool>()) << plan;
  }
}

// Saves with one plan, restores with another, and compares the outputs.
void save_and_restore(const std::string& first, const std::string& second) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("tally_trainer_embeddings_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  at::Tensor saved;
  at::Tensor restored;
  for (const bool resume : {false, true}) {
    run_threads(2, [&](Job& job) {
      KeyedNet net = keyed_net();
      TrainerOptions options{.plan = resume ? second : first};
      options.servers.snapshots = (folder / "snapshots").string();
      Trainer trainer(job, *net, adagrad({.rate = 0.1}), options);
      if (resume) {
        const auto latest = or_throw(checkpoint::find_latest(folder));
        trainer.restore(*or_throw(checkpoint::Reader::open(latest)));
        EXPECT_EQ(trainer.steps(), 5U);
        if (job.rank() == 0) restored = all_outputs(net);
        trainer.meet();
        return;
      }
      for (int step = 0; step < 5; ++step) {
        const TestBatch batch = keyed_batch(step, job.rank(), 12);
        trainer.step(12, [&] { return torch::cross_entropy_loss(net->forward(batch.x), batch.y); });
      }
      const checkpoint::Content content = trainer.checkpoint();
      if (trainer.is_first()) {
        const auto alone = or_throw(Job::in_process(1));
        const auto writer =
            or_throw(checkpoint::Writer::make(alone.front()->world(), {.folder = folder}));
        or_throw(writer->save(content));
        or_throw(writer->wait(Deadline::after(std::chrono::seconds(60))));
        saved = all_outputs(net);
      }
      trainer.meet();
    });
  }
  ASSERT_TRUE(saved.defined() && restored.defined()) << first << " then " << second;
  EXPECT_TRUE(at::equal(saved, restored)) << first << " then " << second;
  std::filesystem::remove_all(folder);
}

TEST(TrainerEmbeddings, ASnapshotBesideTheCheckpointBringsRowsBack) {
  save_and_restore("home=server", "home=server");
}

// The snapshot's other tables are not needed: the checkpoint has their data.
TEST(TrainerEmbeddings, RowsComeBackWhateverTheCodecOfTheParameters) {
  const std::string none = "home=server";
  const std::string sign = "home=server codec=sign:min=1";
  const std::string int8 = "home=server codec=int8:min=1,feedback=off";
  save_and_restore(sign, sign);
  save_and_restore(sign, int8);
  save_and_restore(none, sign);
  save_and_restore(sign, none);
}

}  // namespace
}  // namespace tally::adapter
