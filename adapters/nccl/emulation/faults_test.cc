#include "adapters/nccl/emulation/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <optional>
#include <string>
#include <vector>

#include "adapters/cuda/emulation/failed_gpu.h"
#include "adapters/nccl/nccl_communicator.h"
#include "adapters/nccl/nccl_library.h"
#include "adapters/nccl/nccl_sum.h"
#include "adapters/nccl/test_ranks.h"
#include "base/clock.h"
#include "base/errors.h"
#include "collective/test_jobs.h"
#include "soon.h"

// Failures of NCCL and of ranks, over the emulation.
namespace tally::nccl::emulation {
namespace {

using collective::Network;
using collective::run_ranks;
using testing::HasSubstr;

constexpr std::size_t kCount = 1000;

Deadline short_deadline() { return Deadline::after(std::chrono::milliseconds(300)); }

Result<void> sum_of(Communicator& world, Deadline by) {
  TALLY_TRY(const SharedBuffer memory, world.allocate(kCount * sizeof(float)));
  return world.allreduce(memory.as<float>(), ReduceOp::kSum, {.by = by});
}

// A new communicator, and a sum of all ranks.
Result<void> sum_anew(Communicator& control, Deadline by = soon()) {
  TALLY_TRY(const auto world, NcclCommunicator::make(control, 0, by));
  return sum_of(*world, by);
}

class NcclFaults : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(open_communicators(), 0); }
};

// Rank 1 returns its own error; to the others rank 1 is lost.
void expect_failure_of_rank_1(const Error& error, Rank rank, const std::string& text) {
  EXPECT_EQ(error.code, rank == 1 ? ErrorCode::kSystem : ErrorCode::kPeerLost) << to_string(error);
  EXPECT_EQ(error.peer, 1) << to_string(error);
  EXPECT_THAT(error.message, HasSubstr(rank == 1 ? text : "rank 1: " + text));
}

// All ranks have failed, and have given their communicators up before these are destroyed.
void expect_aborted(std::latch& failed, std::latch& looked) {
  failed.arrive_and_wait();
  EXPECT_EQ(open_communicators(), 0);
  looked.arrive_and_wait();
}

TEST_F(NcclFaults, AnOldNcclIsRefusedWithTheVersions) {
  const ScopedFault fault(Fault::kOldVersion);
  const auto loaded = load_nccl("");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(loaded.error().message, HasSubstr("NCCL 2.17.1 is too old, Tally needs 2.18.0"));
}

TEST_F(NcclFaults, AllRanksLearnThatRank0CannotListen) {
  const ScopedFault fault(Fault::kUniqueId);
  on_ranks(3, [](const TestRank& rank) {
    const Result<void> outcome = sum_anew(rank.control);
    ASSERT_FALSE(outcome.has_value());
    const bool is_own = rank.control.rank() == 0;
    EXPECT_EQ(outcome.error().code, is_own ? ErrorCode::kSystem : ErrorCode::kPeerLost);
    EXPECT_EQ(outcome.error().peer, 0);
    EXPECT_THAT(outcome.error().message, HasSubstr("rank 0: NCCL cannot listen for other ranks"));
    EXPECT_THAT(outcome.error().message, HasSubstr("NCCL_SOCKET_IFNAME"));
  });
}

TEST_F(NcclFaults, ARankThatCannotConnectFailsAllRanksAndTheyCanTryAgain) {
  std::latch failed(3);
  auto fault = std::make_unique<ScopedFault>(Fault::kConnect, 1);
  on_ranks(3, [&](const TestRank& rank) {
    const Result<void> outcome = sum_anew(rank.control);
    ASSERT_FALSE(outcome.has_value());
    EXPECT_THAT(outcome.error().message, HasSubstr("connecting by NCCL: "));
    expect_failure_of_rank_1(outcome.error(), rank.control.rank(), "NCCL: unhandled system");
    failed.arrive_and_wait();
    if (rank.control.rank() == 0) fault.reset();
    ASSERT_TRUE(rank.control.barrier().has_value());
    EXPECT_TRUE(sum_anew(rank.control).has_value());
  });
}

