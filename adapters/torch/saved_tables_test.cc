// Sparse tables that were trained on servers, outside of their training.
#include "server/snapshot/saved_tables.h"

#include <stdlib.h>

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "adapters/torch/server_embeddings.h"
#include "adapters/torch/tensors.h"
#include "adapters/torch/test_nets.h"
#include "base/check.h"
#include "checkpoint/tensor_file.h"
#include "server/snapshot/row_snapshots.h"
#include "tally/sparse.h"

namespace tally::adapter {
namespace {

namespace fs = std::filesystem;
using server::row_snapshot_of;
using server::SavedTables;
using testing::HasSubstr;

constexpr std::int64_t kTrainedKeys = 50;
constexpr std::int64_t kDimension = 4;

struct TableNetImpl : torch::nn::Module {
  TableNetImpl()
      : rows(register_module(
            "rows", SparseEmbedding(SparseEmbeddingOptions{
                        .dimension = kDimension, .rows = 2 * kTrainedKeys, .initial_scale = 0.5}))),
        last(register_module("last", torch::nn::Linear(2 * kDimension, 3))) {}
  at::Tensor forward(const at::Tensor& keys) {
    return last(rows(keys).reshape({-1, 2 * kDimension}));
  }
  SparseEmbedding rows;
  torch::nn::Linear last;
};
TORCH_MODULE(TableNet);

TableNet table_net() {
  const std::lock_guard lock(making());
  torch::manual_seed(3);
  return TableNet();
}

// Half of the keys have not been trained.
at::Tensor outputs_of(TableNet& net) {
  const at::NoGradGuard no_grad;
  return net->forward(at::arange(2 * kTrainedKeys, at::kLong).reshape({-1, 2}));
}

Result<SavedTables> saved_tables(const checkpoint::Reader& reader) {
  return SavedTables::open(reader, server::table_of_embedding(""));
}

class SavedTablesTest : public testing::Test {
 protected:
  SavedTablesTest() {
    std::string pattern = fs::temp_directory_path().string() + "/tally_tables_XXXXXX";
    TALLY_CHECK(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
  }
  ~SavedTablesTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  // Trains on two workers and saves in folder_/runs; returns the outputs of the model that was
  // saved, with rows from the servers.
  at::Tensor trained(const std::string& plan) const {
    at::Tensor outputs;
    run_threads(2, [&](Job& job) {
      TableNet net = table_net();
      TrainerOptions options{.plan = plan};
      options.servers.snapshots = (runs() / "snapshots").string();
      Trainer trainer(job, *net, adagrad({.rate = 0.1}), options);
      for (int step = 0; step < 5; ++step) {
        const auto generator = at::make_generator<at::CPUGeneratorImpl>(100 * step + job.rank());
        const at::Tensor keys = at::randint(0, kTrainedKeys, {12, 2}, generator, at::kLong);
        trainer.step(12, [&] {
          return torch::cross_entropy_loss(net->forward(keys), keys.sum(1).remainder(3));
        });
      }
      const checkpoint::Content content = trainer.checkpoint();
      // In a group every rank has its part; with servers the first rank has everything.
      if (plan.empty()) {
        const auto writer = or_throw(checkpoint::Writer::make(job.world(), {.folder = runs()}));
        or_throw(writer->save(content));
        or_throw(writer->wait(Deadline::after(std::chrono::seconds(60))));
      } else if (trainer.is_first()) {
        save_alone(content);
      }
      if (trainer.is_first()) outputs = outputs_of(net);
      trainer.meet();
    });
    return outputs;
  }
  void save_alone(const checkpoint::Content& content) const {
    const auto alone = or_throw(Job::in_process(1));
    const auto writer =
        or_throw(checkpoint::Writer::make(alone.front()->world(), {.folder = runs(), .keep = 1}));
    or_throw(writer->save(content));
    or_throw(writer->wait(Deadline::after(std::chrono::seconds(60))));
  }
  std::string problem_of_restoring(const std::string& plan) const {
    std::string problem;
    run_threads(1, [&](Job& job) {
      TableNet net = table_net();
      Trainer trainer(job, *net, adagrad({.rate = 0.1}), {.plan = plan});
      try {
        trainer.restore(*reader_of(runs()));
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.error().code, ErrorCode::kMismatch);
        problem = failure.error().message;
      }
    });
    return problem;
  }
  fs::path runs() const { return folder_ / "runs"; }
  static std::unique_ptr<checkpoint::Reader> reader_of(const fs::path& runs) {
    return or_throw(checkpoint::Reader::open(or_throw(checkpoint::find_latest(runs))));
  }

