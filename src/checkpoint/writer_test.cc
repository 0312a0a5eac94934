// Jobs of 1 to 4 ranks save together; the tests read the checkpoint and compare it with the content
// of each rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <latch>
#include <mutex>

#include "base/errors.h"
#include "checkpoint/folder.h"
#include "checkpoint/test_content.h"
#include "collective/test_jobs.h"
#include "soon.h"

namespace tally::checkpoint {
namespace {

using collective::Network;
using collective::run_ranks;
using testing::HasSubstr;
using WriterSteps = std::vector<std::uint64_t>;

// The outcome of a save on each rank, ordered by rank.
class Outcomes {
 public:
  void add(Rank rank, const Result<void>& outcome) {
    const std::lock_guard lock(mutex_);
    if (outcomes_.size() <= static_cast<std::size_t>(rank))
      outcomes_.resize(static_cast<std::size_t>(rank) + 1);
    outcomes_[static_cast<std::size_t>(rank)] = outcome;
  }
  // The error, which must be the same on all ranks.
  Error common() const {
    for (const auto& outcome : outcomes_) {
      EXPECT_FALSE(outcome.has_value());
      if (outcome.has_value()) return {};
      EXPECT_EQ(to_string(outcome.error()), to_string(outcomes_[0].error()));
    }
    return outcomes_[0].error();
  }

 private:
  std::mutex mutex_;
  std::vector<Result<void>> outcomes_;
};

class Saving : public testing::TestWithParam<int> {
 protected:
  const TestFolder folder_;
};

TEST_P(Saving, GivesBackEveryByteAndKeepsTheNewest) {
  const int ranks = GetParam();
  run_ranks(Network::kInProcess, ranks, [&](Job& job) {
    auto writer = Writer::make(job.world(), {.folder = folder_.path() / "deep" / "er", .keep = 2});
    ASSERT_TRUE(writer.has_value()) << to_string(writer.error());
    for (const std::uint64_t step : {10, 20, 30}) {
      OwnedContent owned = test_content(job.rank(), ranks, step);
      ASSERT_TRUE((*writer)->save(owned.content).has_value());
      // The memory belongs to the caller again.
      for (auto& bytes : owned.memory) std::fill(bytes.begin(), bytes.end(), std::byte{0xEE});
    }
    const auto outcome = (*writer)->wait(soon());
    EXPECT_TRUE(outcome.has_value()) << to_string(outcome.error());
  });
  const auto folder = folder_.path() / "deep" / "er";
  EXPECT_EQ(list_steps(folder), (WriterSteps{20, 30}));
  expect_content(path_of(folder, 20), 20, ranks);
  expect_content(path_of(folder, 30), 30, ranks);
  EXPECT_EQ(*find_latest(folder), path_of(folder, 30));
}

// The bytes of pieces that come only after save() has returned.
class LateBytes final : public PendingBytes {
 public:
  explicit LateBytes(OwnedContent owned) : owned_(std::move(owned)) {
    for (auto& bytes : owned_.memory) {
      complete_.push_back(bytes);
      std::fill(bytes.begin(), bytes.end(), std::byte{0xEE});
    }
  }
  // The content that refers to the bytes.
  static Content content_of(const std::shared_ptr<LateBytes>& late) {
    Content content = late->owned_.content;
    for (auto* const pieces : {&content.model, &content.optimizer})
      for (Piece& piece : *pieces) piece.is_pending = true;
    content.pending = late;
    return content;
  }
  void arrive(Result<void> outcome = {}) {
    for (std::size_t i = 0; i < complete_.size(); ++i)
      std::copy(complete_[i].begin(), complete_[i].end(), owned_.memory[i].begin());
    outcome_ = std::move(outcome);
    arrived_.count_down();
  }
  Result<void> wait(Deadline /*by*/) const override {
    arrived_.wait();
    return outcome_;
  }

