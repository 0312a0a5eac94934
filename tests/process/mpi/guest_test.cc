// A program that links with MPI and uses it itself joins a job of engine=mpi. mpirun starts it with
// the thread level that it initialises MPI with: guest THREAD-LEVEL.
#include <mpi.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/mpi/mpi_communicator.h"
#include "tally/job.h"

namespace tally::mpi {
namespace {

JobOptions options(MpiInside inside) {
  return {.operation_timeout = std::chrono::seconds(30),
          .engine = Engine::kMpi,
          .mpi_inside = inside,
          .dump_on_sigquit = false};
}

TEST(MpiGuest, JoinsBesideTheProgramsOwnUseOfMpi) {
  for (const MpiInside inside : {MpiInside::kMpi, MpiInside::kAuto}) {
    auto job = Job::join(options(inside));
    ASSERT_TRUE(job.has_value()) << to_string(job.error());
    Communicator& world = (*job)->world();
    std::vector<float> blocking(1000, 1.0F);
    std::vector<float> started(1000, 2.0F);
    Handle handle = world.start({.operation = Operation::kAllreduce,
                                 .input = started.data(),
                                 .output = started.data(),
                                 .count = started.size(),
                                 .type = DataType::kFloat32});
    ASSERT_TRUE(world.allreduce(std::span<float>(blocking)).has_value());
    ASSERT_TRUE(handle.wait().has_value());
    EXPECT_EQ(blocking[999], static_cast<float>(world.size()));
    EXPECT_EQ(started[999], 2.0F * static_cast<float>(world.size()));
    int own = world.rank();
    MPI_Allreduce(MPI_IN_PLACE, &own, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    EXPECT_EQ(own, world.size() - 1);
    (*job)->close();
  }
  int finalised = 0;
  MPI_Finalized(&finalised);
  EXPECT_EQ(finalised, 0);
}

// The communicator of all ranks with MPI calls of at most 7 elements, so that short operations are
// cut like operations of more than INT_MAX elements.
class Cut : public testing::Test {
 protected:
  void SetUp() override {
    context_->most_elements = 7;
    context_->operation_timeout = std::chrono::seconds(30);
    auto process = MpiProcess::start();
    ASSERT_TRUE(process.has_value());
    context_->process = *process;
    ASSERT_TRUE(context_->ops.make().has_value());
    auto made = MpiCommunicator::world(context_, Deadline::after(std::chrono::seconds(30)));
    ASSERT_TRUE(made.has_value()) << to_string(made.error());
    world_ = *std::move(made);
    n_ = static_cast<std::size_t>(world_->size());
    me_ = static_cast<std::size_t>(world_->rank());
    for (std::size_t rank = 0; rank < n_; ++rank) counts_.push_back(rank == 1 ? 0 : 10 * rank + 3);
    total_ = std::accumulate(counts_.begin(), counts_.end(), std::size_t{0});
    start_ = std::accumulate(counts_.begin(), counts_.begin() + world_->rank(), std::size_t{0});
  }
  static std::int32_t value(std::size_t rank, std::size_t i) {
    return static_cast<std::int32_t>(1000 * rank + i);
  }
  std::vector<std::int32_t> values(std::size_t count) const {
    std::vector<std::int32_t> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = value(me_, i);
    return all;
  }
  std::int32_t sum(std::size_t i) const {
    std::int32_t result = 0;
    for (std::size_t rank = 0; rank < n_; ++rank) result += value(rank, i);
    return result;
  }
  void run(Request request, const std::vector<std::int32_t>& input,
           std::vector<std::int32_t>& output) {
    request.input = input.data();
    request.output = output.data();
    request.type = DataType::kInt32;
    const auto outcome = world_->run(request);
    ASSERT_TRUE(outcome.has_value()) << to_string(outcome.error());
  }

  std::shared_ptr<MpiContext> context_ = std::make_shared<MpiContext>();
  std::unique_ptr<MpiCommunicator> world_;
  std::vector<std::size_t> counts_;
  std::size_t n_ = 1;
  std::size_t me_ = 0;
  std::size_t total_ = 0;
  std::size_t start_ = 0;  // of this rank's part
};

TEST_F(Cut, ReductionsGiveTheSameSums) {
  std::vector<std::int32_t> output(100);
  run({.operation = Operation::kAllreduce, .count = 100, .reduce_op = ReduceOp::kAverage},
      values(100), output);
  for (std::size_t i = 0; i < 100; ++i)
    ASSERT_EQ(output[i], sum(i) / static_cast<std::int32_t>(n_));
  run({.operation = Operation::kReduce, .count = 100, .root = 1}, values(100), output);
  for (std::size_t i = 0; me_ == 1 && i < 100; ++i) ASSERT_EQ(output[i], sum(i));
  std::vector<std::int32_t> part(counts_[me_]);
  run({.operation = Operation::kReduceScatter, .counts = counts_}, values(total_), part);
  for (std::size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], sum(start_ + i));
}

TEST_F(Cut, MovesPutEveryElementInItsPlace) {
  std::vector<std::int32_t> output(100);
  run({.operation = Operation::kBroadcast, .count = 100, .root = 1}, values(100), output);
  for (std::size_t i = 0; i < 100; ++i) ASSERT_EQ(output[i], value(1, i));

  std::vector<std::int32_t> all(total_);
  run({.operation = Operation::kAllgather, .counts = counts_}, values(counts_[me_]), all);
  std::vector<std::int32_t> expected;
  for (std::size_t rank = 0; rank < n_; ++rank)
    for (std::size_t i = 0; i < counts_[rank]; ++i) expected.push_back(value(rank, i));
  ASSERT_EQ(all, expected);

  std::vector<std::int32_t> gathered(total_);
  run({.operation = Operation::kGather, .root = 1, .counts = counts_}, values(counts_[me_]),
      gathered);
  if (me_ == 1) {
    ASSERT_EQ(gathered, expected);
  }
  std::vector<std::int32_t> part(counts_[me_]);
  run({.operation = Operation::kScatter, .root = 1, .counts = counts_}, gathered, part);
  ASSERT_EQ(part, values(counts_[me_]));
}

TEST_F(Cut, AllToAllAndMessagesArriveWhole) {
  std::vector<std::int32_t> input;
  std::vector<std::int32_t> expected;
  for (std::size_t other = 0; other < n_; ++other) {
    for (std::size_t i = 0; i < 20; ++i) {
      input.push_back(value(me_, 100 * other + i));
      expected.push_back(value(other, 100 * me_ + i));
    }
  }
  std::vector<std::int32_t> output(input.size());
  run({.operation = Operation::kAllToAll, .count = 20}, input, output);
  ASSERT_EQ(output, expected);

  const Rank right = static_cast<Rank>((me_ + 1) % n_);
  const Rank left = static_cast<Rank>((me_ + n_ - 1) % n_);
  const std::vector<std::int32_t> sent = values(50);
  std::vector<std::int32_t> message(50);
  // Without other threads a send may wait for its receive, so rank 0 sends first.
  if (me_ == 0) {
    ASSERT_TRUE(world_->send(std::span<const std::int32_t>(sent), right, 4).has_value());
  }
  ASSERT_TRUE(world_->receive(std::span<std::int32_t>(message), left, 4).has_value());
  if (me_ != 0) {
    ASSERT_TRUE(world_->send(std::span<const std::int32_t>(sent), right, 4).has_value());
  }
  for (std::size_t i = 0; i < 50; ++i)
    ASSERT_EQ(message[i], value(static_cast<std::size_t>(left), i));
}

}  // namespace
}  // namespace tally::mpi

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, argc > 1 ? std::atoi(argv[1]) : MPI_THREAD_SINGLE, &provided);
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