  fs::path folder_;
};

struct MemoryRows final : SparseEmbeddingImpl::Rows {
  void pull(std::span<const std::uint64_t> keys, std::span<float> rows) override {
    saved->look_up(keys, rows);
  }
  std::unique_ptr<server::SavedRows> saved;
};

TEST_F(SavedTablesTest, AModelWithTheRowsOfASnapshotComputesAsWithServers) {
  const at::Tensor expected = trained("home=server");
  // The folder of the training was moved.
  fs::rename(runs(), folder_ / "moved");
  const auto reader = reader_of(folder_ / "moved");
  EXPECT_EQ(row_snapshot_of(*reader).parent_path(), folder_ / "moved" / "snapshots");
  const SavedTables tables = or_throw(saved_tables(*reader));
  ASSERT_NE(tables.find("rows"), nullptr);
  EXPECT_EQ(tables.find("rows")->dimension, 4U);
  EXPECT_EQ(tables.find("last"), nullptr);
  MemoryRows rows;
  rows.saved = or_throw(tables.load("rows"));
  // No key above was trained, nor read before the snapshot.
  EXPECT_LT(rows.saved->keys().back(), std::uint64_t{kTrainedKeys});
  TableNet net = table_net();
  net->rows->attach(&rows);
  EXPECT_TRUE(load_weights(*net, *reader).is_complete());
  EXPECT_TRUE(at::equal(outputs_of(net), expected));
}

TEST_F(SavedTablesTest, RowsInAFileStartATrainingOnServers) {
  const at::Tensor expected = trained("home=server");
  const auto reader = reader_of(runs());
  const auto saved = or_throw(or_throw(saved_tables(*reader)).load("rows"));
  const std::vector<std::uint64_t> keys = saved->keys();
  std::vector<float> values(keys.size() * kDimension);
  saved->look_up(keys, values);
  const auto count = static_cast<std::int64_t>(keys.size());
  const fs::path file = folder_ / "rows.safetensors";
  or_throw(checkpoint::write_tensors(
      file,
      std::vector<checkpoint::TensorInfo>{
          {.name = "rows.keys", .type = DataType::kInt64, .shape = {count}},
          {.name = "rows.weight", .type = DataType::kFloat32, .shape = {count, kDimension}}},
      "pt", [&](const checkpoint::WriteRange& write) -> Result<void> {
        TALLY_TRY(write(0, 0, std::as_bytes(std::span(keys))));
        return write(1, 0, std::as_bytes(std::span(values)));
      }));
  const auto of_file = or_throw(checkpoint::Reader::open(file));
  const SavedTables tables = or_throw(saved_tables(*of_file));
  ASSERT_NE(tables.find("rows"), nullptr);
  at::Tensor started;
  run_threads(2, [&](Job& job) {
    TableNet net = table_net();
    EXPECT_EQ(load_weights(*net, *reader).loaded, 2U);
    Trainer trainer(job, *net, adagrad({.rate = 0.1}), {.plan = "home=server"});
    if (trainer.is_first())
      or_throw(tables.visit("rows", [&](auto some_keys, auto rows) -> Result<void> {
        trainer.assign_rows("rows", some_keys, rows);
        return {};
      }));
    trainer.sum({});
    if (job.rank() == 1) started = outputs_of(net);
    EXPECT_THROW(trainer.assign_rows("last", {}, {}), Failure);
    trainer.meet();
  });
  EXPECT_TRUE(at::equal(started, expected));
}

TEST_F(SavedTablesTest, ADamagedOrMissingSnapshotIsNamedWithTheRemedy) {
  trained("home=server");
  const auto reader = reader_of(runs());
  const fs::path snapshot = row_snapshot_of(*reader);
  const std::string rows_are_there = "; the rows of " + reader->path().string() + " are in this";
  fs::path file;
  for (const auto& entry : fs::directory_iterator(snapshot))
    if (entry.path().extension() == ".safetensors") file = entry.path();
  { std::ofstream(file, std::ios::app) << "x"; }
  const auto damaged = saved_tables(*reader);
  ASSERT_FALSE(damaged.has_value());
  EXPECT_THAT(damaged.error().message, HasSubstr(fmt::format("{}: expected", file.string())));
  EXPECT_THAT(damaged.error().message, HasSubstr(rows_are_there));
  EXPECT_THAT(damaged.error().message, HasSubstr("name another checkpoint"));
  // A host has the files of its own servers only.
  fs::remove(file);
  const auto incomplete = or_throw(saved_tables(*reader)).load("rows");
  ASSERT_FALSE(incomplete.has_value());
  EXPECT_THAT(incomplete.error().message, HasSubstr("not here: " + file.filename().string()));
  EXPECT_THAT(incomplete.error().message, HasSubstr("copy the files of all servers"));
  fs::remove_all(snapshot);
  const auto missing = saved_tables(*reader);
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message, HasSubstr((snapshot / "manifest.json").string()));
  EXPECT_THAT(missing.error().message, HasSubstr("copy it there, or to " + snapshot.string()));
}

TEST_F(SavedTablesTest, ACheckpointOfAnotherHomeIsRefusedWithTheRemedy) {
  trained("home=server");
  EXPECT_THAT(problem_of_restoring(""), HasSubstr("continue with home=server"));
  fs::remove_all(runs());
  trained("");
  EXPECT_THAT(problem_of_restoring("home=server"), HasSubstr("continue with home=group"));
}

}  // namespace
}  // namespace tally::adapter