 private:
  OwnedContent owned_;
  std::vector<std::vector<std::byte>> complete_;
  Result<void> outcome_;
  mutable std::latch arrived_{1};
};

TEST_P(Saving, PendingPiecesAreWrittenWhenTheirBytesHaveCome) {
  const int ranks = GetParam();
  run_ranks(Network::kInProcess, ranks, [&](Job& job) {
    auto writer = Writer::make(job.world(), {.folder = folder_.path()});
    ASSERT_TRUE(writer.has_value()) << to_string(writer.error());
    auto late = std::make_shared<LateBytes>(test_content(job.rank(), ranks, 5));
    ASSERT_TRUE((*writer)->save(LateBytes::content_of(late)).has_value());
    late->arrive();
    const auto outcome = (*writer)->wait(soon());
    EXPECT_TRUE(outcome.has_value()) << to_string(outcome.error());
    EXPECT_EQ(late.use_count(), 1);  // the writer has given them up
  });
  expect_content(path_of(folder_.path(), 5), 5, ranks);
}

TEST_P(Saving, PendingPiecesThatDoNotComeFailTheSaveOfAllRanks) {
  const int ranks = GetParam();
  run_ranks(Network::kInProcess, ranks, [&](Job& job) {
    auto writer = Writer::make(job.world(), {.folder = folder_.path()});
    ASSERT_TRUE(writer.has_value()) << to_string(writer.error());
    auto late = std::make_shared<LateBytes>(test_content(job.rank(), ranks, 5));
    ASSERT_TRUE((*writer)->save(LateBytes::content_of(late)).has_value());
    const bool fails = job.rank() == ranks - 1;
    late->arrive(fails ? Result<void>(system_failure("Xid 79")) : Result<void>());
    const auto outcome = (*writer)->wait(soon());
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code, ErrorCode::kSystem);
    EXPECT_THAT(outcome.error().message, testing::HasSubstr("Xid 79"));
    EXPECT_TRUE((*writer)->save(test_content(job.rank(), ranks, 6).content).has_value());
    EXPECT_TRUE((*writer)->wait(soon()).has_value());
  });
  EXPECT_EQ(list_steps(folder_.path()), WriterSteps{6});
}

// A restart of the job before its first save must not find the checkpoints of an abandoned run.
TEST_P(Saving, CheckpointsBeyondTheFirstStepAreSetAsideBeforeTheFirstSave) {
  for (const std::uint64_t step : {10, 20, 30})
    std::filesystem::create_directories(path_of(folder_.path(), step));
  run_ranks(Network::kInProcess, GetParam(), [&](Job& job) {
    const auto writer = Writer::make(job.world(), {.folder = folder_.path(), .begin_step = 10});
    EXPECT_TRUE(writer.has_value()) << to_string(writer.error());
  });
  EXPECT_EQ(list_steps(folder_.path()), (WriterSteps{10}));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "old-step-0000000030"));
}

// A job that is restarted knows by its name whether it has begun to write.
TEST_P(Saving, AWriterLeavesTheNameOfItsRun) {
  EXPECT_EQ(last_run(folder_.path()), "");
  for (const char* const run : {"first", "second", "second"}) {
    run_ranks(Network::kInProcess, GetParam(), [&](Job& job) {
      const auto writer =
          Writer::make(job.world(), {.folder = folder_.path(), .begin_step = 0, .run = run});
      EXPECT_TRUE(writer.has_value()) << to_string(writer.error());
    });
    EXPECT_EQ(last_run(folder_.path()), run);
  }
}

TEST_P(Saving, DestroyedWriterHasFinishedItsSave) {
  const int ranks = GetParam();
  run_ranks(Network::kInProcess, ranks, [&](Job& job) {
    auto writer = Writer::make(job.world(), {.folder = folder_.path()});
    ASSERT_TRUE(writer.has_value()) << to_string(writer.error());
    EXPECT_TRUE((*writer)->save(test_content(job.rank(), ranks, 1).content).has_value());
  });
  expect_content(path_of(folder_.path(), 1), 1, ranks);
}