// NCCL says nothing, and the deadline of the connection passes. The ranks can still agree.
TEST_F(NcclFaults, AConnectionThatHangsNamesTheRemediesAndTheRanksCanTryAgain) {
  std::latch failed(3);
  auto fault = std::make_unique<ScopedFault>(Fault::kNoAnswer, 1);
  on_ranks(3, [&](const TestRank& rank) {
    const Result<void> outcome = sum_anew(rank.control, Deadline::after(std::chrono::seconds(5)));
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout) << to_string(outcome.error());
    EXPECT_THAT(outcome.error().message, HasSubstr("NCCL_SOCKET_IFNAME"));
    EXPECT_THAT(outcome.error().message, HasSubstr("NCCL_DEBUG=INFO"));
    failed.arrive_and_wait();
    if (rank.control.rank() == 0) fault.reset();
    ASSERT_TRUE(rank.control.barrier({.by = soon()}).has_value());
    EXPECT_TRUE(sum_anew(rank.control).has_value());
  });
}

// An operation that NCCL refuses at once, or fails later, on one rank.
class NcclErrors : public NcclFaults, public testing::WithParamInterface<Fault> {};

TEST_P(NcclErrors, EndTheOperationOnAllRanksAndTheyCanGoOnWithANewCommunicator) {
  std::unique_ptr<ScopedFault> fault;
  std::latch failed(3);
  std::latch looked(3);
  on_ranks(3, [&](const TestRank& rank) {
    {
      auto world = NcclCommunicator::make(rank.control, rank.gpu, soon());
      ASSERT_TRUE(world.has_value()) << to_string(world.error());
      EXPECT_TRUE(sum_of(**world, soon()).has_value());
      if (rank.control.rank() == 0) fault = std::make_unique<ScopedFault>(GetParam(), 1);
      ASSERT_TRUE(rank.control.barrier().has_value());
      const Result<void> outcome = sum_of(**world, soon());
      ASSERT_FALSE(outcome.has_value());
      expect_failure_of_rank_1(outcome.error(), rank.control.rank(), "NCCL: unhandled system");
      EXPECT_THAT(outcome.error().message, HasSubstr("set NCCL_DEBUG=INFO for details"));
      EXPECT_EQ((*world)->barrier().error().message, outcome.error().message);
      expect_aborted(failed, looked);
    }
    ASSERT_TRUE(rank.control.barrier().has_value());
    if (rank.control.rank() == 0) fault.reset();
    ASSERT_TRUE(rank.control.barrier().has_value());
    EXPECT_TRUE(sum_anew(rank.control).has_value());
  });
}

INSTANTIATE_TEST_SUITE_P(All, NcclErrors, testing::Values(Fault::kCall, Fault::kLater),
                         [](const testing::TestParamInfo<Fault>& fault) {
                           return fault.param == Fault::kCall ? "AtOnce" : "Later";
                         });

TEST_F(NcclFaults, AnErrorInASumIsReturnedByFinishOnAllRanks) {
  std::unique_ptr<ScopedFault> fault;
  std::latch failed(2);
  std::latch looked(2);
  on_ranks(2, [&](const TestRank& rank) {
    const auto device = rank.open_device();
    auto sum = nccl_sum(rank.control, *device, {{.count = kCount}, {.count = kCount}}, soon());
    ASSERT_TRUE(sum.has_value()) << to_string(sum.error());
    if (rank.control.rank() == 0) fault = std::make_unique<ScopedFault>(Fault::kLater, 1);
    ASSERT_TRUE(rank.control.barrier().has_value());
    EXPECT_TRUE((*sum)->start(0).has_value());
    EXPECT_TRUE((*sum)->start(1).has_value());
    const Result<void> outcome = (*sum)->finish(soon());
    ASSERT_FALSE(outcome.has_value());
    expect_failure_of_rank_1(outcome.error(), rank.control.rank(), "NCCL: unhandled system");
    EXPECT_EQ((*sum)->start(0).error().message, outcome.error().message);
    EXPECT_EQ((*sum)->finish(soon()).error().message, outcome.error().message);
    expect_aborted(failed, looked);
  });
}

