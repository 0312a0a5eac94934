#include <deque>
#include <thread>

#include <gtest/gtest.h>

#include "adapters/nccl/test_ranks.h"

// Tests over the emulations: each rank is a thread.
namespace tally::nccl {

std::vector<int> rank_counts() { return {1, 2, 4}; }

void on_ranks(int ranks, const std::function<void(const TestRank&)>& body) {
  auto jobs = Job::in_process(ranks);
  ASSERT_TRUE(jobs.has_value()) << to_string(jobs.error());
  std::vector<std::thread> threads;
  for (const auto& job : *jobs)
    threads.emplace_back([&body, &job] { body({.control = job->world()}); });
  for (std::thread& thread : threads) thread.join();
}

std::atomic<int>& new_counter() {
  static std::deque<std::atomic<int>> counters;
  return counters.emplace_back(0);
}

}  // namespace tally::nccl

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  tally::nccl::leave_out_tests();
  return RUN_ALL_TESTS();
}
