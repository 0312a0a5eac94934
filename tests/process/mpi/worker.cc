// One rank of an MPI job in which something fails: mpi_worker SCENARIO [FILE]. It prints the
// outcome of each operation to stdout, a line each that begins with its rank.
#include <csignal>
#include <cstdio>
#include <filesystem>
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

// For operations that must succeed, and for ranks that must not end by themselves.
constexpr seconds kLong(120);
constexpr seconds kNever(3600);

Call within(milliseconds time) { return {.by = Deadline::after(time)}; }

// The last rank stays away. The others give up, and cannot use any part of the job after that.
Result<void> stay_away(Communicator& world) {
  TALLY_TRY(const auto other, world.split(0, 0, Deadline::after(kLong)));
  if (world.rank() + 1 == world.size()) {
    std::this_thread::sleep_for(kNever);
    return {};
  }
  std::vector<float> data(1000, 1.0F);
  tell(world, "allreduce",
       world.allreduce(std::span<float>(data), ReduceOp::kSum, within(milliseconds(300))));
  tell(world, "again", world.barrier(within(milliseconds(300))));
  tell(world, "elsewhere", other->barrier(within(milliseconds(300))));
  return {};
}

// A receive can be cancelled: the rest of the job goes on.
Result<void> receive_in_vain(Communicator& world) {
  TALLY_TRY(const auto other, world.split(0, 0, Deadline::after(kLong)));
  std::vector<float> data(10);
  if (world.rank() == 0)
    tell(world, "receive", other->receive(std::span<float>(data), 1, 3, within(milliseconds(200))));
  tell(world, "world", world.barrier(within(kLong)));
  return {};
}

Result<void> send_other_counts(Communicator& world) {
  for (const std::size_t count : {std::size_t{5}, std::size_t{9}}) {
    TALLY_TRY(const auto pair, world.split(0, 0, Deadline::after(kLong)));
    std::vector<float> data(world.rank() == 0 ? 7 : count);
    const Result<void> outcome =
        world.rank() == 0 ? pair->receive(std::span<float>(data), 1, 0, within(kLong))
                          : pair->send(std::span<const float>(data), 0, 0, within(kLong));
    tell(world, fmt::format("{} for 7", count), outcome);
  }
  return {};
}

// Rank 1 dies while the others wait for it.
Result<void> die(Communicator& world) {
  TALLY_TRY(world.barrier(within(kLong)));
  tell(world, "here", {});
  if (world.rank() == 1) std::raise(SIGKILL);
  return world.barrier(within(kNever));
}

// A stack that is captured during the computation must show this name.
[[gnu::noinline]] void compute_until_exists(const std::string& file) {
  while (!std::filesystem::exists(file))
    for (int i = 0; i < 1'000'000; ++i) asm volatile("" ::: "memory");
}

// The last rank of the job computes until `file` exists, while the others wait for it in `where`.
Result<void> compute(Job& job, Communicator& where, const std::string& file) {
  TALLY_TRY(where.barrier(within(kLong)));
  job.count_step(10);
  if (job.rank() + 1 == job.size()) compute_until_exists(file);
  std::vector<float> data(50000, 1.0F);
  const Result<void> outcome =
      where.allreduce(std::span<float>(data), ReduceOp::kSum, within(kNever));
  tell(job.world(), "sum", outcome);
  return outcome;
}

// After rank 0 has read a character, the last rank stops for ever.
Result<void> freeze(Communicator& world) {
  if (world.rank() == 0) (void)std::getchar();
  TALLY_TRY(world.barrier(within(kLong)));
  if (world.rank() + 1 == world.size()) std::raise(SIGSTOP);
  std::vector<float> data(50000, 1.0F);
  tell(world, "sum", world.allreduce(std::span<float>(data), ReduceOp::kSum, within(kNever)));
  tell(world, "again", world.barrier(within(kNever)));
  // The launcher ends the other ranks when one ends: each waits until the test ends the job.
  std::this_thread::sleep_for(kNever);
  return {};
}

// The ranks of the communicator differ from those of the job.
Result<void> compute_in_split(Job& job, const std::string& file) {
  TALLY_TRY(const auto other, job.world().split(0, -job.rank(), Deadline::after(kLong)));
  return compute(job, *other, file);
}

int run(const std::string& scenario, const std::string& file) {
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
  if (scenario == "compute") outcome = compute(**job, world, file);
  if (scenario == "compute-in-split") outcome = compute_in_split(**job, file);
  if (scenario == "freeze") outcome = freeze(world);
  if (!outcome.has_value()) tell(world, "failed", outcome);
  return outcome.has_value() ? 0 : 1;
}

}  // namespace
}  // namespace tally::process

int main(int argc, char** argv) {
  return tally::process::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
}