TEST_F(NcclFaults, AFailedGpuIsALostRankForTheOthersThatWaitForASum) {
  const ScopedFault fault(Fault::kHang, 1);
  std::latch failed(3);
  std::latch looked(3);
  on_ranks(3, [&](const TestRank& rank) {
    const auto device = rank.open_device();
    auto sum = nccl_sum(rank.control, *device, {{.count = kCount}}, soon());
    ASSERT_TRUE(sum.has_value()) << to_string(sum.error());
    ASSERT_TRUE((*sum)->start(0).has_value());
    std::optional<cuda::emulation::FailedGpu> gpu;
    // The GPU still takes the sum and the mark behind it.
    if (rank.control.rank() == 1) gpu.emplace(2);
    const Result<void> outcome = (*sum)->finish(Deadline::never());
    gpu.reset();
    ASSERT_FALSE(outcome.has_value());
    expect_failure_of_rank_1(outcome.error(), rank.control.rank(),
                             "the GPU failed while waiting for NCCL: an illegal memory access");
    expect_aborted(failed, looked);
  });
}

// Rank 2 ends its sum before the others wait for it, and NCCL waits on their GPUs.
TEST_F(NcclFaults, ALossThatIsKnownBeforeASumIsFinishedEndsNccl) {
  std::latch failed(3);
  std::latch looked(3);
  on_ranks(3, [&](const TestRank& rank) {
    const auto device = rank.open_device();
    auto sum = nccl_sum(rank.control, *device, {{.count = kCount}}, soon());
    ASSERT_TRUE(sum.has_value()) << to_string(sum.error());
    const Error loss = make_error(ErrorCode::kPeerLost, 2, "rank 2: gone");
    if (rank.control.rank() == 2) (*sum)->abort(loss);
    // The abort of rank 2 has usually arrived then.
    ASSERT_TRUE(rank.control.barrier({.by = soon()}).has_value());
    if (rank.control.rank() != 2) {
      ASSERT_TRUE((*sum)->start(0).has_value());
      const Result<void> outcome = (*sum)->finish(Deadline::never());
      ASSERT_FALSE(outcome.has_value());
      EXPECT_EQ(outcome.error().peer, 2) << to_string(outcome.error());
      EXPECT_EQ(outcome.error().message, loss.message);
    }
    expect_aborted(failed, looked);
  });
}

// NCCL ends the communicators of rank 0 only together.
TEST_F(NcclFaults, TheQueuesOfAGpuAreAbortedTogether) {
  const ScopedFault fault(Fault::kAbort, 0);
  std::latch failed(2);
  std::latch looked(2);
  on_ranks(2, [&](const TestRank& rank) {
    const auto device = rank.open_device();
    auto sum = nccl_sum(rank.control, *device, {{.count = kCount}}, soon());
    auto gather = nccl_gather(rank.control, *device, {kCount}, soon());
    ASSERT_TRUE(sum.has_value() && gather.has_value());
    ASSERT_TRUE(rank.control.barrier({.by = soon()}).has_value());
    if (rank.control.rank() == 0) {
      ASSERT_TRUE((*gather)->start(0, 10).has_value());
      ASSERT_TRUE((*sum)->start(0).has_value());
      const TimePoint begin = steady_now();
      const Result<void> outcome = (*sum)->finish(short_deadline());
      EXPECT_LT(steady_now() - begin, std::chrono::seconds(8)) << "one abort waited for the other";
      ASSERT_FALSE(outcome.has_value());
      EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout) << to_string(outcome.error());
      EXPECT_EQ((*gather)->finish(soon()).error().message, outcome.error().message);
    } else {
      // It waits for the other queue.
      Result<void> outcome = (*gather)->start(0, 10);
      if (outcome.has_value()) outcome = (*gather)->finish(Deadline::never());
      EXPECT_FALSE(outcome.has_value());
    }
    expect_aborted(failed, looked);
  });
}

