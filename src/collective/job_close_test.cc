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
      const Request barrier{.by = Deadline::after(std::chrono::minutes(1))};
      const auto started = (*part)->start(barrier).wait();
      const auto outcome = (*part)->run(barrier);
      done.count_down();
      ASSERT_FALSE(started.has_value());
      EXPECT_EQ(started.error().code, ErrorCode::kClosed) << name_of(network);
      ASSERT_FALSE(outcome.has_value());
      EXPECT_EQ(outcome.error().code, ErrorCode::kClosed) << name_of(network);
    });
  }
}

}  // namespace
}  // namespace tally::collective
