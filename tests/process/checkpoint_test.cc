// Checkpoints of processes that are killed at any moment, and a reader in another language.
#include <csignal>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "process/checkpoint_content.h"
#include "process/crew.h"
#include "tally/checkpoint.h"

namespace tally::process {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 2;

std::unique_ptr<Child> start_worker(Rank rank, std::uint16_t port,
                                    const std::vector<std::string>& words) {
  std::vector<std::string> command{TALLY_CHECKPOINT_WORKER};
  command.insert(command.end(), words.begin(), words.end());
  return std::make_unique<Child>(Child::Options{command,
                                                {{"RANK", std::to_string(rank)},
                                                 {"WORLD_SIZE", std::to_string(kRanks)},
                                                 {"MASTER_ADDR", "127.0.0.1"},
                                                 {"MASTER_PORT", std::to_string(port)},
                                                 {"TALLY_TIMEOUT", kNever},
                                                 {"TALLY_JOIN_TIMEOUT", kNever}}});
}

std::vector<std::unique_ptr<Child>> start_workers(const std::vector<std::string>& words) {
  std::vector<std::unique_ptr<Child>> workers;
  const std::uint16_t port = unused_port();
  for (Rank rank = 0; rank < kRanks; ++rank) workers.push_back(start_worker(rank, port, words));
  return workers;
}

// Expects the checkpoint to contain every value that the workers saved.
void expect_whole(const fs::path& path, std::uint64_t step, std::int64_t rows) {
  const auto reader = checkpoint::Reader::open(path);
  ASSERT_TRUE(reader.has_value()) << to_string(reader.error());
  const auto verified = (*reader)->verify();
  ASSERT_TRUE(verified.has_value()) << to_string(verified.error());
  ASSERT_EQ((*reader)->step(), step);
  ASSERT_EQ((*reader)->tensors(), model_tensors(rows));
  ASSERT_EQ((*reader)->state_tensors(), optimizer_tensors(rows));
  const auto compare = [&](const std::vector<float>& values, std::size_t tensor) {
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], value_at(step, tensor, i)) << tensor << " at " << i;
  };
  for (std::size_t index = 0; index < model_tensors(rows).size(); ++index) {
    const auto tensor = model_tensors(rows)[index];
    std::vector<float> values(elements_of(tensor));
    const auto bytes = std::as_writable_bytes(std::span(values));
    ASSERT_TRUE((*reader)->read(tensor.name, 0, bytes).has_value());
    compare(values, index);
  }
  std::vector<float> values(elements_of(optimizer_tensors(rows)[0]));
  const auto bytes = std::as_writable_bytes(std::span(values));
  ASSERT_TRUE((*reader)->read_state("fc.weight/momentum", 0, bytes).has_value());
  compare(values, 0);
}

// The last step that a worker has reported as whole.
std::uint64_t last_told(Child& worker) {
  worker.wait_status();
  const std::size_t at = worker.output().rfind("whole ");
  return at == std::string::npos ? 0 : std::stoull(worker.output().substr(at + 6));
}

