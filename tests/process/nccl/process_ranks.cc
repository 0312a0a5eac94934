// The tests of adapters/nccl on a real GPU. `tally run` starts this program; each process is one
// rank and runs all tests, in step with the others.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "adapters/nccl/test_ranks.h"
#include "soon.h"

namespace tally::nccl {
namespace {

struct Process {
  SharedBuffer memory;
  std::unique_ptr<Job> job;
  std::span<std::byte> counters;  // in memory of rank 0 that all ranks see
  std::size_t used = 0;           // counters
};
Process& process() {
  static Process all;
  return all;
}

constexpr std::size_t kCounters = 1024;

Result<void> join() {
  Process& self = process();
  TALLY_TRY(self.job, Job::join());
  Communicator& world = self.job->world();
  TALLY_TRY(self.memory, world.allocate(kCounters * sizeof(std::atomic<int>)));
  TALLY_TRY(const auto views, world.share(self.memory, soon()));
  self.counters = views.front();
  if (self.counters.empty())
    return Error{.code = ErrorCode::kInvalid, .message = "the ranks share no memory"};
  return {};
}

// Rank 0 prints the progress of the tests; the other ranks print failures only.
class FailurePrinter final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* const file = result.file_name() == nullptr ? "?" : result.file_name();
    fmt::print(stderr, "{}:{}: {}\n", file, result.line_number(), result.message());
  }
};

int run_all(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  leave_out_tests();
  if (process().job->rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  const int failed = RUN_ALL_TESTS();
  process() = {};
  return failed;
}

}  // namespace

std::vector<int> rank_counts() { return {process().job->size()}; }

void on_ranks(int ranks, const std::function<void(const TestRank&)>& body) {
  Communicator& world = process().job->world();
  ASSERT_EQ(ranks, world.size());
  body({.control = world});
  const Result<void> met = world.barrier({.by = soon()});
  ASSERT_TRUE(met.has_value()) << to_string(met.error());
}

std::atomic<int>& new_counter() {
  Process& self = process();
  const std::size_t index = self.used++;
  EXPECT_LT(index, kCounters);
  return reinterpret_cast<std::atomic<int>*>(self.counters.data())[index];
}

}  // namespace tally::nccl

int main(int argc, char** argv) {
  const char* const rank = std::getenv("RANK");
  setenv("NCCL_HOSTID", fmt::format("host-{}", rank != nullptr ? rank : "0").c_str(), 1);
  const auto joined = tally::nccl::join();
  if (!joined.has_value()) {
    fmt::print(stderr, "{}\n", to_string(joined.error()));
    return 1;
  }
  return tally::nccl::run_all(argc, argv);
}
