#include <chrono>
#include <latch>

#include <gtest/gtest.h>

#include "collective/test_jobs.h"
#include "soon.h"

namespace tally::collective {
namespace {

// A checkpoint may still be written when a program closes its job: the writer has a communicator of
// its own, and would wait until its deadline for a rank whose frames no longer arrive.
TEST(JobClose, EndsTheOperationsOfAllItsCommunicators) {
  for (const Network network : {Network::kInProcess, Network::kShm, Network::kTcp}) {
    std::latch done(1);
    run_ranks(network, 2, [&](Job& job) {
      const auto part = job.world().split(0, job.rank(), soon());
      ASSERT_TRUE(part.has_value());
      if (job.rank() == 1) return done.wait();
      job.close();
      const auto outcome = (*part)->barrier({.by = Deadline::after(std::chrono::minutes(1))});
      done.count_down();
      ASSERT_FALSE(outcome.has_value());
      EXPECT_EQ(outcome.error().code, ErrorCode::kClosed) << name_of(network);
    });
  }
}

}  // namespace
}  // namespace tally::collective