TEST_F(NcclFaults, AnOperationThatHangsEndsAtTheDeadlineWithoutABlamedRank) {
  const ScopedFault fault(Fault::kHang, 1);
  on_ranks(3, [](const TestRank& rank) {
    auto world = NcclCommunicator::make(rank.control, rank.gpu, soon());
    ASSERT_TRUE(world.has_value()) << to_string(world.error());
    const Result<void> outcome = sum_of(**world, short_deadline());
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout) << to_string(outcome.error());
    EXPECT_EQ(outcome.error().peer, kNoRank);
    EXPECT_THAT(outcome.error().message, HasSubstr("all ranks have entered it"));
  });
}

TEST_F(NcclFaults, ARankThatStaysAwayFromASumIsNamedAtTheDeadline) {
  std::latch over(3);
  on_ranks(3, [&over](const TestRank& rank) {
    const auto device = rank.open_device();
    auto sum = nccl_sum(rank.control, *device, {{.count = kCount}}, soon());
    ASSERT_TRUE(sum.has_value()) << to_string(sum.error());
    ASSERT_TRUE(rank.control.barrier().has_value());
    if (rank.control.rank() != 1) {
      ASSERT_TRUE((*sum)->start(0).has_value());
      const Result<void> outcome = (*sum)->finish(short_deadline());
      ASSERT_FALSE(outcome.has_value());
      EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout) << to_string(outcome.error());
      EXPECT_EQ(outcome.error().peer, 1);
    }
    over.arrive_and_wait();
  });
}

TEST_F(NcclFaults, ALostRankIsNamedInTheMiddleOfASum) {
  std::latch under_way(3);
  run_ranks(Network::kInProcess, 3, [&under_way](Job& job) {
    const TestRank rank{.control = job.world()};
    const auto device = rank.open_device();
    auto sum = nccl_sum(job.world(), *device, {{.count = kCount}, {.count = kCount}}, soon());
    ASSERT_TRUE(sum.has_value()) << to_string(sum.error());
    ASSERT_TRUE((*sum)->start(0).has_value());
    under_way.arrive_and_wait();
    if (job.rank() == 2) return job.close();
    ASSERT_TRUE((*sum)->start(1).has_value());
    const Result<void> outcome = (*sum)->finish(soon());
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code, ErrorCode::kPeerLost) << to_string(outcome.error());
    EXPECT_EQ(outcome.error().peer, 2);
  });
}

// Rank 1 has not told the size of its part, so that the gather cannot be issued. A sum that another
// rank issued before it would be in another order than there.
TEST_F(NcclFaults, ASumWaitsForItsTurnBehindAGather) {
  std::latch looked(2);
  on_ranks(2, [&looked](const TestRank& rank) {
    const auto device = rank.open_device();
    auto sum = nccl_sum(rank.control, *device, {{.count = kCount}}, soon());
    auto gather = nccl_gather(rank.control, *device, {kCount}, soon());
    ASSERT_TRUE(sum.has_value() && gather.has_value());
    if (rank.control.rank() == 1) looked.arrive_and_wait();
    const int before = issued_groups();
    EXPECT_TRUE((*gather)->start(0, 10).has_value());
    EXPECT_TRUE((*sum)->start(0).has_value());
    if (rank.control.rank() == 0) {
      EXPECT_EQ(issued_groups(), before);
      looked.arrive_and_wait();
    }
    EXPECT_TRUE((*sum)->finish(soon()).has_value());
    EXPECT_TRUE((*gather)->finish(soon()).has_value());
  });
}