// Any number of ranks can read any range.
TEST_P(Saving, AnyRangeOfATensorCanBeRead) {
  const int ranks = GetParam();
  run_ranks(Network::kInProcess, ranks, [&](Job& job) {
    auto writer = Writer::make(job.world(), {.folder = folder_.path()});
    ASSERT_TRUE(writer.has_value()) << to_string(writer.error());
    EXPECT_TRUE((*writer)->save(test_content(job.rank(), ranks, 1).content).has_value());
  });
  const auto reader = Reader::open(path_of(folder_.path(), 1));
  ASSERT_TRUE(reader.has_value()) << to_string(reader.error());
  const TensorInfo tensor = test_state_tensors()[1];
  const std::vector<std::byte> all = bytes_of(tensor, 1);
  for (std::size_t first = 0; first <= 60; ++first) {
    for (std::size_t count = 0; first + count <= 60; count += 7) {
      std::vector<std::byte> bytes(4 * count);
      ASSERT_TRUE((*reader)->read_state(tensor.name, first, bytes).has_value());
      ASSERT_TRUE(
          std::equal(bytes.begin(), bytes.end(), all.begin() + static_cast<long>(4 * first)))
          << count << " from " << first;
    }
  }
  std::vector<std::byte> bytes(8);
  EXPECT_EQ((*reader)->read_state(tensor.name, 59, bytes).error().code, ErrorCode::kInvalid);
  EXPECT_EQ((*reader)->read_state(tensor.name, ~0ULL, bytes).error().code, ErrorCode::kInvalid);
  EXPECT_EQ((*reader)->read_state(tensor.name, 0, std::span(bytes).first(3)).error().code,
            ErrorCode::kInvalid);
  EXPECT_EQ((*reader)->read("nobody", 0, bytes).error().code, ErrorCode::kInvalid);
  EXPECT_EQ((*reader)->rank_state(ranks).error().code, ErrorCode::kInvalid);
}

INSTANTIATE_TEST_SUITE_P(Writer, Saving, testing::Values(1, 2, 3, 4),
                         [](const auto& tested) { return "Ranks" + std::to_string(tested.param); });

class TwoRanks : public testing::Test {
 protected:
  // Saves step 1 after `change`, and then step 2 unchanged, which must succeed. Returns the error
  // of step 1.
  Error save_changed(const std::function<void(Rank, OwnedContent&)>& change) {
    Outcomes outcomes;
    run_ranks(Network::kInProcess, 2, [&](Job& job) {
      auto writer = Writer::make(job.world(), {.folder = folder_.path()});
      ASSERT_TRUE(writer.has_value()) << to_string(writer.error());
      OwnedContent changed = test_content(job.rank(), 2, 1);
      change(job.rank(), changed);
      EXPECT_TRUE((*writer)->save(changed.content).has_value());
      outcomes.add(job.rank(), (*writer)->wait(soon()));
      EXPECT_TRUE((*writer)->save(test_content(job.rank(), 2, 2).content).has_value());
      const auto second = (*writer)->wait(soon());
      EXPECT_TRUE(second.has_value()) << to_string(second.error());
    });
    EXPECT_EQ(list_steps(folder_.path()), (WriterSteps{2}));
    EXPECT_FALSE(std::filesystem::exists(part_of(folder_.path(), 1)));
    return outcomes.common();
  }

  const TestFolder folder_;
};

TEST_F(TwoRanks, GapIsNamedOnAllRanks) {
  const Error error = save_changed([](Rank rank, OwnedContent& owned) {
    if (rank == 1) owned.content.model.erase(owned.content.model.begin());
  });
  EXPECT_EQ(error.code, ErrorCode::kInvalid);
  EXPECT_EQ(error.message, "tensor conv.weight: no rank has elements 15 to 29 of 60");
}

TEST_F(TwoRanks, OverlapIsNamedOnAllRanks) {
  const Error error = save_changed([](Rank rank, OwnedContent& owned) {
    if (rank == 1) owned.content.optimizer[2].first -= 2;
  });
  EXPECT_EQ(error.code, ErrorCode::kInvalid);
  EXPECT_THAT(error.message, HasSubstr("conv.weight/exp_avg_sq: rank 0 and rank 1 both have"));
}

TEST_F(TwoRanks, OtherStepIsNamedOnAllRanks) {
  const Error error = save_changed([](Rank rank, OwnedContent& owned) {
    if (rank == 1) owned.content.step = 7;
  });
  EXPECT_EQ(error.code, ErrorCode::kMismatch);
  EXPECT_EQ(error.message, "rank 1: saves step 7, and rank 0 saves step 1");
}

