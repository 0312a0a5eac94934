#pragma once
// For tests: ranks with a GPU each. Two programs define on_ranks() and run the same tests: ranks
// are threads with emulated GPUs (emulation/thread_ranks_test.cc), or processes that share a real
// one (tests/process/nccl/process_ranks.cc).
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adapters/cuda/cuda_device.h"
#include "tally/job.h"

namespace tally::nccl {

struct TestRank {
  Communicator& control;
  int gpu = 0;

  // The device of the rank; null, and a failed test, if it cannot be opened.
  std::unique_ptr<cuda::CudaDevice> open_device() const {
    auto opened = cuda::CudaDevice::open(gpu);
    EXPECT_TRUE(opened.has_value()) << to_string(opened.error());
    return opened.has_value() ? std::move(*opened) : nullptr;
  }
};

// The numbers of ranks that tests run with in this program.
std::vector<int> rank_counts();
// Runs `body` on each rank. All ranks have ended when it returns.
void on_ranks(int ranks, const std::function<void(const TestRank&)>& body);
// A counter that all ranks see, zero at first. Tests ask for theirs before on_ranks().
std::atomic<int>& new_counter();

// Leaves out the tests of the conformance suite that NCCL cannot pass: Tally does not see what NCCL
// sends, and NCCL chooses the algorithm itself. Call it after InitGoogleTest().
inline void leave_out_tests() {
  std::string filter = testing::GTEST_FLAG(filter);
  filter += filter.find('-') == std::string::npos ? "-" : ":";
  testing::GTEST_FLAG(filter) = filter + "*/NcclConformance.TrafficMatchesTheFormulas/*";
}

}  // namespace tally::nccl