// Its sizes are never exchanged. The rank waits a bounded time for the other one.
TEST_F(NcclFaults, AGatherThatOneRankAloneHasStartedDoesNotOutliveItsOwner) {
  std::latch gone(2);
  on_ranks(2, [&gone](const TestRank& rank) {
    const auto device = rank.open_device();
    auto gather = nccl_gather(rank.control, *device, {kCount}, soon());
    ASSERT_TRUE(gather.has_value()) << to_string(gather.error());
    if (rank.control.rank() == 0) {
      EXPECT_TRUE((*gather)->start(0, 10).has_value());
      gather->reset();
    }
    gone.arrive_and_wait();
  });
}

TEST_F(NcclFaults, CloseEndsAnOperationThatHangs) {
  const ScopedFault fault(Fault::kHang, 0);
  std::latch closed(2);
  on_ranks(2, [&closed](const TestRank& rank) {
    auto world = NcclCommunicator::make(rank.control, rank.gpu, soon());
    ASSERT_TRUE(world.has_value()) << to_string(world.error());
    const auto memory = (*world)->allocate(kCount * sizeof(float));
    Handle sum = (*world)->start({.operation = Operation::kAllreduce,
                                  .input = memory->bytes().data(),
                                  .output = memory->bytes().data(),
                                  .count = kCount,
                                  .type = DataType::kFloat32,
                                  .by = soon()});
    (*world)->close();
    EXPECT_EQ(sum.wait().error().code, ErrorCode::kClosed);
    closed.arrive_and_wait();
  });
}

// Without a word from rank 1, which enters no operation, the others would wait for it.
TEST_F(NcclFaults, AFailedGpuBeforeAnOperationIsALostRankForTheOthers) {
  for (const bool in_check : {false, true}) {
    on_ranks(3, [in_check](const TestRank& rank) {
      auto world = NcclCommunicator::make(rank.control, rank.gpu, soon());
      ASSERT_TRUE(world.has_value()) << to_string(world.error());
      const auto memory = (*world)->allocate(kCount * sizeof(float));
      ASSERT_TRUE(memory.has_value());
      std::optional<cuda::emulation::FailedGpu> gpu;
      if (rank.control.rank() == 1) gpu.emplace(in_check ? 2 : 0);
      const Result<void> outcome =
          (*world)->allreduce(memory->as<float>(), ReduceOp::kSum, {.by = Deadline::never()});
      gpu.reset();
      ASSERT_FALSE(outcome.has_value());
      expect_failure_of_rank_1(
          outcome.error(), rank.control.rank(),
          in_check ? "the GPU failed while looking at" : "the GPU failed while recording the work");
    });
  }
}

TEST_F(NcclFaults, AMessageEndsAtItsDeadlineIfTheGpuHangsBeforeIt) {
  on_ranks(2, [](const TestRank& rank) {
    auto world = NcclCommunicator::make(rank.control, rank.gpu, soon());
    ASSERT_TRUE(world.has_value()) << to_string(world.error());
    const auto memory = (*world)->allocate(kCount * sizeof(float));
    ASSERT_TRUE(memory.has_value());
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    std::promise<void> release;
    std::future<void> released = release.get_future();
    const auto hang = [](void* data) {
      (void)static_cast<std::future<void>*>(data)->wait_for(std::chrono::seconds(20));
    };
    if (rank.control.rank() == 0) {
      ASSERT_EQ(cudaLaunchHostFunc(stream, hang, &released), cudaSuccess);
      (*world)->follow(stream);
      const auto sent = (*world)->send(std::span<const float>(memory->as<float>()), 1, 0,
                                       {.by = short_deadline()});
      ASSERT_FALSE(sent.has_value());
      EXPECT_EQ(sent.error().code, ErrorCode::kTimeout) << to_string(sent.error());
      EXPECT_THAT(sent.error().message, HasSubstr("GPU 0 has not done its earlier work"));
      release.set_value();
    } else {
      const auto received = (*world)->receive(memory->as<float>(), 0, 0, {.by = Deadline::never()});
      ASSERT_FALSE(received.has_value());
      EXPECT_EQ(received.error().code, ErrorCode::kTimeout) << to_string(received.error());
    }
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  });
}

}  // namespace
}  // namespace tally::nccl::emulation