TEST_F(TwoRanks, OtherTensorsAreNamedOnAllRanks) {
  const Error error = save_changed([](Rank rank, OwnedContent& owned) {
    if (rank == 1) owned.content.tensors[0].shape = {60};
  });
  EXPECT_EQ(error.code, ErrorCode::kMismatch);
  EXPECT_EQ(error.peer, 1);
}

TEST_F(TwoRanks, StateThatIsNoObjectIsRefused) {
  const Error error = save_changed([](Rank, OwnedContent& owned) { owned.content.state = "[1]"; });
  EXPECT_EQ(error.message, "rank 0: the state is no JSON object");
}

TEST_F(TwoRanks, PieceOfHalfAnElementIsRefused) {
  const Error error = save_changed([](Rank rank, OwnedContent& owned) {
    auto& bytes = owned.content.model[0].bytes;
    if (rank == 1) bytes = bytes.first(bytes.size() - 1);
  });
  EXPECT_THAT(error.message, HasSubstr("rank 1: tensor conv.weight: a piece of 59 bytes"));
}

TEST_F(TwoRanks, FailureThatNobodyAskedForComesWithTheNextSave) {
  run_ranks(Network::kInProcess, 2, [&](Job& job) {
    auto writer = Writer::make(job.world(), {.folder = folder_.path()});
    ASSERT_TRUE(writer.has_value()) << to_string(writer.error());
    OwnedContent bad = test_content(job.rank(), 2, 1);
    bad.content.model.clear();
    EXPECT_TRUE((*writer)->save(bad.content).has_value());
    const auto second = (*writer)->save(test_content(job.rank(), 2, 2).content);
    EXPECT_EQ(second.error().code, ErrorCode::kInvalid);
    EXPECT_TRUE((*writer)->wait(soon()).has_value());
  });
  expect_content(path_of(folder_.path(), 2), 2, 2);
}

// Limits the size of a file, so that writing fails as on a full disk.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit low{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &low);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
};