// Kills two workers that only save, at a random moment after their first checkpoint. Returns the
// step of the newest checkpoint.
std::uint64_t kill_while_saving(const fs::path& folder, std::uint64_t first, std::int64_t rows,
                                Rng& rng) {
  auto workers = start_workers({folder.string(), std::to_string(first),
                                std::to_string(first + 100'000), std::to_string(rows)});
  EXPECT_TRUE(workers[0]->line("whole")) << workers[0]->transcript();
  std::this_thread::sleep_for(std::chrono::microseconds(rng.below(60'000)));
  const std::size_t victim = rng.below(kRanks);
  workers[victim]->signal(SIGKILL);
  // In half of the runs the other worker lives on for a while and notices the loss.
  if (rng.below(2) == 0) std::this_thread::sleep_for(std::chrono::microseconds(rng.below(30'000)));
  workers[1 - victim]->signal(SIGKILL);
  const std::uint64_t told = std::max(last_told(*workers[0]), last_told(*workers[1]));
  const auto latest = checkpoint::find_latest(folder);
  EXPECT_TRUE(latest.has_value()) << to_string(latest.error());
  const std::vector<std::uint64_t> steps = checkpoint::list_steps(folder);
  EXPECT_FALSE(steps.empty());
  if (steps.empty()) return first;
  EXPECT_GE(steps.back(), told);
  for (const std::uint64_t step : steps)
    expect_whole(checkpoint::path_of(folder, step), step, rows);
  // Two are kept; a third one may not have been removed yet.
  EXPECT_LE(steps.size(), 3U);
  return steps.back();
}

TEST(Checkpoint, AllThatHaveTheirFinalNameAreWholeAfterAKillAtAnyMoment) {
  constexpr std::uint64_t kSeed = 20;
  constexpr int kRounds = 30;
  // How many kills hit a save depends on the machine's speed: more rounds follow until enough did.
  constexpr int kMostRounds = 20 * kRounds;
  constexpr int kInterrupted = kRounds / 3;
  constexpr std::int64_t kRows = 3000;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  const Folder folder;
  Rng rng(kSeed);
  std::uint64_t newest = 0;
  int interrupted = 0;
  for (int round = 0; round < kRounds || (interrupted < kInterrupted && round < kMostRounds);
       ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    const std::uint64_t before = newest;
    newest = kill_while_saving(folder.path(), newest + 1, kRows, rng);
    EXPECT_GT(newest, before);
    for (const auto& entry : fs::directory_iterator(folder.path()))
      if (entry.path().extension() == ".part") ++interrupted;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(interrupted, kInterrupted);
}

// The reader knows the format only from its description.
TEST(Checkpoint, PythonReadsTheModel) {
  constexpr std::int64_t kRows = 5;
  const Folder folder;
  for (auto& worker : start_workers({folder.path(), "3", "3", std::to_string(kRows)}))
    ASSERT_TRUE(worker->exits(0)) << worker->transcript();
  const fs::path file = checkpoint::path_of(folder.path(), 3) / "model.safetensors";
  Child python(
      {{"/usr/bin/env", "python3", TALLY_TESTS_FOLDER "/read_safetensors.py", file.string()}, {}});
  ASSERT_TRUE(python.exits(0)) << python.transcript();
  std::string expected;
  for (std::size_t index = 0; index < model_tensors(kRows).size(); ++index) {
    const auto tensor = model_tensors(kRows)[index];
    expected += index == 0 ? "fc.weight F32 [5, 64]" : "fc.bias F32 [5]";
    for (std::uint64_t i = 0; i < elements_of(tensor); ++i)
      expected += fmt::format(" {:.10f}", value_at(3, index, i));
    expected += "\n";
  }
  EXPECT_EQ(python.output(), expected);
}

TEST(Checkpoint, InspectShowsAWholeOneAndFailsForADamagedOne) {
  const Folder folder;
  for (auto& worker : start_workers({folder.path(), "3", "4", "5"}))
    ASSERT_TRUE(worker->exits(0)) << worker->transcript();
  const auto inspect = [&](const std::string& path, const std::vector<std::string>& more = {}) {
    std::vector<std::string> command{TALLY_PROGRAM, "inspect", "checkpoint", path};
    command.insert(command.end(), more.begin(), more.end());
    return std::make_unique<Child>(Child::Options{command, {}});
  };
  const auto whole = inspect(folder.path());
  EXPECT_TRUE(whole->exits(0)) << whole->transcript();
  for (const char* part : {"step-0000000004: whole\n", "step 4, written by 2 ranks\n",
                           "position.epoch: 0\nposition.samples: 256\n", "fc.weight/momentum"})
    EXPECT_THAT(whole->output(), testing::HasSubstr(part));
  const auto json = inspect(folder.path(), {"--json"});
  EXPECT_TRUE(json->exits(0)) << json->transcript();
  EXPECT_THAT(json->output(), testing::HasSubstr("\"whole\":true"));

  const fs::path newest = checkpoint::path_of(folder.path(), 4);
  fs::resize_file(newest / "state.json", 5);
  const auto damaged = inspect(folder.path());
  EXPECT_TRUE(damaged->exits(1)) << damaged->transcript();
  EXPECT_THAT(damaged->output(), testing::HasSubstr("state.json: expected 69 bytes, found 5"));
  EXPECT_THAT(damaged->errors(), testing::HasSubstr("--resume=3"));
  const auto older = inspect(checkpoint::path_of(folder.path(), 3).string() + "/");
  EXPECT_TRUE(older->exits(0)) << older->transcript();
  const auto none = inspect("/proc/self");
  EXPECT_TRUE(none->exits(1)) << none->transcript();
  EXPECT_TRUE(none->complains("no checkpoint in /proc/self"));
}

}  // namespace
}  // namespace tally::process
