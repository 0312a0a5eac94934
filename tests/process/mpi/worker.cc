// One rank of an MPI job in which a failure occurs: mpi_worker SCENARIO. It prints each outcome on
// a line of stdout that begins with its rank.
#include <csignal>
#include <cstdio>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "tally/job.h"

namespace tally::process {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void tell(const Communicator& world, const std::string& what, const Result<void>& outcome) {
  fmt::print("rank {} {}: {}\n", world.rank(), what,
             outcome.has_value() ? "ok" : to_string(outcome.error()));
  std::fflush(stdout);
}

Call within(milliseconds time) { return {.by = Deadline::after(time)}; }

// The last rank stays away. The others give up at the deadline and find all communicators unusable.
Result<void> stay_away(Communicator& world) {
  TALLY_TRY(const auto other, world.split(0, 0, Deadline::after(seconds(20))));
  if (world.rank() + 1 == world.size()) {
    std::this_thread::sleep_for(seconds(20));
    return {};
  }
  std::vector<float> data(1000, 1.0F);
  tell(world, "allreduce",
       world.allreduce(std::span<float>(data), ReduceOp::kSum, within(milliseconds(300))));
  tell(world, "again", world.barrier(within(milliseconds(300))));
  tell(world, "elsewhere", other->barrier(within(milliseconds(300))));
  return {};
}

// A receive can be cancelled, so other communicators of the job stay usable.
Result<void> receive_in_vain(Communicator& world) {
  TALLY_TRY(const auto other, world.split(0, 0, Deadline::after(seconds(20))));
  std::vector<float> data(10);
  if (world.rank() == 0)
    tell(world, "receive", other->receive(std::span<float>(data), 1, 3, within(milliseconds(200))));
  tell(world, "world", world.barrier(within(seconds(20))));
  return {};
}

Result<void> send_other_counts(Communicator& world) {
  for (const std::size_t count : {std::size_t{5}, std::size_t{9}}) {
    TALLY_TRY(const auto pair, world.split(0, 0, Deadline::after(seconds(20))));
    std::vector<float> data(world.rank() == 0 ? 7 : count);
    const Result<void> outcome =
        world.rank() == 0 ? pair->receive(std::span<float>(data), 1, 0, within(seconds(20)))
                          : pair->send(std::span<const float>(data), 0, 0, within(seconds(20)));
    tell(world, fmt::format("{} for 7", count), outcome);
  }
  return {};
}

// Rank 1 dies while the others wait for it.
Result<void> die(Communicator& world) {
  TALLY_TRY(world.barrier(within(seconds(20))));
  tell(world, "here", {});
  if (world.rank() == 1) std::raise(SIGKILL);
  return world.barrier(within(seconds(60)));
}

milliseconds processor_time() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return std::chrono::duration_cast<milliseconds>(seconds(spent.tv_sec) +
                                                  std::chrono::nanoseconds(spent.tv_nsec));
}

// A function whose name the stack must show. It counts processor time, so it takes longer on a busy
// machine, like the coordinator that looks at it.
[[gnu::noinline]] void compute_for(milliseconds time) {
  const milliseconds end = processor_time() + time;
  while (processor_time() < end) asm volatile("" ::: "memory");
}

// The last rank of the job computes while the others wait for it in `where`.
Result<void> compute(Job& job, Communicator& where) {
  TALLY_TRY(where.barrier(within(seconds(20))));
  job.count_step(10);
  if (job.rank() + 1 == job.size()) compute_for(seconds(3));
  std::vector<float> data(50000, 1.0F);
  const Result<void> outcome =
      where.allreduce(std::span<float>(data), ReduceOp::kSum, within(seconds(60)));
  tell(job.world(), "sum", outcome);
  return outcome;
}

// The last rank stops for ever after rank 0 has read a character.
Result<void> freeze(Communicator& world) {
  if (world.rank() == 0) (void)std::getchar();
  TALLY_TRY(world.barrier(within(seconds(20))));
  if (world.rank() + 1 == world.size()) std::raise(SIGSTOP);
  std::vector<float> data(50000, 1.0F);
  tell(world, "sum", world.allreduce(std::span<float>(data), ReduceOp::kSum, within(seconds(60))));
  tell(world, "again", world.barrier(within(seconds(60))));
  // The other ranks print their lines before this rank exits and the launcher ends them.
  std::this_thread::sleep_for(seconds(1));
  return {};
}

// The communicator numbers its ranks in the reverse order of the job.
Result<void> compute_in_split(Job& job) {
  TALLY_TRY(const auto other, job.world().split(0, -job.rank(), Deadline::after(seconds(20))));
  return compute(job, *other);
}

int run(const std::string& scenario) {
  auto job = Job::join();
  if (!job.has_value()) {
    fmt::print("cannot join: {}\n", to_string(job.error()));
    return 1;
  }
  Communicator& world = (*job)->world();
  if (scenario == "reform") {
    tell(world, "reform", (*job)->reform({1}, Deadline::after(seconds(1))));
    return 0;
  }
  Result<void> outcome;
  if (scenario == "stay-away") outcome = stay_away(world);
  if (scenario == "receive-in-vain") outcome = receive_in_vain(world);
  if (scenario == "other-counts") outcome = send_other_counts(world);
  if (scenario == "die") outcome = die(world);
  if (scenario == "compute") outcome = compute(**job, world);
  if (scenario == "compute-in-split") outcome = compute_in_split(**job);
  if (scenario == "freeze") outcome = freeze(world);
  if (!outcome.has_value()) tell(world, "failed", outcome);
  return outcome.has_value() ? 0 : 1;
}

}  // namespace
}  // namespace tally::process

int main(int argc, char** argv) { return tally::process::run(argc > 1 ? argv[1] : ""); }