TEST_F(TwoRanks, DiskThatFillsUpLeavesThePreviousCheckpointAndTheNextIsWritten) {
  Outcomes outcomes;
  std::unique_ptr<FileLimit> limit;
  run_ranks(Network::kInProcess, 2, [&](Job& job) {
    auto writer = Writer::make(job.world(), {.folder = folder_.path()});
    ASSERT_TRUE(writer.has_value()) << to_string(writer.error());
    const auto save = [&](std::uint64_t step, std::size_t more) {
      OwnedContent owned = test_content(job.rank(), 2, step);
      if (job.rank() == 1) owned.content.rank_state += std::string(more, 'x');
      EXPECT_TRUE((*writer)->save(owned.content).has_value());
      const auto outcome = (*writer)->wait(soon());
      EXPECT_TRUE(job.world().barrier().has_value());
      return outcome;
    };
    EXPECT_TRUE(save(1, 0).has_value());
    if (job.rank() == 0) limit = std::make_unique<FileLimit>(20'000);
    EXPECT_TRUE(job.world().barrier().has_value());
    outcomes.add(job.rank(), save(2, 40'000));
    if (job.rank() == 0) limit.reset();
    EXPECT_TRUE(job.world().barrier().has_value());
    EXPECT_EQ(list_steps(folder_.path()), (WriterSteps{1}));
    EXPECT_TRUE(job.world().barrier().has_value());
    EXPECT_TRUE(save(3, 0).has_value());
  });
  const Error error = outcomes.common();
  EXPECT_EQ(error.code, ErrorCode::kSystem);
  EXPECT_EQ(error.peer, 1);
  EXPECT_EQ(error.message,
            fmt::format("rank 1: {}/.step-0000000002.part/optimizer-00001-of-00002.safetensors: "
                        "cannot be written: File too large",
                        folder_.path().string()));
  expect_content(path_of(folder_.path(), 1), 1, 2);
  expect_content(path_of(folder_.path(), 3), 3, 2);
  EXPECT_FALSE(std::filesystem::exists(part_of(folder_.path(), 2)));
}

TEST_F(TwoRanks, SecondJobInTheSameFolderIsRefusedOnAllRanks) {
  const auto lock = FolderLock::take(folder_.path());
  ASSERT_TRUE(lock.has_value());
  Outcomes outcomes;
  run_ranks(Network::kInProcess, 2, [&](Job& job) {
    const auto writer = Writer::make(job.world(), {.folder = folder_.path()});
    outcomes.add(job.rank(), writer.has_value() ? Result<void>() : writer.error());
  });
  EXPECT_EQ(outcomes.common().code, ErrorCode::kRefused);
  EXPECT_THAT(outcomes.common().message, HasSubstr("another job writes its checkpoints to"));
}

TEST_F(TwoRanks, FolderThatARankSeesOtherwiseIsRefusedOnAllRanks) {
  Outcomes outcomes;
  run_ranks(Network::kInProcess, 2, [&](Job& job) {
    const auto own = folder_.path() / std::to_string(job.rank());
    std::filesystem::create_directory(own);
    const auto writer = Writer::make(job.world(), {.folder = own});
    outcomes.add(job.rank(), writer.has_value() ? Result<void>() : writer.error());
  });
  EXPECT_EQ(outcomes.common().peer, 1);
  EXPECT_THAT(outcomes.common().message, HasSubstr("file system that all ranks share"));
}

TEST_F(TwoRanks, FolderThatCannotBeMadeIsRefusedOnAllRanks) {
  std::ofstream(folder_.path() / "file") << "in the way";
  Outcomes outcomes;
  run_ranks(Network::kInProcess, 2, [&](Job& job) {
    const auto writer = Writer::make(job.world(), {.folder = folder_.path() / "file" / "deeper"});
    outcomes.add(job.rank(), writer.has_value() ? Result<void>() : writer.error());
  });
  EXPECT_EQ(outcomes.common().code, ErrorCode::kSystem);
  EXPECT_THAT(outcomes.common().message, HasSubstr("Not a directory"));
}

TEST_F(TwoRanks, LeftoversOfAKilledWriterAreRemovedByTheNextSave) {
  std::filesystem::create_directories(part_of(folder_.path(), 5) / "deep");
  run_ranks(Network::kInProcess, 2, [&](Job& job) {
    auto writer = Writer::make(job.world(), {.folder = folder_.path()});
    ASSERT_TRUE(writer.has_value()) << to_string(writer.error());
    EXPECT_TRUE((*writer)->save(test_content(job.rank(), 2, 5).content).has_value());
  });
  EXPECT_FALSE(std::filesystem::exists(part_of(folder_.path(), 5)));
  expect_content(path_of(folder_.path(), 5), 5, 2);
}

// A second save of the same step, as after resuming an older checkpoint, replaces the first.
TEST_F(TwoRanks, SameStepIsReplaced) {
  for (const bool again : {false, true}) {
    run_ranks(Network::kInProcess, 2, [&](Job& job) {
      auto writer = Writer::make(job.world(), {.folder = folder_.path()});
      ASSERT_TRUE(writer.has_value()) << to_string(writer.error());
      OwnedContent owned = test_content(job.rank(), 2, 5);
      if (!again) owned.content.rank_state = "older";
      EXPECT_TRUE((*writer)->save(owned.content).has_value());
    });
  }
  expect_content(path_of(folder_.path(), 5), 5, 2);
}

// Over real transports, the background thread and the training use two communicators at the same
// time.
TEST(WriterBesideTraining, CollectivesGoOnWhileItWrites) {
  for (const Network network : {Network::kShm, Network::kTcp}) {
    const TestFolder folder;
    run_ranks(network, 3, [&](Job& job) {
      auto writer = Writer::make(job.world(), {.folder = folder.path()});
      ASSERT_TRUE(writer.has_value()) << to_string(writer.error());
      for (std::uint64_t step = 1; step <= 5; ++step) {
        EXPECT_TRUE((*writer)->save(test_content(job.rank(), 3, step).content).has_value());
        for (int round = 0; round < 20; ++round) {
          std::vector<float> values(1000, static_cast<float>(job.rank() + round));
          ASSERT_TRUE(job.world().allreduce(std::span(values)).has_value());
          ASSERT_EQ(values[999], static_cast<float>(3 + 3 * round));
        }
      }
      EXPECT_TRUE((*writer)->wait(soon()).has_value());
    });
    expect_content(path_of(folder.path(), 5), 5, 3);
  }
}

}  // namespace
}  // namespace tally::checkpoint
